"""tests/e2e/test_limits.py - how much of the server one client may use, and the errors beyond that."""
import concurrent.futures
import contextlib
import fcntl
import mmap
import os
import pathlib
import re
import socket
import struct
import subprocess
import time

import pytest

from conftest import DRIVER, HANG, SERVER, SLOW, Server, clean_env, client_env, lines_of_a_kind, listens, run, wait_until
from ports import free_port
from stranger import COMMANDS, NUMBERS, Session, call, name_of, opaque, padded, received, results, u32, u64

MIB = 1 << 20
LINK = 6
OUT_OF_MEMORY = 2
NOT_SUPPORTED = 801
DEVICE, HOST_KINDS = 1, (2, 3, 4)       # kinds of CUmemLocation
PLACE = 0x5000_0000_0000
ADD_SEALS, SHRINK = 1033, 2
F_SETPIPE_SZ = 1031
PRINTING = (".version 7.0\n.target sm_75\n.address_size 64\n"
            ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
            ".global .align 1 .b8 text[1001] = {" + "88," * 999 + "10,0};\n"
            ".visible .entry k() {\n .reg .b64 %rd<4>; .reg .b32 %r<2>;\n"
            " mov.u64 %rd1, text; cvta.global.u64 %rd2, %rd1;\n mov.u64 %rd3, 0;\n"
            " { .param .b64 p0; st.param.b64 [p0], %rd2; .param .b64 p1; st.param.b64 [p1], %rd3;"
            " .param .b32 rv; call.uni (rv), vprintf, (p0, p1); ld.param.b32 %r1,[rv]; }\n ret;\n}\n").encode()


@pytest.fixture
def limited(tmp_path):
    """Starts a server with the given options; it ends with the test."""
    servers = []

    def begin(*options, **env):
        servers.append(Server(tmp_path / "server", *options, **env))
        return servers[-1]
    yield begin
    for s in servers:
        s.stop()


def resident(pid):
    """Bytes of memory of a process."""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


def held_by(pid, name):
    """Bytes of memory that the file NAME in memory takes in process PID."""
    return next(os.stat(f"/proc/{pid}/fd/{fd}").st_blocks * 512 for fd in os.listdir(f"/proc/{pid}/fd")
                if name in os.readlink(f"/proc/{pid}/fd/{fd}"))


def fetched(session):
    """All kernel output that waits."""
    text = b""
    while True:
        err, reply = session.ask("ck_output")
        assert err == 0
        length = int.from_bytes(reply[:4], "big")
        if not length:
            return text
        text += reply[4:4 + length]


def printing(session):
    """A kernel whose every thread prints 1000 bytes; a function that launches it N times."""
    session.upload(PRINTING)
    assert session.build(100, name_of(PRINTING)) == 0
    session.send("ck_function", u64(101) + u64(100) + opaque(b"k"))

    def launch(times=1, threads=100):
        for _ in range(times):
            session.send("ck_launch", u64(101) + u32(1) * 3 + u32(threads) + u32(1) * 2 + u32(0) + u64(0) +
                         u32(0) + u32(0))
    return launch


@pytest.mark.parametrize("calls", [True, False])
def test_kernel_output_that_is_not_fetched_is_bounded(limited, calls):
    """With calls that could have fetched it, and by launches alone."""
    server = limited("--kernel-output", "1M")
    session = Session(server)
    worker, = server.workers()
    launch = printing(session)
    launch(200)     # 20 MB, more than the driver keeps to itself
    if calls:
        assert session.ask("cuCtxSynchronize") == (0, b"")
    wait_until(lambda: "1048576 bytes of kernel output" in server.log(), 20, "the bound is found to be passed")
    assert session.ask("cuCtxSynchronize") == (0, b"")
    before = held_by(worker, "cricket-stdout")
    launch(100)     # 10 MB
    assert session.ask("cuCtxSynchronize") == (0, b"")
    assert held_by(worker, "cricket-stdout") == before
    text = fetched(session)
    assert len(text) > MIB
    assert text.endswith(b"(see --kernel-output of the server)\n")
    assert text.count(b"cricket:") == 1
    launch()        # from now on it is as before
    assert session.ask("cuCtxSynchronize") == (0, b"")
    assert fetched(session) == (b"X" * 999 + b"\n") * 100
    assert len(re.findall(r"WARNING: .*bytes of kernel output.*--kernel-output", server.log())) == 1
    session.end()


