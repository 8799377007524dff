"""Cricket in notebooks: the magic `%cricket`, and kernels whose notebooks run on a server's GPUs.

    %load_ext cricket_gpu
    %cricket connect gpuhost --gpus 1          before the first use of CUDA in the kernel
    %cricket status

    python3 -m cricket_gpu jupyter install -s gpuhost --name gpuhost
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import sys

import cricket_gpu

USAGE = "%cricket connect [SERVER] [--gpus N] [--mem SIZE] [--wait TIME] [--devices LIST], or %cricket status [SERVER]"


class _Usage(Exception):
    pass


class _Words(argparse.ArgumentParser):
    """A wrong line is an error of the cell, not the end of the kernel."""

    def error(self, message):
        raise _Usage(message)


def _options(parser):
    for name in ("--gpus", "--mem", "--wait", "--devices"):
        parser.add_argument(name)


def magic(line):
    """What `%cricket LINE` does. Problems are printed, as a cell's output."""
    parser = _Words(add_help=False)
    parser.add_argument("what", choices=("connect", "status"))
    parser.add_argument("server", nargs="?")
    _options(parser)
    try:
        words = parser.parse_args(shlex.split(line))
    except (_Usage, ValueError) as problem:
        print(f"{problem}\n{USAGE}", file=sys.stderr)
        return None
    if words.what == "status":
        return cricket_gpu.status(words.server)
    address = cricket_gpu.connect(words.server, words.gpus, words.mem, words.wait, words.devices)
    print(f"CUDA runs on {address or 'this host'}")
    return None


def load_ipython_extension(shell):
    """`%load_ext cricket_gpu`."""
    shell.register_magic_function(magic, "line", "cricket")


def _folder(name, prefix):
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise ValueError(f"--name: letters, digits and ._- only: {name}")
    data = pathlib.Path(prefix) / "share/jupyter" if prefix else pathlib.Path(
        os.environ.get("JUPYTER_DATA_DIR") or pathlib.Path.home() / ".local/share/jupyter")
    return data / "kernels" / name.lower()


def install(arguments):
    """`jupyter install`: writes a kernel's specification, and prints its folder. The exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m cricket_gpu jupyter install",
                                     description="Make a Jupyter kernel whose notebooks run on a server's GPUs.")
    parser.add_argument("-s", "--server", required=True)
    parser.add_argument("--name", default="cricket", help="the kernel's (default cricket)")
    parser.add_argument("--prefix", help="install below PREFIX/share/jupyter, as for sys.prefix of an environment")
    _options(parser)
    words = parser.parse_args(arguments)
    run = [cricket_gpu.program(), "run", "-s", words.server]
    for name in ("gpus", "mem", "wait", "devices"):
        if getattr(words, name) is not None:
            run += [f"--{name}", getattr(words, name)]
    try:
        folder = _folder(words.name, words.prefix)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.json").write_text(json.dumps({
            "display_name": f"Python 3 on {words.server}", "language": "python",
            "argv": [*run, "--", sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}, indent=1) + "\n",
            encoding="utf-8")
    except (OSError, ValueError) as problem:
        print(f"cricket: {problem}", file=sys.stderr)
        return 1
    print(folder)
    return 0
