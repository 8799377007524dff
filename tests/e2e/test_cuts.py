"""tests/e2e/test_cuts.py - a session whose connections are all gone is kept for its time, however they ended, and makes way as
soon as somebody knows that its program has ended.
"""
import contextlib
import hashlib
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from breaker import PIECE, Breaker
from conftest import (DRIVER, KIND, PATIENCE, PRODUCTS, SERVER, Server, clean_env, client_env, command_env, ended, is_alive, start,
                      wait_until)
from stranger import Refused, Session, place
from test_control import Asker, worker_of
from test_resume import endless as begun, ticks
from tls import Authority

# Holds 64 MiB of device memory, and uses it for each line of its stdin.
HOLDER = """
import ctypes, sys
c = ctypes.CDLL(None)
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert c.cuCtxSetCurrent(context) == 0
print(c.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64 << 20)), flush=True)
for line in sys.stdin:
    print(c.cuMemsetD8_v2(memory, 7, ctypes.c_size_t(64 << 20)), c.cuCtxSynchronize(), flush=True)
"""

# Runs what stdin says when its session exists.
ACTOR = """
import ctypes, os, signal, subprocess, sys, threading
c = ctypes.CDLL(None)
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert c.cuCtxSetCurrent(context) == 0 and c.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
def use():
    return c.cuMemsetD8_v2(memory, 7, ctypes.c_size_t(1 << 20)), c.cuCtxSynchronize()
def use_always():
    while True:
        use()
print("ready", flush=True)
exec(sys.stdin.read())
"""

# How long connections are away, and how long the program waits for them, in seconds (make check-e2e K=cuts CUT_SECONDS=50). The
# last stands for 50 s of the usual 60 s, with more time to connect.
CUTS = [(float(s), 60) for s in os.environ.get("CUT_SECONDS", "0,2,5").split(",")] + [(10, 10 + 10 * PATIENCE)]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A server with and without TLS, and the client's variables for each."""
    folder = tmp_path_factory.mktemp("both")
    authority = Authority(folder / "authority")
    cert, key = authority.sign("server")
    server = Server(folder / "server", "--tls-cert", cert, "--tls-key", key, "--tls", "offered")
    yield server, {"plain": {}, "tls": {"CRICKET_TLS_CA": str(authority.ca)}}
    server.stop()
    server.kill()


@pytest.fixture
def serve(tmp_path):
    """serve(OPTION...): a server that keeps sessions for longer than the test takes."""
    made = []

    def go(*options, **env):
        made.append(Server(tmp_path / f"server{len(made)}", "--keep", "1h", *options, **env))
        return made[-1]
    yield go
    for server in made:
        server.end()


@pytest.fixture
def proxies():
    made = []

    def go(kind, *args, **kwargs):
        made.append(kind(*args, **kwargs))
        return made[-1]
    yield go
    for proxy in made:
        proxy.stop()


def endless(app, proxy, **env):
    """A program that waits for longer than the test takes."""
    return begun(app, proxy, **{"CRICKET_RESUME": "1h", **env})


class Hole(Breaker):
    """A proxy that can forget its connections: it takes bytes and passes none on; light() resets what is left of them."""

    forgetful = False

    def swallow(self):
        def job():
            self.listener.close()
            self.listener, self.forgetful = None, True
        self.do(job)

    def pass_on(self, near):
        if self.forgetful:
            with contextlib.suppress(ConnectionResetError):     # of a client that was killed
                return bool(near.recv(PIECE))
            return False
        return super().pass_on(near)

    def light(self):
        if self.forgetful:
            self.do(lambda: (setattr(self, "forgetful", False), self.drop_all("rst")))
        super().light()