def pinned_file(size):
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, ADD_SEALS, SHRINK)
    return fd


def test_registered_host_memory_is_bounded(limited):
    """A file of 1 TiB takes no memory, and registering it would."""
    server = limited("--pinned-memory", "64M")
    session = Session(server, "unix")
    fd = pinned_file(1 << 40)
    err, reply = session.ask("ck_pinned_file", u64(PLACE) + u64(1 << 40), fd=fd)
    assert err == 0 and reply[:4] == u32(1)

    def register(offset, size):
        return session.ask("ck_pinned_map", u64(PLACE + offset) + u64(size) + u64(offset) + u32(0))[0]
    assert register(0, 1 << 40) == OUT_OF_MEMORY
    assert [register(at * 16 * MIB, 16 * MIB) for at in range(5)] == [0] * 4 + [OUT_OF_MEMORY]
    assert "more than 67108864 bytes of host memory: refused (--pinned-memory)" in server.log()
    session.send("ck_pinned_unmap", u64(PLACE))     # what is given back may be taken again
    assert session.error() == 0
    assert register(64 * MIB, 16 * MIB) == 0
    os.close(fd)
    session.end()


def test_by_default_a_session_registers_no_more_than_half_of_the_hosts_memory(limited):
    server = limited()
    session = Session(server, "unix")
    fd = pinned_file(1 << 40)
    assert session.ask("ck_pinned_file", u64(PLACE) + u64(1 << 40), fd=fd)[0] == 0
    most = os.sysconf("SC_PHYS_PAGES") // 2 * mmap.PAGESIZE
    assert session.ask("ck_pinned_map", u64(PLACE) + u64(most + mmap.PAGESIZE) + u64(0) + u32(0))[0] == OUT_OF_MEMORY
    os.close(fd)
    session.end()


@pytest.mark.skipif(DRIVER != "emu", reason="another driver may refuse memory of the host by itself")
def test_a_client_gets_no_memory_of_the_servers_host(limited):
    """The driver would take it without any bound. Clients have memory of their own host."""
    session = Session(limited())

    def location(kind):
        return struct.pack("<II", kind, 0)

    def pool(number, kind, managed=False):
        props = struct.pack("<II", 2 if managed else 1, 0) + location(kind) + bytes(72)
        return session.ask("cuMemPoolCreate", u64(number) + props)[0]
    assert pool(50, DEVICE) == 0
    for number, kind in enumerate(HOST_KINDS, 51):
        assert pool(number, kind) == NOT_SUPPORTED
        assert session.ask("cuMemGetDefaultMemPool", location(kind) + u32(1))[0] == NOT_SUPPORTED
        assert session.ask("cuMemGetMemPool", location(kind) + u32(1))[0] == NOT_SUPPORTED
        prop = struct.pack("<II", 1, 0) + location(kind) + bytes(16)
        assert session.ask("cuMemCreate", u64(number) + u64(2 * MIB) + prop + u64(0))[0] == NOT_SUPPORTED
    assert pool(60, 0, managed=True) == NOT_SUPPORTED       # it may be in the host
    assert session.ask("cuMemGetDefaultMemPool", location(DEVICE) + u32(1))[0] == 0
    session.end()


def test_lanes_are_bounded(limited):
    server = limited("--max-lanes", "4")
    session = Session(server)
    lanes = [session.join() for _ in range(3)]      # and the one that the session began with
    with pytest.raises((EOFError, OSError)):
        session.join()
    wait_until(lambda: "more than 4 connections for calls: refused (--max-lanes)" in server.log(), 5, server.log())
    lanes[0].close()        # its place is free again
    wait_until(lambda: joins(session), 5, "another lane")
    assert session.error() == 0
    session.end()


