"""Cricket's client: run CUDA programs on the GPU of another machine.

    cricket run -s gpuhost -- python3 train.py
    python3 -m cricket_gpu run -s gpuhost -- python3 train.py     the same where `cricket` is not in PATH

In a program, before its first use of CUDA:

    import cricket_gpu
    cricket_gpu.connect("gpuhost")
    cricket_gpu.connect("srv:gpu.example.org", gpus=2, mem="40G")     on GPUs that have so much memory free

    cricket_gpu.emulate()               on an emulated GPU, for tests without a GPU (emulated.py; pytest --cricket-emu)

In a notebook: `%load_ext cricket_gpu`, then `%cricket connect gpuhost` (jupyter.py).
"""
import ctypes
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess

from .emulated import Emulated
from .state import Status

__all__ = ["Emulated", "Status", "command", "connect", "disconnect", "emulate", "folder", "library", "program", "status"]

NOT_INITIALIZED = 3     # CUDA_ERROR_NOT_INITIALIZED

_connected = {}     # of this process: options, address and client of connect, and the variables before it


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


def _said(done):
    """What the command has said, as one line, without its name in front."""
    lines = [re.sub("^cricket: ", "", line).strip() for line in done.stderr.splitlines()]
    return "; ".join(filter(None, lines)) or f"cricket has ended with status {done.returncode}"


