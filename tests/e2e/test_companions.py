"""tests/e2e/test_companions.py - addresses for which the client starts a program: `local`, a server of its own, and ssh://."""
import getpass
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from conftest import PRODUCTS, Server, clean_env, client_env, run, wait_until
from sshd import sshd_in

COUNT = """
import ctypes, os, sys
c, n, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_uint64()
print(c.cuInit(0), c.cuDeviceGetCount(ctypes.byref(n)), n.value)
ctx = ctypes.c_void_p()
for i in range(n.value):
    assert c.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), i) == 0 and c.cuCtxSetCurrent(ctx) == 0
    assert c.cuMemAlloc_v2(ctypes.byref(at), 1 << 20) == 0
    assert c.cuMemcpyHtoD_v2(at, b"x" * 4096, 4096) == 0
"""
NO_CHILD = COUNT + """
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child")
"""
WAITS = COUNT + """
print("ready", flush=True)
sys.stdin.read()
"""
CALLS = COUNT + """
print(end="", flush=True)
for line in sys.stdin:
    print(c.cuMemsetD8_v2(at, 1, ctypes.c_size_t(4096)), c.cuCtxSynchronize(), flush=True)
"""


def folders(place):
    return sorted(place.glob("cricket-*"))


def servers_of(place):
    """The processes whose command line names the folder."""
    found = []
    for pid in (int(p) for p in os.listdir("/proc") if p.isdigit()):
        try:
            text = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if pid != os.getpid() and bytes(place) + b"/cricket-" in text:
            found.append(pid)
    return found


def gone(place):
    wait_until(lambda: not folders(place) and not servers_of(place), 60, "the companion ends, and its folder goes")


@pytest.fixture(name="home")
def fixture_home():
    """A program's environment whose companions are in a folder of the test; no server of this host is found."""
    place = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="run-"))  # a socket's path is short
    env = client_env("local", XDG_RUNTIME_DIR=str(place), CRICKET_LOCAL_DRIVER="emu", CRICKET_EMU="devices=2")
    env["PATH"] = f"{PRODUCTS}:{env['PATH']}"
    for path in ("/run/cricket.sock", f"/tmp/cricket-{os.geteuid()}.sock"):
        if os.path.exists(path):
            pytest.skip(f"this machine has a server at {path}")
    yield place, env
    gone(place)
    shutil.rmtree(place)


def python(code, env, timeout=120):
    result = run([sys.executable, "-c", code], env, timeout)
    assert result.status == 0, result.err
    return result.out


def test_local_starts_a_server_that_the_program_does_not_see(home):
    assert python(NO_CHILD, home[1]) == "0 0 2\nno child\n"


