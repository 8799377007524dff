"""The control socket: commands for a running server, and --ctl."""
import json
import os
import pathlib
import pwd
import re
import socket
import stat
import subprocess
import sys

import pytest

from conftest import HANG, SERVER, SLOW, Server, clean_env, client_env, ended, listens, start, wait_until

# Holds 64 MiB of device memory until somebody ends its stdin.
HOLDER = """
import ctypes, sys, time
c = ctypes.CDLL(None)
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert c.cuCtxSetCurrent(context) == 0
assert c.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64 << 20)) == 0
print("ready", flush=True)
time.sleep(600)
"""


def ctl(server, *words, timeout=60):
    """Runs --ctl WORDS against SERVER, whose control socket is there a moment after the others."""
    wait_until(lambda: listens(f"{server.unix}.ctl"), 10, "the control socket is there")
    return subprocess.run([SERVER, "--unix", server.unix, "--ctl", *map(str, words)], env=clean_env(),
                          capture_output=True, text=True, timeout=timeout * SLOW)


class Asker:
    """A connection to the control socket."""

    def __init__(self, server):
        wait_until(lambda: listens(f"{server.unix}.ctl"), 10, "the control socket is there")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(HANG)
        self.socket.connect(f"{server.unix}.ctl")
        self.file = self.socket.makefile("r", encoding="utf-8")

    def say(self, data):
        self.socket.sendall(data)

    def ask(self, command, **arguments):
        self.say(json.dumps({"command": command, **arguments}).encode() + b"\n")
        return json.loads(self.file.readline())


def worker_of(server, program):
    """The worker of a program, a process, that has a session."""
    def pids():
        return [s["pid"] for s in Asker(server).ask("sessions")["sessions"] if s["client_pid"] == program.pid]
    wait_until(pids, 5, "its session is listed")
    pid, = pids()
    return pid


@pytest.fixture
def asker(own_server):
    return Asker(own_server)


@pytest.fixture
def holder(own_server):
    process = start([sys.executable, "-c", HOLDER],
                    client_env(own_server.address("unix")))
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    yield process
    process.kill()
    ended(process, 10)


def test_sessions_lists_what_runs(own_server, asker, holder):
    def listed():
        return asker.ask("sessions")["sessions"]
    wait_until(lambda: listed() and listed()[0]["memory"] >= 64 << 20, 10, "its memory is reported")
    (one,) = listed()
    assert one["pid"] == own_server.workers()[0] and one["client_pid"] == holder.pid
    assert "python" in one["program"] and one["state"] == "running"
    assert one["identity"] == f"user {pwd.getpwuid(os.getuid()).pw_name}"
    lines = ctl(own_server, "sessions").stdout.splitlines()
    assert len(lines) == 2 and lines[1].split()[:3] == [one["session"], str(one["pid"]), "running"]
    assert int(lines[1].split()[3]) >= 64 and lines[1].split()[4] == "MiB"
    holder.kill()
    wait_until(lambda: not listed(), 10, "the session is gone")
    # a number is never used again
    again = start([sys.executable, "-c", HOLDER], client_env(own_server.address("unix")))
    try:
        wait_until(listed, 20, "a second session")
        assert listed()[0]["session"] != one["session"]
    finally:
        again.kill()
        ended(again, 10)


