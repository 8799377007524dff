"""Cricket's client: run CUDA programs on the GPU of another machine.

    cricket run -s gpuhost -- python3 train.py
    python3 -m cricket_gpu run -s gpuhost -- python3 train.py     the same where `cricket` is not in PATH
"""
import importlib.metadata
import pathlib

__all__ = ["command", "folder", "library"]


def _file(end):
    """A file of the installed package, by the end of its path, which is relative to the modules."""
    for path in importlib.metadata.files("cricket-gpu") or ():
        if str(path).endswith(end):
            return pathlib.Path(path.locate()).resolve()
    raise FileNotFoundError(f"{end}: cricket-gpu is not installed completely: pip install --force-reinstall cricket-gpu")


def command():
    """The program `cricket`."""
    return _file("bin/cricket")


def library():
    """The client, for LD_PRELOAD."""
    return _file("cricket/cricket-client.so")


def folder():
    """The folder with the driver's names, for LD_LIBRARY_PATH."""
    return library().parent / "lib"