def test_the_server_ends_with_a_program_that_is_killed(home):
    place, env = home
    program = subprocess.Popen([sys.executable, "-c", WAITS], env=env, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    assert program.stdout.readline() == "0 0 2\n" and program.stdout.readline() == "ready\n"
    folder, = folders(place)
    assert folder.stat().st_mode & 0o777 == 0o700 and servers_of(place)
    program.send_signal(signal.SIGKILL)
    program.communicate(timeout=60)
    gone(place)


def test_a_list_has_local_devices_beside_those_of_a_server(home, server):
    _, env = home
    env["REMOTE_GPU_ADDRESS"] = f"local/1,{server.address('tcp')}/0"
    assert python(COUNT, env) == "0 0 2\n"
    assert python(COUNT, dict(env, CUDA_VISIBLE_DEVICES="1")) == "0 0 1\n"


def test_local_means_the_server_of_this_host_if_there_is_one(home):
    place, env = home
    s = Server(place, default_unix=True, CRICKET_EMU="devices=1")
    try:
        assert python(COUNT, env) == "0 0 1\n"
        assert not folders(place)
    finally:
        s.end()


def test_without_a_driver_the_server_says_why(home):
    result = run([sys.executable, "-c", COUNT], dict(home[1], CRICKET_LOCAL_DRIVER="/no/driver.so"))
    assert result.out.startswith("100 ")
    line, = result.err.splitlines()[:1]
    assert "local" in line and "cricket-rpc-server has ended" in line and "/no/driver.so" in line


def test_without_the_program_the_error_says_so(home):
    result = run([sys.executable, "-c", COUNT], dict(home[1], CRICKET_SSH="no-such-ssh", REMOTE_GPU_ADDRESS="ssh://gpu.invalid"))
    assert result.out.startswith("100 ") and "ssh has ended" in result.err and "not found" in result.err


@pytest.mark.parametrize("address", ["ssh://", "ssh://-oProxyCommand=x", "ssh://a b", "ssh://host:", "ssh://host:1x",
                                     "ssh://[::1", "ssh://;x"])
def test_an_address_of_ssh_is_checked(home, address):
    result = run([sys.executable, "-c", COUNT], dict(home[1], REMOTE_GPU_ADDRESS=address))
    assert result.out.startswith("100 ") and re.search("not an address|a port is a number", result.err), result.err
    assert not folders(home[0])


def test_through_ssh_the_server_knows_the_user(home, server, tmp_path):
    place, env = home
    with sshd_in(tmp_path) as ssh:
        env.update(REMOTE_GPU_ADDRESS="ssh://127.0.0.1/0", CRICKET_SSH=ssh, CRICKET_SSH_SOCKET=server.unix)
        assert python(NO_CHILD, env) == "0 0 1\nno child\n"
        gone(place)
        program = subprocess.Popen([sys.executable, "-c", WAITS], env=env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        assert program.stdout.readline() == "0 0 1\n" and program.stdout.readline() == "ready\n"
        status = run([PRODUCTS / "cricket", "status", server.address("unix")], clean_env())
        assert f"user {getpass.getuser()}" in status.out, status.out
        program.communicate("", timeout=60)
        assert program.returncode == 0


def ssh_of(place):
    """The ssh of a program, whose connections go through it."""
    return [pid for pid in servers_of(place) if cmdline(pid).startswith(b"ssh\0")]


def test_a_session_survives_the_end_of_its_ssh(home, own_server, tmp_path):
    """The next ssh leads to the same session. Killed here, the program ends it at once."""
    place, env = home
    with sshd_in(tmp_path) as ssh:
        env.update(REMOTE_GPU_ADDRESS="ssh://127.0.0.1", CRICKET_SSH=ssh, CRICKET_SSH_SOCKET=own_server.unix)
        program = subprocess.Popen([sys.executable, "-c", CALLS], env=env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert program.stdout.readline() == "0 0 1\n"
            worker, = own_server.workers()
            for _ in range(2):
                first, = ssh_of(place)
                os.kill(first, signal.SIGKILL)
                wait_until(lambda first=first: ssh_of(place) not in ([], [first]), 30, "another ssh runs")
                program.stdin.write("again\n")
                program.stdin.flush()
                assert program.stdout.readline() == "0 0\n"
            assert own_server.workers() == [worker]
        finally:
            program.kill()
        assert [line for line in program.communicate(timeout=60)[1].splitlines() if " is cut " not in line and " is back " not in line] == []
        wait_until(lambda: not own_server.workers(), 10, "the session has ended")
        gone(place)


def test_ssh_finds_the_socket_of_the_user_s_server(home, tmp_path):
    place, env = home
    s = Server(place / "there", default_unix=True, CRICKET_EMU="devices=2")
    try:
        with sshd_in(tmp_path, f"SetEnv XDG_RUNTIME_DIR={place}/there") as ssh:
            env.update(REMOTE_GPU_ADDRESS="ssh://127.0.0.1", CRICKET_SSH=ssh)
            assert python(COUNT, env) == "0 0 2\n"
    finally:
        s.end()


def test_ssh_without_a_server_says_so(home, tmp_path):
    with sshd_in(tmp_path, f"SetEnv XDG_RUNTIME_DIR={tmp_path}") as ssh:
        result = run([sys.executable, "-c", COUNT], dict(home[1], REMOTE_GPU_ADDRESS="ssh://127.0.0.1", CRICKET_SSH=ssh))
        assert result.out.startswith("100 ") and "no socket of a cricket-rpc-server on that host" in result.err, result.err


def test_the_command_reaches_a_server_through_ssh(home, server, tmp_path):
    with sshd_in(tmp_path) as ssh:
        env = dict(home[1], CRICKET_SSH=ssh, CRICKET_SSH_SOCKET=server.unix, HOME=str(tmp_path))
        del env["LD_PRELOAD"]
        result = run([PRODUCTS / "cricket", "check", "ssh://127.0.0.1"], env)
        assert result.status == 0, result.out + result.err


def test_what_looks_for_the_socket_ends_with_the_program(home):
    """The other host lets ssh wait: a shell that hangs there, a machine that stands still."""
    place, env = home
    env.update(REMOTE_GPU_ADDRESS="ssh://gpu.invalid", CRICKET_SSH=f"touch {place}/asked; exec sleep 86401 #")
    program = subprocess.Popen([sys.executable, "-c", WAITS], env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: (place / "asked").exists(), 20, "ssh runs")
        wait_until(lambda: sleepers("86401"), 20, "it waits")
    finally:
        program.kill()
        program.communicate(timeout=60)
    wait_until(lambda: not sleepers("86401"), 20, "ssh has ended")
    gone(place)


def sleepers(seconds):
    return [p for p in os.listdir("/proc") if p.isdigit() and cmdline(p) == f"sleep\0{seconds}\0".encode()]


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("name", ["/run/${SECRET}", "/run/%d", "/run/a:/run/b", "/run/a b", "/run/a\\n/run/b"])
def test_a_host_cannot_ask_ssh_for_variables(home, name):
    """ssh replaces ${NAME} and %-signs in the path of a socket, and sends the result."""
    place, env = home
    env.update(REMOTE_GPU_ADDRESS="ssh://gpu.invalid", CRICKET_SSH=f"echo >> {place}/asked; printf '%b\\n' '{name}' #")
    result = run([sys.executable, "-c", COUNT], env)
    assert result.out.startswith("100 ") and "gives no name of a socket" in result.err, result.err
    assert (place / "asked").read_text() == "\n"     # and is not called again
    gone(place)


def test_ssh_that_cannot_reach_the_socket_is_an_error(home, tmp_path):
    with sshd_in(tmp_path) as ssh:
        env = dict(home[1], REMOTE_GPU_ADDRESS="ssh://127.0.0.1", CRICKET_SSH=ssh, CRICKET_SSH_SOCKET="/nowhere/sock")
        result = run([sys.executable, "-c", COUNT], env)
        assert result.out.startswith("100 ") and "ssh://127.0.0.1" in result.err, result.err
