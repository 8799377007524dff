"""tests/e2e/test_emulated_container.py - `cricket docker -s emu run` and `cricket podman -s emu run`: a server with the emulated GPU that lives
as long as the container.

The engine is a program that runs the container's program on this system, with the host's places of the mounts.
"""
import json
import os
import pathlib
import signal
import stat
import sys

import pytest

from conftest import DRIVER, KIND, PRODUCTS, clean_env, ended, is_alive, start, wait_until
from test_emulate import servers_at

pytestmark = pytest.mark.skipif(DRIVER != "emu" or bool(KIND), reason="needs the command beside the emulated GPU")

CRICKET = PRODUCTS / "cricket"
ENGINE = """#!{python}
import json, os, pathlib, subprocess, sys, time

folder = pathlib.Path({folder!r})
command, *words = sys.argv[1:]
over = folder / "over"
if command == "wait":
    assert words == ["cafe01"]
    (folder / "waited").touch()
    while not over.exists():
        time.sleep(0.01)
    sys.exit(print(0))
options = []
while words[0].startswith("--"):
    options.append((words.pop(0), words.pop(0)))
detached = words[0] == "-d" and words.pop(0)
image, *program = words
(folder / "options").write_text(json.dumps(options), encoding="utf-8")
if image != "image":
    sys.exit("no such image")
places = dict(reversed([p.partition("=")[2] for p in v.split(",")[1:3]]) for o, v in options if o == "--mount")
env = dict(os.environ, **dict(v.split("=", 1) for o, v in options if o == "--env"))
for inside in sorted(places, key=len, reverse=True):
    env = {{k: v.replace(inside, places[inside]) for k, v in env.items()}}
pathlib.Path(dict(options)["--cidfile"]).write_text("cafe01", encoding="utf-8")
silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL) if detached else {{}}
container = subprocess.Popen(["/bin/sh", "-c", '"$@"; status=$?; touch "$0"; exit $status', over, *program], env=env, start_new_session=True, **silent)
sys.exit(0 if detached else container.wait())
"""
# Asks for the GPU, reports to a file, waits for another file, and uses the GPU.
PROGRAM = """
import ctypes, os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
driver, n, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
first = driver.cuInit(0), driver.cuDeviceGetCount(ctypes.byref(n)), n.value
(folder / "began").write_text(os.environ["REMOTE_GPU_ADDRESS"])
while not (folder / "go").exists():
    time.sleep(0.01)
context = ctypes.c_void_p()
last = (driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context),
        driver.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4096)), driver.cuCtxSynchronize())
(folder / "result").write_text(str(first + last))
sys.exit(7)
"""
RESULT = str((0, 0, 1, 0, 0, 0, 0))


@pytest.fixture(name="env")
def fixture_env(tmp_path):
    for name in ("run", "bin"):
        (tmp_path / name).mkdir()
    for name in ("docker", "podman"):
        (tmp_path / "bin" / name).write_text(ENGINE.format(python=sys.executable, folder=str(tmp_path)), encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    env = clean_env(XDG_CONFIG_HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path / "run"))
    return {**env, "PATH": f"{tmp_path / 'bin'}:{env['PATH']}"}


def begin(env, tmp_path, *options, engine="podman"):
    """The engine's command, when its container has asked for the GPU; and the server's socket on this host."""
    process = start([CRICKET, engine, "-s", "emu", "run", *options, "image", sys.executable, "-c", PROGRAM, tmp_path], env)
    wait_until(lambda: (tmp_path / "began").exists() and (tmp_path / "began").read_text(encoding="ascii"), 60, "the container runs")
    return process, pathlib.Path((tmp_path / "began").read_text(encoding="ascii").removeprefix("shm:"))


def is_gone(env, server):
    return not is_alive(server) and not os.listdir(env["XDG_RUNTIME_DIR"])


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_has_an_emulated_gpu_of_its_own(env, tmp_path, engine):
    process, socket = begin({**env, "CRICKET_LOG": "info"}, tmp_path, engine=engine)
    server, = servers_at(socket)
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700 and stat.S_IMODE(socket.stat().st_mode) == 0o666
    (tmp_path / "go").touch()
    done = ended(process, 60)
    assert (done.status, (tmp_path / "result").read_text(encoding="ascii")) == (7, RESULT), done.err
    assert "server" in done.err, "the server's messages are printed"
    wait_until(lambda: is_gone(env, server), 20, "server and folder are gone")


def test_frameworks_in_the_container_compile_to_ptx(env, tmp_path):
    (tmp_path / "go").touch()
    process, _ = begin({**env, "CUPY_ACCELERATORS": "cub", "CRICKET_TOKEN": "of another server"}, tmp_path)
    assert ended(process, 60).status == 7
    options = json.loads((tmp_path / "options").read_text(encoding="utf-8"))
    variables = dict(v.split("=", 1) for o, v in options if o == "--env")
    assert variables["TRITON_PTXAS_PATH"] == "/run/cricket/ptxas" and variables["REMOTE_GPU_ADDRESS"] == "shm:/run/cricket/server1"
    assert variables["CUPY_COMPILE_WITH_PTX"] == "1" and variables["CUPY_ACCELERATORS"] == ""
    mounts = [v for o, v in options if o == "--mount"]
    assert f"type=bind,source={os.path.realpath(CRICKET)},target=/run/cricket/ptxas,readonly" in mounts
    assert not [v for _, v in options if "token" in v.lower()] and not (tmp_path / "cricket").exists()


@pytest.mark.parametrize("how", ["detached", "killed"])
def test_the_server_lives_as_long_as_a_container_that_outlives_the_engines_command(env, tmp_path, how):
    process, socket = begin(env, tmp_path, *(["-d"] if how == "detached" else []))
    server, = servers_at(socket)
    if how == "killed":
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    else:
        # its output ends too: the server does not keep it open
        assert ended(process, 60).status == 0
    wait_until((tmp_path / "waited").exists, 20, "the engine is asked when the container ends")
    assert is_alive(server) and socket.exists()
    (tmp_path / "go").touch()
    wait_until(lambda: is_gone(env, server), 60, "server and folder are gone")
    assert (tmp_path / "result").read_text(encoding="ascii") == RESULT
    if how == "killed":
        process.communicate()


def test_a_container_that_does_not_start_leaves_nothing(env):
    done = ended(start([CRICKET, "podman", "-s", "emu", "run", "other"], env), 60)
    assert (done.status, done.err) == (1, "no such image\n")
    wait_until(lambda: not os.listdir(env["XDG_RUNTIME_DIR"]), 20, "the server's folder is gone")


@pytest.mark.parametrize("words", [("podman", "-s", "emu", "create", "image"), ("cdi", "-s", "emu"), ("cdi", "--server", "emu", "--name", "lab")])
def test_where_no_server_can_live_as_long_the_user_is_told_what_to_do(env, words):
    done = ended(start([CRICKET, *words], env), 60)
    assert done.status == 2 and not done.out and done.err.count("\n") == 1
    assert "cricket-rpc-server --driver emu" in done.err and "-s unix:/PATH" in done.err
    assert not os.listdir(env["XDG_RUNTIME_DIR"])