def machine_id(purpose, device, inode):
    """As util/process/machine.c makes it."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    facts = struct.pack("24s40sQQ", purpose, boot, device, inode)
    return hashlib.blake2b(facts, digest_size=32).digest()[:16]


class Foreign(Breaker):
    """A proxy behind which programs seem to be on the machine OTHER, on a host of its own."""

    def __init__(self, port, other):
        pids = os.stat("/proc/self/ns/pid")
        self.ids = {machine_id(b"cricket machine", pids.st_dev, pids.st_ino): other,
                    machine_id(b"cricket host", 0, 0): other[::-1]} if other else {}
        super().__init__(port)

    def pass_on(self, near):
        if near not in self.near:
            return super().pass_on(near)
        try:
            data = near.recv(PIECE)
            for own, other in self.ids.items():
                data = data.replace(own, other)
            self.other[near].sendall(data)
        except OSError:
            return False
        return bool(data)


class Tunnel(Foreign):
    """The same from a unix socket to another one, as `ssh -L` makes it. While it is dark, there is no such socket. OTHER: None: its
    programs are on this machine."""

    def __init__(self, path, to, other=None):
        self.path = str(path)
        self.target = str(to)
        super().__init__(0, other)
        self.address = f"unix:{path}"

    def listen(self, port):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(128)
        return listener

    def connect(self):
        far = socket.socket(socket.AF_UNIX)
        far.connect(self.target)
        return far

    def dark(self, how="rst"):
        os.unlink(self.path)
        super().dark(how)

    def stop(self):
        super().stop()
        pathlib.Path(self.path).unlink(missing_ok=True)


ALICE, BOB = "a-long-secret-of-alice", "a-long-secret-of-bob"
FAR, FARTHER = b"F" * 16, b"G" * 16
KEPT = 6    # CK_HELLO_KEPT


def sessions(server):
    return Asker(server).ask("status")["sessions"]


def kept(server):
    return [s for s in sessions(server) if s["state"] == "kept"]


def end(proxy, how):
    if how == "silence":
        proxy.swallow()
    else:
        proxy.dark(how)


@pytest.mark.parametrize("seconds, patience", CUTS)
def test_a_session_survives_however_its_connections_end(both, app, proxies, seconds, patience):
    """Programs of all kinds at the same time, because each waits."""
    server, security = both
    cases = []
    for how in ("fin", "rst", "silence"):
        for name, env in security.items():
            proxy = proxies(Hole, server.port)
            cases.append((how, name, proxy, endless(app, proxy, CRICKET_RESUME=f"{patience}s", **env)))
    workers = {worker_of(server, client) for _, _, _, client in cases}
    assert len(workers) == len(cases)
    try:
        for how, _, proxy, _ in cases:
            end(proxy, how)
        time.sleep(seconds)
        for _, _, proxy, _ in cases:
            proxy.light()
        used = {pid: ticks(pid) for pid in workers}
        for how, name, _, client in cases:
            assert client.poll() is None, (how, name, client.communicate())
        wait_until(lambda: all(ticks(pid) > used[pid] for pid in workers), 30, "all programs compute again")
    finally:
        for _, _, _, client in cases:
            client.kill()
    for how, name, _, client in cases:
        told = [line for line in client.communicate()[1].splitlines() if "is back after" not in line and not
                (how == "silence" and re.search("has not responded for 5 s|responds again", line))]
        assert all(f"CUDA calls wait, for at most {min(patience, 60)} s" in line for line in told), (how, name, told)


def test_a_program_that_is_killed_on_the_servers_machine_ends_its_session(serve, app, proxies):
    """Also behind a proxy."""
    server = serve()
    proxy = proxies(Hole, server.port)
    client = endless(app, proxy)
    worker, = server.workers()
    proxy.swallow()
    client.kill()
    client.communicate()
    wait_until(lambda: not is_alive(worker), 2, "the session has ended")


def killed(app, proxies, server):
    """A program of another machine, after its end, and its worker."""
    client = endless(app, proxies(Foreign, server.port, FAR))
    worker, = server.workers()
    client.kill()
    client.communicate()
    return client, worker


def test_a_killed_program_of_another_machine_is_kept_and_listed(serve, app, proxies):
    server = serve()
    client, worker = killed(app, proxies, server)
    wait_until(lambda: kept(server), 5, "it is kept")
    one, = kept(server)
    assert one["client_pid"] == client.pid and 0 < one["kept_left"] <= 3600 and 0 <= one["kept"] <= 3600 - one["kept_left"] + 1
    assert is_alive(worker)
    listed = subprocess.run([SERVER, "--unix", server.unix, "--ctl", "sessions"], env=clean_env(), capture_output=True,
                            text=True, timeout=60)
    assert " kept " in listed.stdout


def test_a_killed_program_of_another_machine_is_kept_for_its_time(serve, app, proxies):
    server = serve("--keep", "4s")
    began = time.monotonic()
    _, worker = killed(app, proxies, server)
    wait_until(lambda: not is_alive(worker), 20, "its time is over")
    assert time.monotonic() - began > 4 and "has not come back (--keep)" in server.log()


def test_a_session_is_kept_from_its_first_moment(serve):
    """The program is killed as soon as it has the answer to its hello."""
    server = serve("--command-wait", "600")
    for _ in range(20):
        Session(server, commands=False, resume=60).end()
    wait_until(lambda: len(sessions(server)) == len(kept(server)) == 20, 5, server.log)
    assert "ended:" not in server.log()


def test_a_program_that_starts_again_takes_the_place_of_the_killed_one(serve, app, proxies):
    """The new client sees that the old process has ended, also of another program."""
    server = serve("--max-sessions", "1")
    proxy = proxies(Foreign, server.port, FAR)
    first = endless(app, proxy)
    old, = server.workers()
    first.kill()
    first.wait()
    wait_until(lambda: kept(server), 5, "it is kept")
    second = endless(app, proxy)
    server.has_workers(1)
    assert not is_alive(old)
    assert "its program has ended" in server.log()
    second.kill()
    second.communicate()


def act(address, code, **env):
    """Starts ACTOR, which runs CODE after it has got a session."""
    actor = subprocess.Popen([sys.executable, "-c", ACTOR], env=client_env(address, CRICKET_RESUME="1h", **env), text=True,
                             start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert actor.stdout.readline() == "ready\n", actor.stderr.read()
    actor.stdin.write(code)
    actor.stdin.close()
    actor.stdin = None
    return actor


@pytest.fixture(scope="module", name="patient")
def fixture_patient(tmp_path_factory):
    """A server that keeps sessions for an hour, with and without TLS, and the client's variables for each."""
    folder = tmp_path_factory.mktemp("patient")
    authority = Authority(folder / "authority")
    cert, key = authority.sign("server")
    server = Server(folder / "server", "--tls-cert", cert, "--tls-key", key, "--tls", "offered", "--keep", "1h")
    yield server, {"plain": {}, "tls": {"CRICKET_TLS_CA": str(authority.ca)}}
    server.stop()
    server.kill()


