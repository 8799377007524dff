"""Cricket in notebooks: the magic `%cricket`.

    %load_ext cricket_gpu
    %cricket connect gpuhost --gpus 1          before the first use of CUDA in the kernel
    %cricket status

`cricket jupyter -s gpuhost` makes a kernel whose notebooks need none of this.
"""
import argparse
import shlex
import sys

import cricket_gpu

OPTIONS = ("--gpus", "--mem", "--wait", "--devices", "--pin")
USAGE = ("%cricket connect [SERVER] [--gpus N] [--mem SIZE] [--wait TIME] [--devices LIST] [--pin PIN], %cricket status [SERVER], "
         "or %cricket disconnect")


class _Usage(Exception):
    pass


class _Words(argparse.ArgumentParser):
    """A wrong line is an error of the cell, not the end of the kernel."""

    def error(self, message):
        raise _Usage(message)


def magic(line):
    """What `%cricket LINE` does. Problems are printed, as a cell's output."""
    parser = _Words(add_help=False)
    parser.add_argument("what", choices=("connect", "disconnect", "status"))
    parser.add_argument("server", nargs="?")
    for name in OPTIONS:
        parser.add_argument(name)
    try:
        words = parser.parse_args(shlex.split(line))
    except (_Usage, ValueError) as problem:
        print(f"{problem}\n{USAGE}", file=sys.stderr)
        return None
    if words.what == "status":
        return cricket_gpu.status(words.server)
    if words.what == "disconnect":
        return cricket_gpu.disconnect()
    address = cricket_gpu.connect(words.server, words.gpus, words.mem, words.wait, words.devices, pin=words.pin)
    print(f"CUDA runs on {address or 'this host'}")
    return None


def load_ipython_extension(shell):
    """`%load_ext cricket_gpu`."""
    shell.register_magic_function(magic, "line", "cricket")
