"""tests/e2e/test_upgrade.py - a server that executes a new program of its own keeps its sessions."""
import concurrent.futures
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest

from conftest import EMULATED, EXPECTED, HANG, SERVER, SLOW, TRANSPORTS, Server, clean_env, client_env, is_alive, name_of, run, wait_until
from test_control import ctl
from test_m3 import m3

# Works until its input ends: a kernel counts in memory of the program's, and threads check the count. A thread that
# waits has a connection of its own, which the supervisor passes on. With the argument "alone" there are threads only
# after a line of input.
BUSY = """
import ctypes, sys, threading
PTX = b'''.version 7.0
.target sm_75
.address_size 64
.visible .entry count(.param .u64 at)
{
	.reg .u64 %rd<2>;
	.reg .u32 %r<2>;
	ld.param.u64 %rd1, [at];
	ld.global.u32 %r1, [%rd1];
	add.u32 %r1, %r1, 1;
	st.global.u32 [%rd1], %r1;
	ret;
}'''
cuda = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
context, module, count, at = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
ok(cuda.cuInit(0))
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
ok(cuda.cuCtxSetCurrent(context))
ok(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
ok(cuda.cuModuleGetFunction(ctypes.byref(count), module, b"count"))
ok(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4)))
ok(cuda.cuMemsetD8_v2(at, ctypes.c_ubyte(0), ctypes.c_size_t(4)))
launched, wrong = 0, []
def check():
    found = ctypes.c_uint32()
    err = cuda.cuCtxSetCurrent(context) or cuda.cuMemcpyDtoH_v2(ctypes.byref(found), at, ctypes.c_size_t(4))
    if err or found.value != launched:
        wrong.append((err, found.value, launched))
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(at))
def check_in_threads():
    threads = [threading.Thread(target=check) for _ in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
asked, done = threading.Event(), threading.Event()
def listen():
    for line in sys.stdin:
        asked.set()
    done.set()
threading.Thread(target=listen, daemon=True).start()
print("begun", flush=True)
while True:
    for _ in range(10):
        ok(cuda.cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, None, parameters, None))
    launched += 10
    if sys.argv[1:] != ["alone"]:
        check_in_threads()
    elif asked.is_set():
        check_in_threads()
        asked.clear()
        print("checked", flush=True)
    else:
        check()
    assert not wrong, wrong
    if done.is_set(): break
print(launched)
"""


def unexpected(err):
    """The lines of a program's stderr but those which a busy machine or the test causes; their text: test_words.py."""
    told = ("not responded", "responds again", "the server stops (drain)", "the session is suspended", "the session is resumed")
    return [line for line in err.splitlines() if not any(words in line for words in told)]


class Busy:
    """A program that works until its input ends."""

    def __init__(self, address, *words):
        self.process = subprocess.Popen([sys.executable, "-c", BUSY, *words], env=client_env(address), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout.readline() == "begun\n", self.process.communicate()

    def threads(self):
        """Has it open connections, which is possible only while there is a server."""
        print(file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "checked\n", self.process.communicate()

    def end(self):
        """Sees that all that it has done was right."""
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, unexpected(err)) == (0, []), err
        assert int(out) > 0


@pytest.fixture(name="busy")
def fixture_busy():
    """busy(ADDRESS, WORD...): a program that works there."""
    programs = []

    def begin(address, *words):
        programs.append(Busy(address, *words))
        return programs[-1]

    yield begin
    for program in programs:
        program.process.kill()
        program.process.communicate()


@pytest.fixture(name="serve")
def fixture_serve(tmp_path):
    """serve(OPTION...): a server from an installation of its own."""
    servers = []

    def begin(*options, **env):
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        shutil.copy(SERVER, home / SERVER.name)
        (home / EMULATED.name).symlink_to(EMULATED)
        servers.append(Server(tmp_path / "server", *options, program=home / SERVER.name, **env))
        servers[-1].program = home / SERVER.name
        return servers[-1]

    yield begin
    for server in servers:
        server.end()


def install(server, content=None):
    """Puts a new file in the place of the server's program, as a package manager does."""
    new = server.program.with_suffix(".new")
    if content is None:
        # by another process: a child that another thread forks meanwhile must not hold it open for writing
        subprocess.run(["cp", "-p", SERVER, new], check=True)
    else:
        new.write_bytes(content)
        new.chmod(0o755)
    new.rename(server.program)


def upgrade(server):
    """Has the server execute its program, and waits until that has taken over."""
    before, refusals = (server.log().count(words) for words in ("continuing with", "upgrade: refused"))
    server.process.send_signal(signal.SIGUSR2)

    def upgraded():
        log = server.log()
        assert log.count("upgrade: refused") == refusals, log
        return log.count("continuing with") > before
    wait_until(upgraded, 30, "an upgrade")


def refused(server, why):
    """Has the server try to, and waits until it has refused."""
    before = server.log().count("upgrade: refused")
    server.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: server.log().count("upgrade: refused") > before, 30, f"a refusal:\n{server.log()}")
    assert why in server.log().splitlines()[-1]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def executes(pid):
    """The file that a process executes."""
    return os.stat(f"/proc/{pid}/exe").st_ino


