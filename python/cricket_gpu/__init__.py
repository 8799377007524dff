"""Cricket's client: run CUDA programs on the GPU of another machine.

    cricket run -s gpuhost -- python3 train.py
    python3 -m cricket_gpu run -s gpuhost -- python3 train.py     the same where `cricket` is not in PATH

In a program, before its first use of CUDA:

    import cricket_gpu
    cricket_gpu.connect("gpuhost")
    cricket_gpu.connect("srv:gpu.example.org", gpus=2, mem="40G")     on GPUs that have so much memory free

In a notebook: `%load_ext cricket_gpu`, then `%cricket connect gpuhost` (jupyter.py).
"""
import ctypes
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess

__all__ = ["command", "connect", "folder", "library", "program", "status"]


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


def program():
    """The command of the package, else the one in PATH."""
    try:
        return str(command())
    except (FileNotFoundError, importlib.metadata.PackageNotFoundError):
        found = shutil.which("cricket")
        if not found:
            raise FileNotFoundError("there is no command cricket: install cricket-gpu, or put cricket into PATH") from None
        return found


def _other_driver(client):
    """The file of a CUDA driver that this process has loaded and that is not CLIENT, or None."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "/libcuda.so" in line}
    return next((path for path in paths if os.path.realpath(path) != os.path.realpath(client)), None)


def connect(server=None, gpus=None, mem=None, wait=None, devices=None):
    """Makes this process, and those that it starts, use the GPUs of SERVER: as `cricket run` does, with the same options.

    It must come before the first use of CUDA. Returns the address that was chosen, or None for the server of this host.
    ConnectionError: the command refuses, or no server has such GPUs; its text says why.
    """
    options = {"--server": server, "--gpus": gpus, "--mem": mem, "--wait": wait, "--devices": devices}
    words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    done = subprocess.run([program(), "env", "--format", "plain", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise ConnectionError(done.stderr.strip().replace("cricket: ", ""))
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines())
    client = next(name for name in variables["LD_PRELOAD"].split(":") if name.endswith("/cricket-client.so"))
    if _other_driver(client):
        raise RuntimeError(f"this process has loaded another CUDA driver, {_other_driver(client)}: connect before the first use of CUDA")
    os.environ.update(variables)
    ctypes.CDLL(client, mode=ctypes.RTLD_GLOBAL)
    return variables.get("REMOTE_GPU_ADDRESS")


def status(server=None):
    """The sessions of SERVER, which is on this host, or of this host's: what `cricket status --json` prints, as a dict.

    ConnectionError: no server answers; its text says why.
    """
    done = subprocess.run([program(), "status", "--json", *([server] if server else [])], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise ConnectionError(done.stderr.strip().replace("cricket: ", ""))
    return json.loads(done.stdout)


def load_ipython_extension(shell):
    """`%load_ext cricket_gpu`: the magic `%cricket`."""
    from . import jupyter
    jupyter.load_ipython_extension(shell)