BUSY = "threading.Thread(target=use_always, daemon=True).start(); "
ENDS = {
    "_exit": ("c._exit(3)", 3),
    "_Exit": ("c._Exit(3)", 3),
    "quick_exit": ("c.quick_exit(3)", 3),
    "busy": (BUSY + "os._exit(3)", 3),
    "handler": ("c.signal(signal.SIGUSR1, ctypes.cast(c._exit, ctypes.c_void_p)); " + BUSY + "c.raise_(signal.SIGUSR1)",
                signal.SIGUSR1),
}


@pytest.mark.skipif(bool(KIND), reason="sanitizers have functions of their own there")
@pytest.mark.parametrize("security", ["plain", "tls"])
@pytest.mark.parametrize("how", ENDS)
def test_a_program_without_exit_handlers_says_goodbye(patient, proxies, how, security):
    """With TLS, which hides the ids from the proxy, the kernel reports the end too: there the test shows that nothing hangs."""
    server, env = patient
    code, status = ENDS[how]
    address = proxies(Foreign, server.port, FAR).address if security == "plain" else server.address("tcp")
    actor = act(address, code.replace("c.raise_(", "c[\"raise\"]("), **env[security])
    assert (actor.communicate(timeout=60)[1], actor.returncode) == ("", status)
    wait_until(lambda: not server.workers(), 5, "the session has ended")


