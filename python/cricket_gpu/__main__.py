"""`python3 -m cricket_gpu ARGUMENT...` is `cricket ARGUMENT...`; kernels that it makes for Jupyter run with this Python."""
import os
import sys

from . import program

words = sys.argv[1:]
if words[:1] == ["jupyter"]:
    at = 2 if words[1:2] == ["install"] else 1
    words[at:at] = ["--python", sys.executable]
os.execv(program(), ["cricket", *words])