@pytest.mark.slow
def test_ten_busy_sessions_go_through_ten_upgrades(serve, busy, app):
    # beside 50 threads that compute, the server's process may wait seconds for a processor
    server = serve("--command-wait", "120", own_session=False)
    programs = [busy(server.address(TRANSPORTS[i % 3])) for i in range(10)]
    workers = sorted(server.workers())
    files = descriptors(server.process.pid)
    enough = threading.Event()

    def others(name, transport):
        runs = 0
        while runs < 3 or not enough.is_set():
            result = run([app(name)], client_env(server.address(transport)))
            assert (result.status, unexpected(result.err)) == (0, []), result.err
            assert result.out == (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")
            runs += 1

    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = [pool.submit(others, name, t) for name, t in zip(("vector_add", "matmul", "streams_events"), TRANSPORTS)]
        for _ in range(10):
            install(server)
            upgrade(server)
            assert set(workers) <= set(server.workers())
        enough.set()
        for r in runs:
            r.result()
    for program in programs:
        program.end()
    server.wait_idle()
    assert server.log().count("continuing with") == 10
    assert descriptors(server.process.pid) <= files


def test_new_sessions_get_the_new_program(serve, busy):
    server = serve()
    old = busy(server.address("unix"))
    (worker,) = server.workers()
    before = executes(worker)
    install(server)
    other = busy(server.address("tcp"))     # not upgraded: program and workers stay of one release
    assert {executes(w) for w in server.workers()} == {before}
    upgrade(server)
    busy(server.address("tcp"))
    assert executes(server.process.pid) == server.program.stat().st_ino != before
    assert executes(worker) == before
    assert sorted(executes(w) == before for w in server.workers()) == [False, True, True]
    old.end()
    other.end()


@pytest.mark.parametrize("content, why", [
    (b"\x7fELF is not all there is to a program", "cannot be executed"),
    (b"#!/bin/sh\nexit 0x\n", "cannot continue"),
    (b"#!/bin/sh\nkill -SEGV $$\n", "crashed"),
])
def test_a_broken_program_is_refused(serve, busy, content, why):
    server = serve()
    program = busy(server.address("tcp"))
    install(server, content)
    refused(server, why)
    busy(server.address("unix")).end()
    install(server)
    upgrade(server)
    program.end()


def test_a_request_during_a_check_that_is_refused_is_not_lost(serve, busy, tmp_path):
    """The program may have been replaced since that check began."""
    server = serve()
    program = busy(server.address("tcp"))
    os.mkfifo(tmp_path / "go")
    install(server, f"#!/bin/sh\nread word < {tmp_path}/go\nexit 1\n".encode())
    server.process.send_signal(signal.SIGUSR2)
    with open(tmp_path / "go", "w", encoding="utf-8"):      # the check is running
        install(server)
        server.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: not int(signals_pending(server.process.pid), 16), 10, "the signal is taken")
    wait_until(lambda: "continuing with" in server.log(), 30, lambda: f"an upgrade:\n{server.log()}")
    assert server.log().count("upgrade: refused") == 1
    program.end()


