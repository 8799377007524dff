"""`python3 -m cricket_gpu ARGUMENT...` is `cricket ARGUMENT...`; kernels that it makes for Jupyter run with this Python."""
import os
import sys

from . import program

words = sys.argv[1:]
if words[:2] == ["jupyter", "install"]:
    del words[1]
if words[:1] == ["jupyter"]:
    words[1:1] = ["--python", sys.executable]
os.execv(program(), ["cricket", *words])