def test_the_connection_for_commands_may_come_after_all_for_calls(limited):
    session = Session(limited("--max-lanes", "4"), commands=False)
    for _ in range(3):
        session.join()
    with pytest.raises((EOFError, OSError)):
        session.join()
    session.join(COMMANDS)
    with pytest.raises((EOFError, OSError)):
        session.join(COMMANDS)
    session.end()


def joins(session):
    try:
        return session.join()
    except (EOFError, OSError):
        return None


def test_what_lanes_receive_takes_little_memory(limited):
    """Each lane is in the middle of a long message, of several parts and of one."""
    server = limited()
    session = Session(server, "unix")
    worker, = server.workers()
    before = resident(worker)
    lanes = [session.join() for _ in range(200)]
    for number, lane in enumerate(lanes):
        lane.setblocking(False)
        message = u32(900_000) + bytes(900_000) if number % 2 else u32(0x80000000 | 900_000) + bytes(800_000)
        try:
            while message:
                message = message[lane.send(message):]
        except BlockingIOError:
            pass
    assert session.error() == 0
    wait_until(lambda: "unfinished long messages: a connection is closed" in server.log(), 30, "lanes are closed")
    assert session.error() == 0
    assert resident(worker) - before < 120 * MIB     # 200 messages are 170 MB
    session.end()


def test_lanes_that_wait_for_room_go_on(limited):
    """Long messages from more lanes than have room at a time all arrive."""
    server = limited()
    session = Session(server, "unix")
    lanes = [session.join() for _ in range(80)]
    args = u64(session.sent) + u64(7) + u64(1) + u64(0) + u32(0) + opaque(bytes(600_000))
    halves = []
    for lane in lanes:
        message = call(60_000, args)        # no such call: what counts is that it is read and answered
        lane.setblocking(False)
        sent = 0
        try:
            while sent < len(message) - 4:
                sent += lane.send(message[sent:-4])
        except BlockingIOError:
            pass
        halves.append(message[sent:])
        lane.setblocking(True)

    def finish(lane, rest):
        lane.settimeout(60)
        lane.sendall(rest)
        return lane.recv(4, socket.MSG_WAITALL)

    # all at a time: which lanes have room does not depend on their order
    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        assert all(pool.map(finish, lanes, halves))
    session.end()


class Stream:
    """A connection of a session that outlives its connections: frames with a head of length and confirmed bytes, which
    it never sends."""

    def __init__(self, server, name, kind, number):
        self.socket = socket.create_connection(("127.0.0.1", server.port), HANG)
        self.socket.sendall(call(LINK, name + u32(kind) + u32(number) + u64(0)))
        assert results(self.socket)[:12] == u32(0) + u64(0)

    def send(self, number, args, sent=0, context=0):
        message = call(number, u64(sent) + u64(context) + args)
        self.socket.sendall(u32(len(message)) + u32(0) + message)

    def reply(self):
        """The result of a call with a short reply."""
        data = b""
        while len(data) < 4 or len(data) < 4 + (struct.unpack(">I", data[:4])[0] & 0x7fffffff):
            length, = struct.unpack(">I", received(self.socket, 8)[:4])
            data += received(self.socket, length & 0x3fffffff)
        return data[28:]


