"""tests/e2e/test_failures.py - what a program sees when the server is not there, is not one, or
goes away; and that sessions do not disturb one another.

The promise everywhere: the CUDA call returns an error, one line on stderr says which address and
why, and the program ends by itself, soon.
"""
import contextlib
import os
import signal
import socket
import struct
import sys
import threading
import time

import pytest

from conftest import DRIVER, EXPECTED, HANG, PATIENCE, SLOW, TRANSPORTS, Server, client_env, ended, is_alive, run, start, wait_until
from ports import free_port


def expect_refusal(result, address, *reasons):
    """The program was told at its first call; one line names the address and one of REASONS."""
    assert result.status == 1, (result.out, result.err)
    about = result.lines_about(address)
    assert len(about) == 1, result.err
    assert any(reason.lower() in about[0].lower() for reason in reasons), about[0]
    assert "cudaError" in result.err


class FakeServer:
    """Accepts connections on the loopback interface and gives each to ANSWER in a thread."""

    def __init__(self, answer):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.answer = answer
        self.open = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.open.append(connection)
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        try:
            self.answer(connection)
        except OSError:
            pass

    def close(self):
        self.socket.close()
        for connection in self.open:
            connection.close()


@pytest.fixture
def fake():
    servers = []

    def make(answer):
        servers.append(FakeServer(answer))
        return servers[-1].address
    yield make
    for s in servers:
        s.close()


def read_record(connection):
    """One RPC record (RFC 5531, section 11), its fragments joined."""
    record = b""
    while True:
        head = connection.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            raise OSError("end of stream")
        size = struct.unpack(">I", head)[0]
        record += connection.recv(size & 0x7fffffff, socket.MSG_WAITALL)
        if size & 0x80000000:
            return record


def reply(connection, call, accept_status, body=b""):
    """Answers CALL: an accepted reply with no verifier, ACCEPT_STATUS and BODY."""
    message = call[:4] + struct.pack(">5I", 1, 0, 0, 0, accept_status) + body
    connection.sendall(struct.pack(">I", 0x80000000 | len(message)) + message)


def xdr_string(text):
    data = text.encode()
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


# ---- no server -------------------------------------------------------------------------------

@pytest.mark.quick
def test_nobody_listens_on_the_port(app):
    address = f"127.0.0.1:{free_port()}"
    result = run([app("vector_add")], client_env(address), 10)
    expect_refusal(result, address, "refused")
    assert "is cricket-rpc-server running there" in result.err and "--listen" in result.err


def test_there_is_no_such_socket(app, tmp_path):
    address = f"unix:{tmp_path / 'nothing'}"
    result = run([app("vector_add")], client_env(address), 10)
    expect_refusal(result, tmp_path / "nothing", "no such file")
    assert "is cricket-rpc-server running, with this socket" in result.err


def test_the_host_has_no_address(app):
    result = run([app("vector_add")], client_env("no-such-host.invalid", CRICKET_TIMEOUT="3"), 30)
    assert result.status == 1
    assert len(result.lines_about("no-such-host.invalid")) == 1, result.err


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1:port", "unix:", ":"])
def test_the_address_is_none(app, address):
    result = run([app("vector_add")], client_env(address), 10)
    assert result.status == 1
    assert len(result.lines_about(f"REMOTE_GPU_ADDRESS={address}")) == 1, result.err


def test_without_an_address_and_a_server_it_says_what_to_set(app, tmp_path):
    for path in ("/run/cricket.sock", f"/tmp/cricket-{os.geteuid()}.sock"):
        if os.path.exists(path):
            pytest.skip(f"this host has a server, or had: {path}")
    env = client_env(None, XDG_RUNTIME_DIR=str(tmp_path))
    result = run([app("vector_add")], env, 10)
    assert result.status == 1
    assert "cudaErrorNoDevice" in result.err
    assert len(result.lines_about("REMOTE_GPU_ADDRESS")) == 1, result.err
    assert "start cricket-rpc-server" in result.err


def test_without_an_address_it_takes_this_hosts_server(app, tmp_path):
    server = Server(tmp_path / "run", default_unix=True)
    try:
        result = run([app("vector_add")], client_env(None, XDG_RUNTIME_DIR=str(tmp_path / "run")))
        assert (result.status, result.err) == (0, "")
        server.stop()
    finally:
        server.kill()


def test_an_empty_list_of_visible_devices_is_no_device(server, app):
    env = client_env(server.address("tcp"), CUDA_VISIBLE_DEVICES="")
    result = run([app("vector_add")], env, 10)
    assert result.status == 1 and "cudaErrorNoDevice" in result.err