@pytest.mark.parametrize("code", ["os.fork() or os._exit(1); os.wait()", "subprocess.run(['/nothing'], check=False)",
                                  "subprocess.run(['true'], check=True)"])
def test_the_end_of_a_child_says_nothing_of_its_parent(patient, proxies, code):
    server, _ = patient
    tried = f"try:\n    {code}\nexcept OSError:\n    pass\nprint(use())"
    actor = act(proxies(Foreign, server.port, FAR).address, tried)
    assert actor.communicate(timeout=60) == ("(0, 0)\n", "")
    wait_until(lambda: not server.workers(), 5, "the session has ended")


@pytest.mark.skipif(bool(KIND), reason="sanitizers have functions of their own there")
def test_a_program_that_executes_itself_takes_its_own_place(serve, proxies):
    """As a training does that starts again: its process is the same."""
    server = serve("--max-sessions", "1")
    actor = act(proxies(Foreign, server.port, FAR).address, "os.execv(sys.executable, [sys.executable, '-c', again])\n"
                .replace("again", repr(ACTOR.replace("exec(sys", "os._exit(0)  # "))))
    assert actor.communicate(timeout=60) == ("ready\n", "")
    server.has_workers(0)
    assert "its program has ended" in server.log()


@pytest.mark.parametrize("places", [1, 2])
def test_a_process_that_executes_a_program_is_known_before_the_cut_is(serve, places):
    """Its old connections arrive at their end after the new one has begun. It is asked, also if there is another place."""
    server = serve("--max-sessions", places, "--command-wait", "600")
    old = Session(server, commands=False, resume=60, place=place(FAR))
    with pytest.raises(Refused) as asked:
        Session(server, commands=False, place=place(FAR))
    assert asked.value.args[0] == KEPT
    end = threading.Timer(0.5, old.end)
    end.start()
    new = Session(server, commands=False, place=place(FAR, [1]))
    end.join()
    server.has_workers(1)
    assert "session s1 has no connections, and ends: its program has ended" in server.log()
    new.end()