def test_unconfirmed_replies_of_a_session_are_bounded(limited):
    """Many threads read what they download, and confirm nothing: they wait, and others do not."""
    server, size = limited("--pinned-memory", "64M"), 32 * MIB
    with socket.create_connection(("127.0.0.1", server.port), HANG) as hello:
        hello.sendall(call(1, u32(1) + opaque(b"test") + opaque(b"") + opaque(b"stranger") + opaque(b"here") + u32(1) + u32(60)))
        answer = results(hello)
        at = 8 + len(padded(answer[8:8 + struct.unpack(">I", answer[4:8])[0]])) + 4
        at += 4 + len(padded(bytes(struct.unpack(">I", answer[at:at + 4])[0])))
        name = answer[at:at + 32]
        commands = Stream(server, name, 1, 1)
        commands.send(NUMBERS["ck_primary_retain"], u64(7) + u32(0), sent=1)
        lanes = [Stream(server, name, 2, 100 + i) for i in range(40)]
        lanes[0].send(NUMBERS["cuMemAlloc_v2"], u64(size), 1, 7)
        memory = lanes[0].reply()[12:20]
        worker, = server.workers()
        before, taken = resident(worker), [0]

        def pull(lane):
            lane.send(NUMBERS["ck_download"], memory + u64(0) + u64(size) + u32(0), 1, 7)
            lane.socket.settimeout(2 * SLOW)
            with contextlib.suppress(OSError):
                while data := lane.socket.recv(MIB):
                    taken[0] += len(data)
        with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
            list(pool.map(pull, lanes))
        grown = resident(worker) - before
        assert grown < 360 * MIB, (grown >> 20, taken[0] >> 20)
        session = Session(server)       # of another program
        assert session.error() == 0
        session.end()
        for stream in (commands, *lanes):
            stream.socket.close()


def test_one_client_does_not_evict_the_modules_of_others(limited, app):
    server = limited("--cache-per-identity", "4M", "--cache-size", "16M")
    run([app("vector_add")], client_env(server.address("unix")))
    greedy = Session(server, "tcp")
    for _ in range(40):
        greedy.upload(os.urandom(MIB))
    assert greedy.error() == 0
    greedy.end()
    cache = pathlib.Path(server.log_file.parent / "cache")
    assert sum(p.stat().st_blocks * 512 for p in cache.rglob("*") if p.is_file()) < 6 * MIB
    result = run([app("vector_add")], client_env(server.address("unix"), CRICKET_STATS="1"))
    assert result.status == 0 and "ck_image" not in result.err


@pytest.mark.parametrize("option", ["--max-lanes", "--kernel-output", "--pinned-memory", "--cache-per-identity",
                                    "--sessions-per-address", "--sessions-per-identity", "--command-wait"])
def test_a_limit_must_be_a_number(option):
    for value in ("0", "-1", "many", "", "9" * 30):
        result = run([SERVER, option, value], clean_env())
        assert result.status == 2 and option in result.err, result.err
    assert option in run([SERVER, "--help"], clean_env()).out


def test_a_log_that_nobody_reads_stops_nothing(tmp_path, app):
    """The log is a pipe, full before the server begins; lines of later are counted."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, F_SETPIPE_SZ, 4096)
    os.write(theirs, b"." * 4095 + b"\n")
    port = free_port()
    with subprocess.Popen([SERVER, "--driver", DRIVER, "--listen", f"127.0.0.1:{port}", "--unix", tmp_path / "s"],
                          env=clean_env(CRICKET_CACHE_DIR=str(tmp_path / "cache")), stderr=theirs,
                          stdin=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: listens(tmp_path / "s"), 20, "the server listens")
            assert os.get_blocking(theirs)      # the flag is that of all who have the pipe
            for _ in range(100):
                with socket.create_connection(("127.0.0.1", port)) as garbage:
                    garbage.sendall(b"GET / HTTP/1.0\r\n\r\n")
            result = run([app("vector_add")], client_env(f"127.0.0.1:{port}"))
            assert result.status == 0, result.err
            os.close(theirs)
            theirs = None
            text = b""
            with open(ours, "rb", buffering=0) as log:
                while not re.search(rb"WARNING: \d+ lines dropped: the pipe of the log was full\n", text):
                    assert (more := log.read(65536)), text
                    text += more
        finally:
            server.kill()
            if theirs is not None:
                os.close(theirs)


def test_repeated_log_lines_are_summarised(tmp_path):
    server = Server(tmp_path / "server")
    began = time.monotonic()
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", server.port)) as garbage:
            garbage.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert garbage.recv(1) == b""
    server.stop()
    lines = [line for line in server.log().splitlines() if "does not use RPC" in line]
    assert len(lines) <= lines_of_a_kind(began)
    more = sum(int(n) for n in re.findall(r"does not use RPC: closed \.\.\. (\d+) more in the last \d+ s", server.log()))
    assert more + sum(" more in the last " not in line for line in lines) == 200