@pytest.mark.quick
def test_programs_without_cuda_are_left_alone(tmp_path):
    env = client_env(f"127.0.0.1:{free_port()}")
    result = run(["/bin/sh", "-c", "echo hello; ls / >/dev/null"], env, 10)
    assert (result.status, result.out, result.err) == (0, "hello\n", "")


# ---- something that is no server, or another one ------------------------------------------------

def test_it_accepts_and_never_answers(app, fake):
    address = fake(lambda c: threading.Event().wait(60))
    result = run([app("vector_add")], client_env(address, CRICKET_TIMEOUT="2"), 15)
    expect_refusal(result, address, "timed out", "no answer", "in time")
    assert result.seconds >= 1.5


def test_it_hangs_up_at_once(app, fake):
    address = fake(lambda c: c.close())
    expect_refusal(run([app("vector_add")], client_env(address), 15), address,
                   "closed", "reset", "broken pipe", "gone")


@pytest.mark.parametrize("rubbish", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10, b"\0" * 400,
                                     b"\xff" * 400, b"\x80\0\0\4abcd" * 9],
                         ids=["http", "zeros", "ones", "short records"])
def test_it_answers_rubbish(app, fake, rubbish):
    def answer(connection):
        read_record(connection)
        connection.sendall(rubbish)
        threading.Event().wait(60)
    address = fake(answer)
    result = run([app("vector_add")], client_env(address, CRICKET_TIMEOUT="2"), 15)
    assert result.status == 1
    assert len(result.lines_about(address)) == 1, result.err
    assert "it is not a cricket-rpc-server" in result.err or "timed out" in result.err


def test_it_has_another_version_of_the_program(app, fake):
    def answer(connection):
        while True:
            reply(connection, read_record(connection), 2, struct.pack(">2I", 7, 9))
    address = fake(answer)
    expect_refusal(run([app("vector_add")], client_env(address), 15), address, "version")


def test_it_speaks_another_protocol(app, fake):
    def answer(connection):
        while True:
            body = (struct.pack(">I", 1) + xdr_string("server speaks protocol 77") +
                    struct.pack(">I", 77) + xdr_string("77.0") + bytes(16) + bytes(16) +
                    struct.pack(">2i2I3I", 0, 0, 0, 0, 0, 0, 0))
            reply(connection, read_record(connection), 0, body)
    address = fake(answer)
    expect_refusal(run([app("vector_add")], client_env(address), 15), address, "77")


# ---- the server goes away ----------------------------------------------------------------------

def running(app, server, transport, kind, **env):
    """An endless program in full swing, and the worker that serves it."""
    server.wait_idle()
    client = start([app("endless"), kind], client_env(server.address(transport), **env))
    try:
        assert client.stdout.readline() == "running\n", client.stderr.read()
        workers = server.workers()
        assert len(workers) == 1, server.log()
    except BaseException:
        client.kill()
        client.communicate()
        raise
    return client, workers[0]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("victim", ["worker", "supervisor"])
@pytest.mark.parametrize("kind", [pytest.param("launch", marks=pytest.mark.threads), "sync", "copy", "alloc", "poll"])
def test_the_server_is_killed_in_the_middle(app, own_server, kind, victim, transport):
    # a server that does not answer may come back: test_resume.py has the programs that wait for it
    client, worker = running(app, own_server, transport, kind, CRICKET_RESUME="0" if victim == "supervisor" else "60s")
    os.kill(worker if victim == "worker" else own_server.process.pid, signal.SIGKILL)
    result = ended(client, 5)
    assert result.status == 3, (result.out, result.err)
    told = [line for line in result.out.splitlines() if line.startswith(("ended", "later"))]
    assert len(told) == 2 and all("cudaError" in line for line in told), result.out
    where = own_server.port if transport == "tcp" else own_server.unix
    assert len(result.lines_about(where)) == 1, result.err
    if victim == "worker":
        after = run([app("vector_add")], client_env(own_server.address(transport)), 30)
        assert after.status == 0, after.err
    else:
        own_server.process.wait(HANG)      # with much memory a process does not end at once
        wait_until(lambda: not is_alive(worker), 2, "the worker goes with its supervisor")


@pytest.mark.threads
def test_a_waiting_program_is_told_when_the_server_dies(app, own_server):
    client = start([app("spin")], client_env(own_server.address("tcp")))
    assert client.stdout.readline() == "spinning\n"
    os.kill(own_server.workers()[0], signal.SIGKILL)
    result = ended(client, 5)
    assert result.status == 3 and "cudaError" in result.out, (result.out, result.err)


