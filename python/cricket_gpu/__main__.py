"""`python3 -m cricket_gpu ARGUMENT...` is `cricket ARGUMENT...`."""
import os
import sys

from . import command

os.execv(command(), ["cricket", *sys.argv[1:]])