def signals_pending(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return next(line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd"))


def test_a_program_that_does_not_know_an_option_is_refused(serve):
    server = serve("--max-lanes", "10")
    install(server, f"#!/bin/sh\nexec {SERVER} \"$@\" --moons\n".encode())
    refused(server, "exit status 2")
    server.program.unlink()
    refused(server, "cannot be executed")


def test_a_link_to_another_release_is_followed(serve, tmp_path):
    server = serve()
    server.stop()
    bin_dir = tmp_path / "bin"
    (bin_dir / "old").mkdir(parents=True)
    (bin_dir / "new").mkdir()
    for release in ("old", "new"):
        shutil.copy(SERVER, bin_dir / release / SERVER.name)
        (bin_dir / release / EMULATED.name).symlink_to(EMULATED)
    link = bin_dir / SERVER.name
    link.symlink_to(f"old/{SERVER.name}")
    linked = Server(tmp_path / "linked", program=link)
    link.unlink()
    link.symlink_to(f"new/{SERVER.name}")
    upgrade(linked)
    assert executes(linked.process.pid) == (bin_dir / "new" / SERVER.name).stat().st_ino
    linked.stop()


def test_a_server_that_drains_drains_on(serve, busy, app):
    server = serve("--drain", "10m")
    program = busy(server.address("unix"))
    server.process.terminate()
    wait_until(lambda: "--drain" in server.log(), 10, "the server drains")
    upgrade(server)
    result = run([app("vector_add")], client_env(server.address("unix")))
    assert result.status != 0 and "it is stopping" in result.err
    program.end()
    assert server.process.wait(timeout=HANG) == 0, server.log()


def test_spares_are_replaced_and_the_broker_stays(serve, busy):
    server = serve("--warm", "1", "--standby", "1", CRICKET_LOG="info,server:debug")

    def rested():
        return len(server.spares()) == 2 and all(name_of(s) == "cricket-spare" for s in server.spares())
    wait_until(rested, 20, "spares")
    m3(server, "alloc", "weights", "1M")
    m3(server, "write", "weights", "5", "hello")
    old, broker = set(server.spares()), server.broker()
    assert broker
    upgrade(server)
    wait_until(lambda: rested() and not old & set(server.spares()), 20, "new spares")
    assert not any(map(is_alive, old))
    assert "a spare worker has ended" not in server.log()      # which delays the next ones
    assert server.broker() == broker and m3(server, "read", "weights", "5", "5") == "hello"
    busy(server.address("tcp")).end()
    os.kill(broker, signal.SIGKILL)
    wait_until(lambda: "broker was killed" in server.log(), 10, "its end is noticed")
    assert "regions 0" in m3(server, "quota")


def test_a_connection_waits_with_half_of_its_call(serve):
    server = serve()
    call = bytes.fromhex("80000028" "00000007" "00000000" "00000002" "00000063" "00000001" "00000000" + 16 * "00")
    with contextlib.ExitStack() as stack:
        half = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        silent = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        half.sendall(call[:20])
        silent.setblocking(False)
        upgrade(server)
        half.sendall(call[20:])
        silent.sendall(call)
        for s in (half, silent):
            s.settimeout(HANG)
            assert s.recv(100)[4:12] == bytes.fromhex("0000000700000001")


def test_it_stays_the_same_process(serve):
    server = serve()
    upgrade(server)
    assert server.pid_file.read_text() == f"{server.process.pid}\n"
    second = run([SERVER, "--no-unix", "--pid-file", server.pid_file], client_env(None))
    assert second.status != 0 and "another server holds it" in second.err
    server.process.send_signal(signal.SIGUSR2)
    server.stop()       # whichever comes first


def test_sighup_reads_the_token_file_again(serve, busy, app, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    server = serve("--token-file", token)
    environment = dict(client_env(server.address("tcp")), CRICKET_TOKEN="second")
    assert run([app("vector_add")], environment).status != 0
    token.write_text("second\n")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "SIGHUP" in server.log(), 10, "the signal arrives")
    assert run([app("vector_add")], environment).status == 0
    upgrade(server)
    assert run([app("vector_add")], environment).status == 0


def test_signals_for_the_server_end_no_worker(serve, busy):
    server = serve("--standby", "1")
    program = busy(server.address("tcp"))
    wait_until(server.spares, 10, "a spare")
    m3(server, "alloc", "weights", "1M")
    children = [*server.workers(), *server.spares(), server.broker()]
    for sent in (signal.SIGHUP, signal.SIGUSR2):
        for pid in children:
            os.kill(pid, sent)
    program.end()
    assert all(map(is_alive, children[1:]))


def test_a_command_upgrades_and_says_so(serve, busy):
    server = serve()
    program = busy(server.address("tcp"))
    before = ctl(server, "sessions").stdout
    install(server)
    result = ctl(server, "upgrade")
    release = run([server.program, "--version"], clean_env()).out.split()[-1]
    assert (result.returncode, result.stdout, result.stderr) == (0, f"upgraded to {release}\n", "")
    assert executes(server.process.pid) == server.program.stat().st_ino
    # names of sessions stay, and are not used again
    assert ctl(server, "sessions").stdout.split()[6:9] == before.split()[6:9]
    busy(server.address("unix"))
    assert sorted(line.split()[0] for line in ctl(server, "sessions").stdout.splitlines()[1:]) == ["s1", "s2"]
    program.end()


def test_a_command_says_why_a_program_is_refused(serve):
    server = serve()
    install(server, b"#!/bin/sh\nexit 7\n")
    result = ctl(server, "upgrade")
    assert result.returncode == 1 and "exit status 7" in result.stderr
    install(server)
    assert ctl(server, "upgrade").returncode == 0


def taken(sock):
    """Waits until the other end has read all that was sent over a unix socket."""
    def rest():
        return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0" * 4))[0]
    wait_until(lambda: rest() == 0, 10, "the server has read it")


def ask_status(sock, line=b'{"command": "status"}\n'):
    sock.sendall(line)
    return json.loads(sock.makefile("r", encoding="utf-8").readline())


@pytest.fixture(name="connect")
def fixture_connect():
    """connect(SERVER, SUFFIX): a connection to the socket beside the server's unix socket."""
    with contextlib.ExitStack() as stack:
        def begin(server, suffix):
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.settimeout(HANG)
            sock.connect(f"{server.unix}{suffix}")
            return sock
        yield begin


@pytest.mark.parametrize("suffix", (".ctl", ".status"))
def test_commands_in_the_moment_of_an_upgrade_are_answered(serve, connect, suffix):
    """By the new program: of connections that are open, have sent half of a command, or are still in the queue."""
    server = serve()
    program = server.program
    files = descriptors(server.process.pid)
    idle, half = (connect(server, suffix) for _ in range(2))
    assert ask_status(idle)["ok"]
    half.sendall(b'{"command": "st')
    taken(half)
    others = [connect(server, suffix) for _ in range(14)]       # as many as the server takes at a time
    assert all(ask_status(other)["ok"] for other in others)
    queued = connect(server, suffix)
    queued.sendall(b'{"command": "status"}\n')
    install(server)
    upgrade(server)
    assert executes(server.process.pid) == program.stat().st_ino
    assert ask_status(half, b'atus"}\n')["ok"] and ask_status(idle)["ok"]
    for other in others:
        other.close()
    assert ask_status(queued, b"")["ok"]
    for sock in (idle, half, queued):
        sock.close()
    wait_until(lambda: descriptors(server.process.pid) < files + len(others), 10, "connections are closed")


def test_an_answer_that_is_being_read_goes_on_after_an_upgrade(serve, connect):
    server = serve()
    sock = connect(server, ".ctl")
    sock.setblocking(False)
    line, sent = b'{"command": "status"}\n', 0
    with contextlib.suppress(BlockingIOError):
        while True:                                     # until neither side has room
            sent += sock.send(line[sent % len(line):])
    sock.settimeout(HANG)
    upgrade(server)
    answers = sock.makefile("r", encoding="utf-8")
    for _ in range(sent // len(line)):
        assert json.loads(answers.readline())["ok"]
    sock.sendall(line[sent % len(line):])
    assert json.loads(answers.readline())["ok"]


def test_one_upgrade_at_a_time_is_asked_for(serve, tmp_path):
    server = serve()
    gate = tmp_path / "gate"
    install(server, f"#!/bin/sh\nuntil [ -e {gate} ]; do sleep 0.05; done\nexec {SERVER} \"$@\"\n".encode())
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(ctl, server, "upgrade")
        wait_until(lambda: "upgrade: checking" in server.log(), 10, "the check begins")
        second = ctl(server, "upgrade")
        assert second.returncode == 1 and "under way" in second.stderr
        assert "SESSION" in ctl(server, "sessions").stdout
        gate.touch()
        assert first.result().returncode == 0


def start_again(server, between=lambda: None):
    """Ends the server's process as a crash does, calls BETWEEN, and starts it again."""
    command, before = pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes(), server.process.pid
    environment = pathlib.Path(f"/proc/{before}/environ").read_bytes()
    server.process.kill()
    server.process.wait()
    between()
    with open(server.log_file, "a", encoding="utf-8") as log:
        server.process = subprocess.Popen([w.decode() for w in command.split(b"\0")[:-1]], stdout=log, stderr=log,
                                          env=dict(v.decode().split("=", 1) for v in environment.split(b"\0")[:-1]),
                                          stdin=subprocess.DEVNULL, start_new_session=True)


def restart(server):
    """The same, and waits for the new server: what the old one was starting may have its sockets for a moment."""
    before = server.log().count("listening on unix")
    start_again(server)
    wait_until(lambda: server.answers() and server.log().count("listening on unix") > before, 10,
               "the new server's unix socket answers")


def returned(server, count):
    """Waits until that many sessions have found the server again."""
    wait_until(lambda: len(ctl(server, "sessions").stdout.splitlines()) == 1 + count, 20, server.log())


def sessions(server):
    """The workers that the server knows, which need not be its children."""
    return sorted(int(line.split()[1]) for line in ctl(server, "sessions").stdout.splitlines()[1:])


@pytest.mark.parametrize("again", (1, 3))
def test_sessions_survive_a_crash_of_the_server(serve, busy, tmp_path, again):
    server = serve("--state-dir", tmp_path / "state", "--standby", "1")
    programs = [busy(server.address(t), "alone") for t in TRANSPORTS]
    m3(server, "alloc", "weights", "1M")
    m3(server, "write", "weights", "5", "hello")
    workers, broker = sorted(server.workers()), server.broker()
    for _ in range(again):
        restart(server)
        programs[0].threads()       # waits until its worker has found the new supervisor
        returned(server, 3)
        assert sessions(server) == workers
        for program in programs:
            program.threads()       # which connect through the new supervisor
    wait_until(lambda: "memory broker has its server again" in server.log(), 10, "the broker returns")
    assert is_alive(broker) and m3(server, "read", "weights", "5", "5") == "hello"
    upgrade(server)                 # which knows workers that are no children
    for program in programs:
        program.threads()
        program.end()
    wait_until(lambda: not sessions(server), 10, "the sessions have ended")
    server.stop()
    wait_until(lambda: not is_alive(broker), 10, "the broker goes with its server")


def crash(server):
    """Kills the server's process alone; its children, which outlive it or not."""
    children = [*server.workers(), *server.spares(), server.broker()]
    server.process.kill()
    server.process.wait()
    return [c for c in children if c]


@pytest.mark.parametrize("options", ((), ("--state-dir", "STATE")))
def test_a_server_waits_for_what_a_crashed_one_still_holds(serve, app, tmp_path, options):
    """A process that a server has just forked has its sockets and its lock until it executes a program."""
    server = serve(*(o.replace("STATE", str(tmp_path / "state")) for o in options))
    held = {}

    def listen(path, kind=socket.SOCK_STREAM):
        path.unlink(missing_ok=True)
        held_socket = socket.socket(socket.AF_UNIX, kind)
        held_socket.bind(str(path))
        held_socket.listen()
        return held_socket

    def hold():     # in the order in which a server wants it
        held[server.pid_file] = open(server.pid_file, encoding="utf-8")
        fcntl.flock(held[server.pid_file], fcntl.LOCK_EX)
        if options:
            held[tmp_path / "state" / "supervisor"] = listen(tmp_path / "state" / "supervisor", socket.SOCK_SEQPACKET)
        held[f"127.0.0.1:{server.port}"] = socket.create_server(("127.0.0.1", server.port))
        held[f"unix:{server.unix}"] = listen(server.unix)
        for suffix in (".ctl", ".status") if options else (".m3", ".ctl", ".status"):
            path = pathlib.Path(f"{server.unix}{suffix}")
            held[path] = listen(path, socket.SOCK_SEQPACKET if suffix == ".m3" else socket.SOCK_STREAM)

    with contextlib.ExitStack() as stack:
        start_again(server, hold)
        for holder in held.values():
            stack.enter_context(holder)
        for name, holder in held.items():
            wait_until(lambda name=name: f"{name} is in use: trying again" in server.log(), 10, f"it wants {name}")
            holder.close()
    wait_until(server.answers, 10, "the server answers")
    assert "SESSION" in ctl(server, "sessions").stdout and "regions 0" in m3(server, "quota")
    assert run([app("vector_add")], client_env(server.address("tcp"))).status == 0


def test_sessions_wait_for_their_server_as_long_as_it_says(serve, busy, tmp_path):
    server = serve("--state-dir", tmp_path / "state", "--keep", "1s")
    program = busy(server.address("tcp"), "alone")
    m3(server, "alloc", "weights", "1M")
    began = time.monotonic()
    children = crash(server)
    wait_until(lambda: not any(map(is_alive, children)), 20, "they end")
    assert time.monotonic() - began > 1 and "the server has not come back" in server.log()
    assert program.process.wait(timeout=HANG) != 0


@pytest.mark.parametrize("options", ((), ("--state-dir", "STATE", "--keep", "0")))
def test_sessions_end_with_their_server_unless_they_may_stay(serve, busy, tmp_path, options):
    server = serve(*(str(o).replace("STATE", str(tmp_path / "state")) for o in options))
    busy(server.address("unix"), "alone")
    m3(server, "alloc", "weights", "1M")
    children = crash(server)
    wait_until(lambda: not any(map(is_alive, children)), 2, "they go with it")


def test_spares_end_with_their_server(serve, tmp_path):
    server = serve("--state-dir", tmp_path / "state", "--standby", "2")
    wait_until(lambda: len(server.spares()) == 2, 10, "spares")
    children = crash(server)
    wait_until(lambda: not any(map(is_alive, children)), 2, "they go with it")


@pytest.mark.parametrize("drain", ("0", "10m"))
def test_a_stop_ends_sessions_that_have_returned(serve, busy, tmp_path, drain):
    server = serve("--state-dir", tmp_path / "state", "--drain", drain)
    program = busy(server.address("tcp"), "alone")
    m3(server, "alloc", "weights", "1M")
    (worker,), broker = server.workers(), server.broker()
    restart(server)
    returned(server, 1)
    wait_until(lambda: "memory broker has its server again" in server.log(), 10, "the broker returns")
    server.process.terminate()
    if drain != "0":
        wait_until(lambda: "1 running program has" in server.log(), 10, "the server drains")
        program.end()
    assert server.process.wait(timeout=HANG) == 0
    wait_until(lambda: not is_alive(worker) and not is_alive(broker), 2, "both have ended")
    assert os.listdir(tmp_path / "state") == []


def test_a_broker_that_has_returned_may_end(serve, tmp_path):
    server = serve("--state-dir", tmp_path / "state")
    m3(server, "alloc", "weights", "1M")
    broker = server.broker()
    restart(server)
    wait_until(lambda: "memory broker has its server again" in server.log(), 10, "the broker returns")
    os.kill(broker, signal.SIGKILL)
    wait_until(lambda: "memory broker has ended" in server.log(), 10, "its end is noticed")
    assert "regions 0" in m3(server, "quota") and server.broker() != broker


def test_a_state_folder_is_for_one_server_and_one_user(serve, tmp_path):
    state = tmp_path / "state"
    server = serve("--state-dir", state)
    assert state.stat().st_mode & 0o777 == 0o700
    second = run([SERVER, "--no-unix", "--listen", "127.0.0.1:0", "--state-dir", state], client_env(None))
    assert second.status == 1 and "Address already in use" in second.err
    server.stop()
    state.chmod(0o750)
    second = run([SERVER, "--no-unix", "--listen", "127.0.0.1:0", "--state-dir", state], client_env(None))
    assert second.status == 2 and "mode 0700" in second.err
    second = run([SERVER, "--no-unix", "--listen", "127.0.0.1:0", "--state-dir", state / "a" / "b"], client_env(None))
    assert second.status == 2 and "No such file" in second.err
    assert run([SERVER, "--state-dir", "state"], client_env(None)).status == 2


def test_nonsense_at_the_meeting_point_is_not_taken(serve, busy, tmp_path):
    server = serve("--state-dir", tmp_path / "state")
    program = busy(server.address("tcp"))
    files = descriptors(server.process.pid)
    with open("/dev/null", "rb") as null:
        for packet, attached in ((b"garbage", ()), (b"{}", ()), (b"{" * 5000, ()), (b'{"readable_by": 1}', ()),
                                 (b'{"readable_by": 1, "workers": [{"pid": 5}]}', ()),
                                 (b'{"readable_by": 1, "broker": {"fd": 3}}', ()),
                                 (b'{"readable_by": 1, "broker": {"fd": 3}, "workers": 7}', (null.fileno(),))):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                s.settimeout(HANG)
                s.connect(str(tmp_path / "state" / "supervisor"))
                socket.send_fds(s, [packet], attached)
                while s.recv(10):
                    pass
    silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(40)]
    for s in silent:
        s.connect(str(tmp_path / "state" / "supervisor"))
    program.end()
    for s in silent:
        s.close()
    server.wait_idle()
    wait_until(lambda: descriptors(server.process.pid) <= files, 10, "nothing is left open")


def states(server):
    return [line.split()[2] for line in ctl(server, "sessions").stdout.splitlines()[1:]]


NAMES = {"suspend": "suspended", "park": "parked"}


def suspend_at_rest(server, until, command):
    """Suspends the first session, whose program has stopped. What that has sent before still wants the GPU."""
    def rests():
        ctl(server, command, "s1", until)
        time.sleep(SLOW)
        return NAMES[command] in states(server)
    wait_until(rests, 20, "it stays suspended")


@pytest.mark.parametrize("event, until, command", ((upgrade, "use", "suspend"), (upgrade, "resume", "suspend"),
                                                   (restart, "use", "suspend"), (upgrade, "resume", "park"),
                                                   (restart, "use", "park")))
def test_a_suspended_session_stays_suspended(serve, busy, tmp_path, event, until, command):
    server = serve("--state-dir", tmp_path / "state")
    program = busy(server.address("tcp"), "alone")
    other = busy(server.address("unix"), "alone")
    program.process.send_signal(signal.SIGSTOP)
    suspend_at_rest(server, until, command)
    event(server)
    returned(server, 2)
    # a server that has crashed took the knowledge of contexts with it
    assert sorted(states(server)) == sorted(["running", NAMES[command] if event is upgrade else "suspended"])
    program.process.send_signal(signal.SIGCONT)
    if until == "resume":
        assert ctl(server, "resume", "s1").returncode == 0
    program.threads()
    program.end()
    other.end()
