"""tests/e2e/test_parallel_upload.py - one-way uploads over several connections, whatever happens to these and to the session.

The client simulates a long link (tests/network), and uses six connections from the first upload that has waited.
"""
import contextlib
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading

import pytest

from breaker import Breaker
from conftest import SLOW, Server, client_env, over, run, wait_until
from test_control import Asker
from test_evolution import Elder
from test_move import move, receiver
from tls import Authority
from travel import servers_with_criu, session_of  # noqa: F401

PROGRAM = pathlib.Path(__file__).parent / "uploads_program.py"
LINK = "rtt=10ms,bw=1G"
ROUNDS = 10


def env_of(address, **more):
    env = {**over(LINK), "CRICKET_DEBUG": "no-compress", "CRICKET_CONNECTIONS": "6", "CRICKET_STATS": "1", "CRICKET_LOG": "client:debug", **more}
    return client_env(address, **env)


@contextlib.contextmanager
def started(address, rounds=ROUNDS, seed=1, **env):
    """The program, when its session exists."""
    process = subprocess.Popen([sys.executable, PROGRAM, str(rounds), str(seed)], env=env_of(address, **env), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline()
        assert line == "ready\n", line + process.stderr.read()
        yield process
    finally:
        process.kill()
        process.wait()


def finish(process, parallel=True):
    """Its bytes are right, and went over several connections."""
    out, err = process.communicate(timeout=120 * SLOW)
    assert process.returncode == 0 and out.endswith("right\n"), out + err
    assert bool(re.search(r"ck_upload_beside", err)) == parallel, err
    return err


def has_ended(reply):
    """The program was faster than the commands."""
    return "has ended" in reply["error"] or "no session" in reply["error"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_streams_is_kept(server, seed):
    with started(server.address("tcp"), seed=seed) as process:
        err = finish(process)
    assert "one-way uploads use 6 connections" in err, err


@pytest.mark.parametrize("keep", ["60", "0"])
def test_every_connection_has_tls(tmp_path, keep):
    authority = Authority(tmp_path / "ca")
    cert, key = authority.sign("server")
    server = Server(tmp_path / "server", "--tls-cert", cert, "--tls-key", key)
    try:
        with started(server.address("tcp"), CRICKET_TLS_CA=str(authority.ca), CRICKET_RESUME=keep) as process:
            finish(process)
    finally:
        server.stop()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cut_connections_lose_and_repeat_no_upload(server, seed):
    proxy = Breaker(server.port, cuts=12, most=12 << 20, seed=seed)
    try:
        with started(proxy.address, seed=seed) as process:
            finish(process)
        assert proxy.done > 3, proxy.done
    finally:
        proxy.stop()


def test_uploads_wait_while_the_session_is_suspended(own_server):
    """Each suspend comes at another time; some find uploads on their way."""
    asker = Asker(own_server)
    with started(own_server.address("tcp"), 2 * ROUNDS) as process:
        (session,) = asker.ask("sessions")["sessions"]
        for _ in range(12):
            for command in ("suspend", "resume"):
                reply = asker.ask(command, session=session["session"])
                assert reply["ok"] or has_ended(reply), reply
        finish(process)


def test_cuts_and_suspends_at_the_same_time(own_server):
    proxy, asker = Breaker(own_server.port), Asker(own_server)
    try:
        with started(proxy.address, 2 * ROUNDS) as process:
            (session,) = asker.ask("sessions")["sessions"]
            for command in ("suspend", "resume") * 8:
                cutter = threading.Thread(target=lambda: [proxy.do(lambda: proxy.drop_all("rst")) for _ in range(2)])
                cutter.start()
                reply = asker.ask(command, session=session["session"])
                cutter.join()
                assert reply["ok"] or has_ended(reply), reply
            finish(process)
    finally:
        proxy.stop()


def test_a_session_moves_with_uploads_on_their_way(servers, tmp_path):
    first, second = servers("first"), servers("second")
    with started(first.address("tcp"), 3 * ROUNDS) as process:
        for here, there in ((first, second), (second, first)):
            done = move(here, there.address("tcp"), receiver(there, tmp_path))
            assert done.returncode == 0, done.stderr + here.log() + there.log()
            assert session_of(there)
        finish(process)


@pytest.mark.parametrize("unknown", ["ck_upload_beside", "ck_upload_joined"])
def test_a_server_without_the_messages_gets_ordinary_uploads(server, unknown):
    elder = Elder(server, (unknown,), True)
    try:
        with started(elder.address, CRICKET_RESUME="0") as process:
            finish(process, parallel=False)
        assert not elder.asked
    finally:
        elder.end()


@pytest.mark.parametrize("how", ["limit", "descriptors"])
def test_uploads_take_few_of_the_connections_and_descriptors_of_the_program(tmp_path, how):
    server = Server(tmp_path / "server", *(("--max-lanes", "4") if how == "limit" else ()))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        if how == "descriptors":
            resource.setrlimit(resource.RLIMIT_NOFILE, (32, files[1]))
        with started(server.address("tcp")) as process:
            resource.setrlimit(resource.RLIMIT_NOFILE, files)
            finish(process, parallel=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        server.stop()


@pytest.mark.parametrize("keep", ["60", "0"])
def test_a_program_that_dies_between_uploads_leaves_no_worker(own_server, keep):
    """Its last uploads never come; the command that waits for them does not keep the session."""
    for _ in range(3):
        with started(own_server.address("tcp"), 1000, CRICKET_RESUME=keep) as process:
            assert process.stdout.readline() == "round 0\n"
            process.send_signal(signal.SIGKILL)
        own_server.wait_idle(10 * SLOW)


# A stream that waits for the program, and more uploads into it than a few buffers hold. Work of the other stream goes on.
BLOCKED = """
import ctypes, sys
c = ctypes.CDLL("libcuda.so.1")
def ok(err): assert err == 0, err
context, host, flag, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
a, b = ctypes.c_void_p(), ctypes.c_void_p()
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
size = ctypes.c_size_t(1 << 20)
ok(c.cuMemHostAlloc(ctypes.byref(host), size, 0))
ok(c.cuMemAlloc_v2(ctypes.byref(memory), size)); ok(c.cuMemAlloc_v2(ctypes.byref(flag), size))
ok(c.cuMemsetD8_v2(flag, 0, size))
for s in (a, b): ok(c.cuStreamCreate(ctypes.byref(s), 1))
for _ in range(20): ok(c.cuMemcpyHtoDAsync_v2(memory, host, size, a))
ok(c.cuStreamSynchronize(a))
ok(c.cuStreamWaitValue32_v2(a, flag, ctypes.c_uint32(1), 0))
for _ in range(24): ok(c.cuMemcpyHtoDAsync_v2(memory, host, size, a))
back = ctypes.create_string_buffer(1 << 20)
ok(c.cuMemcpyDtoHAsync_v2(back, flag, size, b)); ok(c.cuStreamSynchronize(b))
ok(c.cuStreamWriteValue32_v2(b, flag, ctypes.c_uint32(1), 0))
ok(c.cuStreamSynchronize(a))
print("right")
"""


# Keeps 30 places of the server busy: a thread that has made a call has its connection.
CROWD = """
import threading
enough, done = threading.Barrier(31), threading.Event()
def other():
    ok(c.cuCtxSetCurrent(context))
    ok(c.cuMemcpyDtoH_v2(ctypes.create_string_buffer(8), memory, size_t(8)))
    enough.wait()
    done.wait()
def crowd():
    for _ in range(30): threading.Thread(target=other, daemon=True).start()
    enough.wait()
"""


def test_a_refused_connection_gives_the_others_to_the_program(tmp_path):
    """Of 33 places, the program's threads have 31; then only one of four lanes gets its place, and no upload needs it."""
    server = Server(tmp_path / "server", "--max-lanes", "33")
    source = CROWD.join(PROGRAM.read_text(encoding="utf-8").split('print("ready", flush=True)'))
    source = source.replace("def place(", "crowd()\nprint('ready', flush=True)\n\n\ndef place(", 1)
    source = source.replace('print("right", flush=True)', 'done.set()\nprint("right", flush=True)')
    try:
        result = run([sys.executable, "-c", source, "6", "1"], env_of(server.address("tcp"), CRICKET_CONNECTIONS="4"), 60)
        assert result.status == 0 and result.out.endswith("right\n"), result.err
        assert "no connection for this thread" not in result.err and "uses" not in result.out, result.err
    finally:
        server.stop()


def test_uploads_into_a_stream_that_waits_hold_up_no_other_stream(server):
    result = run([sys.executable, "-c", BLOCKED], env_of(server.address("tcp")), 60)
    assert result.status == 0 and result.out == "right\n", result.err
    assert "ck_upload_beside" in result.err, result.err


def test_a_fork_of_the_program_leaves_its_uploads_alone(server):
    source = PROGRAM.read_text(encoding="utf-8").replace(
        "    check()\n    print", "    if os.fork() == 0:\n        os._exit(0)\n    os.wait()\n    check()\n    print")
    assert "os.fork" in source
    result = run([sys.executable, "-c", "import os\n" + source, "5", "1"], env_of(server.address("tcp")), 60)
    assert result.status == 0 and result.out.endswith("right\n"), result.err