def test_any_name_of_a_program_is_listed(own_server, asker, tmp_path):
    for name in (b"a\xffb", "p\u00fcthon".encode(), b"x" * 200, b'q"uote'):
        path = os.path.join(os.fsencode(tmp_path), name)
        os.symlink(sys.executable, path)
        env = {os.fsencode(k): os.fsencode(v) for k, v in client_env(own_server.address("unix")).items()}
        process = subprocess.Popen([path, b"-c", HOLDER.encode()], env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "ready\n"
            (one,) = asker.ask("sessions")["sessions"]
            assert one["program"]
        finally:
            process.kill()
            process.wait()
        own_server.wait_idle()
    assert asker.ask("suspend", session="\u00fc" * 600)["error"]      # longer than the answer may be


def shown(pid):
    """What ps shows of a process, and its environment."""
    path = pathlib.Path(f"/proc/{pid}")
    return (path / "cmdline").read_bytes().rstrip(b"\0"), (path / "environ").read_bytes()


def test_ps_shows_whose_program_a_worker_serves(own_server, tmp_path):
    user = pwd.getpwuid(os.getuid()).pw_name
    for name in ("train.py", "x" * 250, "a\nb\x1b[31m"):
        os.symlink(sys.executable, tmp_path / name)
        process = start([tmp_path / name, "-c", HOLDER], client_env(own_server.address("unix")))
        try:
            assert process.stdout.readline() == "ready\n"
            (worker,) = own_server.workers()
            title, environment = shown(worker)
            expected = f"cricket-worker: user {user} {re.sub('[^ -~]', '?', name)}".encode()
            assert title == expected[:len(title)] and len(title) >= min(60, len(expected))
            assert b"CRICKET_CACHE_DIR=" in environment and b"CRICKET_LOG_DROP=1" in environment
        finally:
            process.kill()
            ended(process, 10)
        own_server.wait_idle()


def test_only_the_servers_user_may_command(own_server):
    path = f"{own_server.unix}.ctl"
    wait_until(lambda: listens(path), 10, "the control socket is there")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    own_server.stop()
    assert not os.path.exists(path)


def test_requests_that_are_wrong_get_a_reason(own_server, asker):
    for wrong in (b"\n", b"garbage\n", b"[]\n", b'{"command": 7}\n', b"\x00\xff\n", b"{" * 4000 + b"\n"):
        asker.say(wrong)
        reply = json.loads(asker.file.readline())
        assert reply["ok"] is False and reply["error"], wrong
    assert "no command fly" in asker.ask("fly")["error"]
    assert asker.ask("sessions") == {"ok": True, "sessions": []}      # the connection still works
    # a line beyond all bounds ends its connection, and no other
    other = Asker(own_server)
    with pytest.raises(OSError):
        for _ in range(1000):
            other.say(b"x" * 4096)
    assert asker.ask("sessions")["ok"]


def test_requests_arrive_in_pieces_and_together(asker):
    asker.say(b'{"comm')
    asker.say(b'and": "sessions"}\n{"command": "sessions"}\n{"command"')
    asker.say(b': "sessions"}\n')
    for _ in range(3):
        assert json.loads(asker.file.readline())["ok"]


def test_connections_beyond_the_bound_wait(own_server, asker):
    many = [Asker(own_server) for _ in range(40)]
    assert asker.ask("sessions")["ok"]
    for one in many[:-1]:
        one.file.close()
        one.socket.close()
    assert many[-1].ask("sessions")["ok"]


def test_ctl_says_what_is_wrong(own_server, tmp_path):
    none, unknown = ctl(own_server), ctl(own_server, "fly")
    assert none.returncode == unknown.returncode == 2 and "there is no command fly" in unknown.stderr
    assert none.stderr.splitlines()[1:] == unknown.stderr.splitlines()[1:] and " --ctl sessions\n" in none.stderr
    for words, usage in ((["sessions", "more"], "sessions"), (["suspend"], "suspend session [until]")):
        done = ctl(own_server, *words)
        assert (done.returncode, done.stderr) == (2, f"cricket-rpc-server: usage: --ctl {usage}\n")
    alone = subprocess.run([SERVER, "--ctl-socket", tmp_path / "none", "--ctl", "sessions"], env=clean_env(),
                            capture_output=True, text=True, timeout=HANG)
    assert alone.returncode == 1 and "no server at" in alone.stderr


def test_the_socket_may_be_elsewhere(tmp_path):
    path = tmp_path / "c"
    server = Server(tmp_path / "server", "--ctl-socket", path)
    try:
        wait_until(lambda: listens(path), 10, "the control socket is there")
        r = subprocess.run([SERVER, "--ctl-socket", path, "--ctl", "sessions"], env=clean_env(), capture_output=True,
                           text=True, timeout=HANG)
        assert r.returncode == 0 and r.stdout.startswith("SESSION"), r.stderr
        assert not os.path.exists(f"{server.unix}.ctl")
    finally:
        server.stop()