def test_a_stopped_server_ends_its_sessions(app, own_server):
    client, _ = running(app, own_server, "unix", "sync")
    own_server.stop()
    assert ended(client, 5).status == 3


def ticks(pid):
    """Processor time that a process has used, in clock ticks."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_server_that_stands_still_for_a_while_is_waited_for(app, own_server, transport):
    """For longer than a connection to it may take, which is long enough for a machine that is busy."""
    seconds = 2 * PATIENCE
    clients = [start([app("endless"), kind], client_env(own_server.address(transport), CRICKET_TIMEOUT=str(seconds)))
               for kind in ("launch", "sync", "copy")]
    try:
        for client in clients:
            assert client.stdout.readline() == "running\n", client.stderr.read()
        workers = own_server.workers()
        assert len(workers) == len(clients)
        for pid in (own_server.process.pid, *workers):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds + 1)
        processes = [*workers, *(client.pid for client in clients)]
        idle = {pid: ticks(pid) for pid in processes}
        for pid in (own_server.process.pid, *workers):
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: all(ticks(pid) > idle[pid] + 3 for pid in processes), 10, "clients and workers are at it again")
        for client in clients:
            assert client.poll() is None, client.communicate()
    finally:
        for client in clients:
            client.kill()
            client.communicate()
    own_server.wait_idle()


@pytest.mark.skipif(DRIVER != "emu", reason="only the emulated GPU's memory can be chosen")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_memory_that_is_not_there_is_refused_at_the_call(app, tmp_path, transport):
    server = Server(tmp_path / "server", CRICKET_EMU="memory=64M")
    try:
        result = run([app("out_of_memory")], client_env(server.address(transport)))
        assert (result.status, result.err) == (0, "")
        assert result.out == (EXPECTED / "out_of_memory.txt").read_text()
        server.stop()
    finally:
        server.kill()


# The kernel reports the end of a program of the same machine, over TCP too.
GONE = 1    # seconds


# ---- the client goes away ----------------------------------------------------------------------

@pytest.mark.alone
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", ["launch", "sync", "copy", "alloc"])
def test_a_killed_client_leaves_no_worker(app, own_server, kind, transport):
    client, worker = running(app, own_server, transport, kind)
    client.kill()
    client.communicate()
    wait_until(lambda: not is_alive(worker), GONE, "the killed client's worker is gone")


@pytest.mark.alone
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_killed_during_an_endless_kernel_leaves_no_worker(app, own_server, transport):
    client = start([app("spin")], client_env(own_server.address(transport)))
    assert client.stdout.readline() == "spinning\n"
    workers = own_server.workers()
    client.kill()
    client.communicate()
    wait_until(lambda: not any(map(is_alive, workers)), GONE, "the worker is gone, kernel and all")


# ---- sessions beside one another ---------------------------------------------------------------

@pytest.mark.threads
@pytest.mark.parametrize("neighbour", ["fault", "spin", "endless launch", "endless copy",
                                       "endless alloc"])
def test_a_neighbour_disturbs_nobody(app, own_server, neighbour):
    name, *kind = neighbour.split()
    other = start([app(name), *kind], client_env(own_server.address("tcp")))
    try:
        if name != "fault":
            assert other.stdout.readline() in ("running\n", "spinning\n")
        for program in ("matmul", "streams_events", "copies"):
            result = run([app(program)], client_env(own_server.address("unix")), 90)
            assert result.out == (EXPECTED / f"{program}.txt").read_text(), result.err
            assert result.status == 0
        if name != "fault":
            assert other.poll() is None, other.communicate()
    finally:
        if other.poll() is None:
            os.killpg(other.pid, signal.SIGKILL)
        out, err = other.communicate()
    if name == "fault":
        assert "synchronise: cudaErrorIllegalAddress" in out, err


@pytest.mark.threads
def test_many_clients_at_the_same_time(app, own_server):
    clients = [start([app(name)], client_env(own_server.address(transport)))
               for name in ("vector_add", "matmul", "symbols", "reduction")
               for transport in TRANSPORTS]
    for client in clients:
        result = ended(client, 90)
        name = os.path.basename(client.args[0])
        assert result.out == (EXPECTED / f"{name}.txt").read_text(), result.err
    own_server.wait_idle()


FORKED = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
print("forked", flush=True)
time.sleep(30)
"""


@pytest.mark.alone
def test_a_forked_child_does_not_keep_its_parents_session(own_server):
    """The parent is killed, its child lives on: the worker goes within a second all the same."""
    parent = start([sys.executable, "-c", FORKED], client_env(own_server.address("unix")))
    try:
        assert parent.stdout.readline() == "forked\n", parent.stderr.read()
        own_server.has_workers(1)
        os.kill(parent.pid, signal.SIGKILL)
        own_server.wait_idle(1)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()