@pytest.fixture(name="path")
def fixture_path():
    """Of a socket: short."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="cut-") as folder:
        yield pathlib.Path(folder) / "sock"


@pytest.mark.parametrize("other", [None, FAR])
def test_a_cut_tunnel_to_the_unix_socket_is_survived(serve, app, proxies, path, other):
    """Also without the name of its socket for a time."""
    server = serve()
    tunnel = proxies(Tunnel, path, server.unix, other)
    client = endless(app, tunnel)
    worker, = server.workers()
    tunnel.dark()
    wait_until(lambda: kept(server), 5, "it is kept")
    assert "is cut (" in client.stderr.readline()
    tunnel.light()
    assert "is back after" in client.stderr.readline()
    before = ticks(worker)
    wait_until(lambda: ticks(worker) > before + 3, 10, "the program computes again")
    wait_until(lambda: not kept(server), 5, "it is not kept any more")
    assert client.poll() is None
    client.kill()
    assert client.communicate()[1] == ""
    if other:
        wait_until(lambda: kept(server), 5, "it is kept")
    else:
        wait_until(lambda: not is_alive(worker), 5, "the kernel has reported its end")


def test_a_cut_session_on_a_unix_socket_without_a_tunnel_does_not_wait(serve, app):
    server = serve()
    program = subprocess.Popen([app("endless"), "sync"], env=client_env(server.address("unix"), CRICKET_RESUME="1h"), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout.readline() == "running\n", program.stderr.read()
    worker, = server.workers()
    program.kill()
    program.communicate()
    wait_until(lambda: not is_alive(worker), 5, "the session has ended")
    assert "all connections are cut" not in server.log()


def test_a_living_program_without_connections_is_not_replaced(serve, app, proxies):
    """Another program of the same name begins on its machine, and finds no place."""
    server = serve("--max-sessions", "1")
    cut, other = proxies(Foreign, server.port, FAR), proxies(Foreign, server.port, FAR)
    first = endless(app, cut)
    worker, = server.workers()
    cut.dark("fin")
    wait_until(lambda: kept(server), 5, "it is kept")
    second = start([app("endless"), "sync"], client_env(other.address))
    assert "no free session" in ended(second, 20).err
    cut.light()
    wait_until(lambda: not kept(server), 20, "it is back")
    assert is_alive(worker) and first.poll() is None
    first.kill()
    first.communicate()


class Hellos(Foreign):
    """Counts the hellos of program `endless`."""

    count = 0

    def pass_on(self, near):
        with contextlib.suppress(OSError):
            self.count += near in self.near and b"endless" in near.recv(PIECE, socket.MSG_PEEK)
        return super().pass_on(near)


@pytest.mark.slow
def test_a_client_that_waits_for_a_session_is_asked_each_time(serve, app, proxies):
    """Whether the program of a kept session has ended: it lives. A server answers a client that waits every 3 s."""
    server = serve("--max-sessions", "1")
    cut, hellos = proxies(Foreign, server.port, FAR), proxies(Hellos, server.port, FAR)
    first = endless(app, cut)
    cut.dark("fin")
    wait_until(lambda: kept(server), 5, "it is kept")
    second = start([app("endless"), "sync"], client_env(hellos.address, CRICKET_WAIT="10m"))
    wait_until(lambda: hellos.count > 8 or second.poll() is not None, 30, "it has been asked four times")
    first.kill()
    first.communicate()
    cut.light()
    assert second.stdout.readline() == "running\n", second.stderr.read()
    second.kill()
    second.communicate()


def test_a_container_that_starts_again_takes_its_place_when_there_is_no_other(serve, app, proxies):
    """Process ids say nothing there: program, host and identity are the same."""
    server = serve("--max-sessions", "2")
    before, after = proxies(Foreign, server.port, FAR), proxies(Foreign, server.port, FARTHER)
    first = endless(app, before)
    first.kill()
    first.wait()
    wait_until(lambda: kept(server), 5, "it is kept")
    second = endless(app, after)
    assert len(kept(server)) == 1, "while there are places, it may come back"
    third = endless(app, after)
    assert not kept(server)
    server.has_workers(2)
    assert "the same program has started again" in server.log()
    for client in (second, third):
        client.kill()
        client.communicate()


def test_the_number_of_kept_sessions_is_bounded(serve, app, proxies):
    server = serve("--max-kept", "1")
    clients = []
    for _ in range(2):
        clients.append(endless(app, proxies(Foreign, server.port, FAR)))
    oldest = next(s["pid"] for s in sessions(server) if s["client_pid"] == clients[0].pid)
    for client in clients:
        client.kill()
        client.wait()
        wait_until(lambda pid=client.pid: any(s["client_pid"] == pid for s in kept(server)), 5, "it is kept")
    wait_until(lambda: not is_alive(oldest), 5, "the older one has ended")
    server.has_workers(1)
    assert "(--max-kept)" in server.log()


def test_a_kept_session_stays_so_over_an_upgrade(serve, app, proxies):
    server = serve()
    client = endless(app, proxies(Foreign, server.port, FAR))
    client.kill()
    client.wait()
    wait_until(lambda: kept(server), 5, "it is kept")
    subprocess.run([SERVER, "--unix", server.unix, "--ctl", "upgrade"], env=clean_env(), check=True, capture_output=True,
                   timeout=60)
    wait_until(lambda: kept(server), 5, "it is kept")
    assert 0 < kept(server)[0]["kept_left"] <= 3600


def far_env(proxy):
    """Of the command, for a program behind PROXY."""
    return command_env(REMOTE_GPU_ADDRESS=proxy.address, CRICKET_TOKEN="")


def test_a_report_ends_the_session_of_a_program_that_has_ended(serve, app, proxies):
    """And of no other one of the machine."""
    server = serve()
    proxy = proxies(Foreign, server.port, FAR)
    killed, living = (endless(app, proxy) for _ in range(2))
    killed.kill()
    killed.wait()
    wait_until(lambda: kept(server), 5, "it is kept")
    done = subprocess.run([PRODUCTS / "cricket", "reap"], env=far_env(proxy), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{proxy.address}: 1 program has ended\n")
    wait_until(lambda: [s["client_pid"] for s in sessions(server)] == [living.pid], 2, "its session has ended")
    again = subprocess.run([PRODUCTS / "cricket", "reap"], env=far_env(proxy), capture_output=True, text=True, timeout=60)
    assert (again.returncode, again.stdout) == (0, "") and living.poll() is None
    living.kill()
    living.communicate()


def test_a_report_of_another_identity_changes_nothing(serve, app, proxies, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{name}:{hashlib.blake2b(secret.encode(), digest_size=32).hexdigest()}\n"
                              for name, secret in (("alice", ALICE), ("bob", BOB))))
    tokens.chmod(0o600)
    server = serve("--token-file", tokens)
    proxy = proxies(Foreign, server.port, FAR)
    client = endless(app, proxy, CRICKET_TOKEN=ALICE)
    client.kill()
    client.wait()
    wait_until(lambda: kept(server), 5, "it is kept")
    for token, status in ((BOB, 0), ("wrong", 1)):
        done = subprocess.run([PRODUCTS / "cricket", "reap"], env={**far_env(proxy), "CRICKET_TOKEN": token},
                              capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert len(kept(server)) == 1


# ASan ends a program at SIGSEGV with a status of its own.
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT if KIND else signal.SIGSEGV])
def test_cricket_run_reports_the_end_of_its_program(serve, app, proxies, number):
    server = serve()
    proxy = proxies(Foreign, server.port, FAR)
    program = start([PRODUCTS / "cricket", "run", app("endless"), "sync"], {**far_env(proxy), "CRICKET_RESUME": "1h"})
    assert program.stdout.readline() == "running\n", program.stderr.read()
    os.kill(program.pid, number)
    program.communicate()   # nothing else has the pipes
    assert program.returncode == -number
    wait_until(lambda: not server.workers(), 5, "the session has ended")
    assert "its program has ended" in server.log()


def hold(address, **env):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], env=client_env(address, **env), text=True,
                              start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return holder, holder.stdout.readline().strip()


@pytest.mark.skipif(DRIVER != "emu", reason="only the emulated GPU's memory can be chosen")
def test_a_kept_session_makes_room_for_others_and_returns(serve, proxies, tmp_path):
    """Without any option for that. Another program needs the memory, and the kept one is suspended meanwhile."""
    server = serve(CRICKET_EMU=f"memory=100M,shared,usage={tmp_path}/usage")
    proxy = proxies(Foreign, server.port, FAR)
    first, answer = hold(proxy.address, CRICKET_RESUME="1h")
    assert answer == "0"
    second, answer = hold(server.address("tcp"))
    assert answer == "2", "while it has connections, it keeps its memory"
    second.kill()
    second.communicate()
    wait_until(lambda: sessions(server)[0]["memory"] >= 64 << 20, 10, "its memory is reported")
    proxy.dark("fin")
    wait_until(lambda: kept(server), 5, "it is kept")
    second, answer = hold(server.address("tcp"))
    assert answer == "0", server.log()
    assert [s["state"] for s in sessions(server) if s["client_pid"] == first.pid] == ["parked"]
    proxy.light()
    second.kill()
    second.communicate()
    first.stdin.write("use it\n")
    first.stdin.flush()
    assert first.stdout.readline() == "0 0\n"
    first.kill()
    first.communicate()


@pytest.mark.skipif(DRIVER != "emu", reason="only the emulated GPU's memory can be chosen")
def test_a_container_that_starts_again_gets_the_memory_of_the_old_one(serve, proxies, tmp_path):
    """Where that cannot be suspended."""
    server = serve("--suspend-memory", "0", CRICKET_EMU=f"memory=100M,shared,usage={tmp_path}/usage")
    first, answer = hold(proxies(Foreign, server.port, FAR).address)
    first.kill()
    first.communicate()
    wait_until(lambda: kept(server), 5, "it is kept")
    second, answer = hold(proxies(Foreign, server.port, FARTHER).address)
    assert answer == "0", server.log()
    assert "the same program has started again" in server.log()
    server.has_workers(1)
    second.kill()
    second.communicate()
