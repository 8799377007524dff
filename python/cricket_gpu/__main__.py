"""`python3 -m cricket_gpu ARGUMENT...` is `cricket ARGUMENT...`; and `jupyter install` makes a kernel."""
import os
import sys

from . import command, jupyter

if sys.argv[1:3] == ["jupyter", "install"]:
    sys.exit(jupyter.install(sys.argv[3:]))
os.execv(command(), ["cricket", *sys.argv[1:]])