def test_a_program_ends_although_the_server_is_stopped(app, own_server):
    """SIGSTOP leaves connections open that nobody reads: exit gives up after a few seconds."""
    program = FORKED.split("if os.fork")[0] + "print('up', flush=True)\nsignal.sigwait([signal.SIGUSR1])\n"
    program = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n" + program
    client = start([sys.executable, "-c", program], client_env(own_server.address("unix")))
    assert client.stdout.readline() == "up\n", client.stderr.read()
    worker, = own_server.workers()
    with stopped(worker):
        client.send_signal(signal.SIGUSR1)
        assert ended(client, 8).status == 0


# As if the program had changed its user or root directory: threads that begin from then on do not reach the server's socket.
UNREACHED = """
import ctypes, os, sys, threading
c, path = ctypes.CDLL("libcuda.so.1"), sys.argv[1]
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert c.cuCtxSetCurrent(context) == 0 and c.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64)) == 0
def use(results, barrier=None):
    c.cuCtxSetCurrent(context)
    results.add(c.cuMemcpyDtoH_v2(ctypes.create_string_buffer(64), memory, ctypes.c_size_t(64)))
    barrier and barrier.wait()
def threads(count):
    results, barrier = set(), threading.Barrier(count)
    all = [threading.Thread(target=use, args=(results, barrier)) for _ in range(count)]
    [t.start() for t in all] and [t.join() for t in all]
    return results
own = set()
use(own)
os.rename(path, path + ".away")
refused = threads(20)
use(own)
os.rename(path + ".away", path)
print(304 in refused, refused <= {0, 304}, own, threads(20))
"""


@pytest.mark.parametrize("transport", ["unix", "shm"])
def test_a_thread_that_cannot_reach_the_server_gets_an_error_and_one_line(own_server, transport):
    result = run([sys.executable, "-c", UNREACHED, own_server.unix], client_env(own_server.address(transport)))
    assert (result.status, result.out) == (0, "True True {0} {0}\n"), result
    line, = result.err.splitlines()
    assert "no further connection to the GPU server" in line and "No such file or directory" in line, line


# --- a function of the host is under way in a stream

@pytest.mark.alone
def test_a_client_that_is_killed_with_a_function_pending_leaves_no_worker(server, app):
    process = start([app("host_functions"), "pending"], client_env(server.address("unix")))
    assert process.stdout.readline() == "waiting\n"
    process.kill()
    server.wait_idle(GONE)
    process.communicate(timeout=HANG)


@pytest.mark.parametrize("how, status", [("leave", 0), ("exit", 3)])
def test_a_program_ends_with_a_function_under_way(server, app, how, status):
    result = run([app("host_functions"), how], client_env(server.address("tcp")), timeout=10)
    assert result.status == status, result.err
    server.wait_idle()


def test_callbacks_learn_that_the_server_is_lost(own_server, app):
    process = start([app("host_functions"), "lost"], client_env(own_server.address("tcp"), CRICKET_RESUME="1s"))
    assert process.stdout.readline() == "waiting\n"
    own_server.kill()
    result = ended(process, 20)
    assert result.out == "the callback was told of an error\n"
    assert result.status == 0, result.err


# ---- a server that does not respond ------------------------------------------------------------

@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_stopped_worker_is_reported_once_and_once_more_when_it_goes_on(app, own_server, transport):
    client = start([app("waits"), "stream_synchronise", 64, 60 * SLOW], client_env(own_server.address(transport)))
    try:
        wait_until(lambda: "session of" in own_server.log(), 10, "the session is there")
        time.sleep(0.3)
        with stopped(own_server.workers()[0]):
            began = time.monotonic()
            line = client.stderr.readline()
            seconds = time.monotonic() - began
            time.sleep(1)
        assert f"server {own_server.address(transport)} has not responded for 5 s, still waiting" in line
        assert 4 < seconds < 12 * PATIENCE, seconds
        assert f"server {own_server.address(transport)} responds again" in client.stderr.readline()
    finally:
        client.kill()
    assert client.communicate()[1] == ""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_kernel_that_runs_for_long_is_no_server_that_does_not_respond(app, own_server, transport):
    client = start([app("spin")], client_env(own_server.address(transport)))
    assert client.stdout.readline() == "spinning\n", client.stderr.read()
    time.sleep(8)
    assert client.poll() is None
    client.kill()
    assert client.communicate()[1] == ""