def _run(*words, **variables):
    return subprocess.run([program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, env={**os.environ, **variables})


def _drivers(client):
    """Whether this process has loaded CLIENT; and the file of another CUDA driver that it has loaded, or None."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if re.search(r"/(libcuda(-emu)?\.so|cricket-client\.so)", line)}
    own = os.path.dirname(os.path.realpath(client)) + "/"       # with libcuda.so, for programs that are linked with it
    others = [path for path in sorted(paths) if not path.startswith(own) or "libcuda-emu" in path]
    return os.path.realpath(client) in paths, others[0] if others else None


def _uses_cuda(client):
    """Whether the client in this process has a session, or has had one: its server cannot change any more."""
    driver, context = ctypes.CDLL(client), ctypes.c_void_p()
    return driver.cuCtxGetCurrent(ctypes.byref(context)) != NOT_INITIALIZED


def _target(variables):
    """What decides which GPUs a process uses: two of them are compared."""
    address = (variables.get("REMOTE_GPU_ADDRESS") or "").lower()
    return re.sub(r"^tcp://|:9909\b", "", address).replace("localhost", "127.0.0.1"), variables.get("CUDA_VISIBLE_DEVICES")


def _described(target):
    address, devices = target
    return (address or "this host") + (f" (GPUs {devices})" if devices else "")


def _check_devices(address, offers, wanted):
    """WANTED is a value of CUDA_VISIBLE_DEVICES. Names that are no numbers are for the server to judge, and so are the devices
    in the addresses of a list."""
    own = re.fullmatch(r"((?:unix|shm):.+/|(?!unix:|shm:).+)/(\d+(?:,\d+)*)", address, re.I)
    if own and len(offers) == 1:
        address, devices = own[1].rstrip("/"), own[2]
        wanted = devices if max(map(int, devices.split(","))) >= len(offers[0]["gpus"]) else wanted
    numbers, count = [int(n) for n in (wanted or "").split(",") if n.isdecimal()], sum(len(offer["gpus"]) for offer in offers)
    if numbers and max(numbers) >= count and ",".join(offer["address"] for offer in offers) == address:
        raise ConnectionError(f"{address or 'this host'}: there is no GPU {max(numbers)}; it has {count}, numbered from 0")


def _probe(variables):
    """Asks the servers before the program does. ConnectionError: one that is needed gives no session, or there are too few GPUs."""
    address = variables.get("REMOTE_GPU_ADDRESS", "").split("|")[0]
    done = _run("servers", "--json", "--server", address, **variables)
    if done.returncode != 0:
        raise ConnectionError(_said(done))
    offers, waits = json.loads(done.stdout), variables.get("CRICKET_WAIT", os.environ.get("CRICKET_WAIT"))
    usable = [offer for offer in offers if offer["ok"] and (offer["ready"] or waits)]
    one_is_enough = address.startswith(("srv:", "file:")) or os.environ.get("CRICKET_POOL") == "any"
    if not usable or (len(usable) < len(offers) and not one_is_enough):
        raise ConnectionError("; ".join(f"{offer['address'] or 'this host'}: {offer['why']}" for offer in offers if offer not in usable))
    _check_devices(address, usable, variables.get("CUDA_VISIBLE_DEVICES"))


def connect(server=None, gpus=None, mem=None, wait=None, devices=None, token=None, pin=None):
    """Makes this process, and those that it starts, use the GPUs of SERVER: as `cricket run` does, with the same options.

    It must come before the first use of CUDA. TOKEN and PIN are the server's, instead of those that `cricket login` has stored.
    Returns the address, or None for the server of this host. If the process is connected to it already, nothing changes.
    ConnectionError: the server cannot be reached, does not admit this user, or has no such GPUs; its text says why.
    RuntimeError: this process uses another driver or other GPUs already; a process cannot change them.
    """
    options = {"--server": server, "--gpus": gpus, "--mem": mem, "--wait": wait, "--devices": devices}
    words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    given = {name: str(value).strip() for name, value in (("CRICKET_TOKEN", token), ("CRICKET_TLS_PIN", pin)) if value is not None}
    if _connected.get("options") == (words, given):
        return _connected["address"]
    done = _run("env", "--format", "plain", *words, **given)
    if done.returncode != 0:
        raise ConnectionError(_said(done))
    variables = {**dict(line.split("=", 1) for line in done.stdout.splitlines()), **given}
    return _use(variables, (words, given), lambda: _probe(variables))


def _use(variables, options, check=lambda: None):
    """Makes this process use the GPUs that VARIABLES name, after CHECK. Returns the address. RuntimeError: as connect."""
    client = next(name for name in variables["LD_PRELOAD"].split(":") if name.endswith("/cricket-client.so"))
    others = [name for name in variables["LD_PRELOAD"].split(":") if name.endswith("/libcricket-ptx.so")]
    loaded, other = _drivers(client)
    if other:
        raise RuntimeError(f"this process has loaded another CUDA driver, {other}: connect before the first use of CUDA, in a "
                           "process that has not used it; restart the kernel if this is a notebook")
    address = variables.get("REMOTE_GPU_ADDRESS")
    if loaded and _uses_cuda(client):
        now, then = _target(os.environ), _target({**os.environ, **variables})
        if now != then:
            raise RuntimeError(f"this process uses {_described(now)} and cannot change to {_described(then)}: restart the kernel or the "
                               "program, and connect there first")
        return address
    check()
    disconnect()
    _connected.update(options=options, address=address, client=client, before={name: os.environ.get(name) for name in variables})
    os.environ.update(variables)
    for library in (client, *others):
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    return address


def disconnect():
    """Undoes connect for this process, if it has not used CUDA, and for those that it starts. Without a connect it does nothing.

    RuntimeError: the process has used CUDA; its session ends with it.
    """
    if not _connected:
        return
    if _uses_cuda(_connected["client"]):
        raise RuntimeError(f"this process uses {_connected['address'] or 'this host'}, and its session ends with the process: restart the "
                           "kernel, or end the program")
    for name, value in _connected["before"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _connected.clear()


def status(server=None):
    """The state of SERVER, or of the connected one: its sessions if it is on this host, else its GPUs and the number of sessions.

    A `Status`: a dict as docs/status.md describes it, which prints as tables. ConnectionError: no server answers; its text says why.
    """
    if server is not None and not server.strip():
        raise ConnectionError("no server is named: the name is empty")
    done = _run("status", "--json", *([server] if server else []))
    if done.returncode == 0:
        return Status(json.loads(done.stdout))
    asked = _run("servers", "--json", "--server", server or os.environ.get("REMOTE_GPU_ADDRESS", ""))
    offers = json.loads(asked.stdout) if asked.returncode == 0 else []
    if not any(offer["ok"] for offer in offers):
        raise ConnectionError("; ".join(f"{offer['address'] or 'this host'}: {offer['why']}" for offer in offers) or _said(done))
    return Status.of_offers([offer for offer in offers if offer["ok"]])


def emulate():
    """Starts an emulated GPU for this process, and makes it and those that it starts use it: as `cricket run -s emu` does.

    Returns an `Emulated`; `with` and close() end the GPU. ConnectionError: it did not start; RuntimeError: as connect.
    """
    return Emulated()


def load_ipython_extension(shell):
    """`%load_ext cricket_gpu`: the magic `%cricket`."""
    from . import jupyter
    jupyter.load_ipython_extension(shell)
