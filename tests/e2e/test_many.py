"""tests/e2e/test_many.py - many sessions: one after the other, at the same moment, and those that end in
the middle of anything. The server is afterwards what it was before.

CRICKET_TEST_MANY=N ends N sessions in place of 150.
"""
import contextlib
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import time

import pytest

from conftest import DRIVER, EXPECTED, HANG, SAN, SLOW, TSAN, Server, children_of, client_env, ended, run, start, wait_until, with_few_files

MANY = int(os.environ.get("CRICKET_TEST_MANY", "150"))
CONNECTIONS = 1000

# A program that forks clients, which is cheaper than starting them: each comes as far as its delay
# lets it, and ends by itself, without a word, or killed.
CLIENTS = """
import ctypes, os, random, signal, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
dice = random.Random(int(sys.argv[2]))

def client(way):
    context, memory = ctypes.c_void_p(), ctypes.c_void_p()
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
        os._exit(9)
    cuda.cuCtxSetCurrent(context)
    while True:
        if cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)):
            os._exit(9)
        cuda.cuMemsetD8_v2(memory, 1, ctypes.c_size_t(1 << 20))
        if way == "silent":
            os._exit(0)
        if way == "clean":
            sys.exit(0)
        cuda.cuMemFree_v2(memory)

wrong = []
running = []
for i in range(int(sys.argv[1])):
    way = dice.choice(["clean", "silent", "killed", "killed"])
    pid = os.fork()
    if pid == 0:
        client(way)
    running.append((pid, way, time.monotonic() + dice.random() * 0.03))
    while len(running) > 4 or (i + 1 == int(sys.argv[1]) and running):
        pid, way, end = running.pop(0)
        if way == "killed":
            time.sleep(max(0, end - time.monotonic()))
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status not in (0, -9):
            wrong.append((way, status))
print("wrong:", wrong)
"""


def resources(server):
    """Descriptors, child processes and memory in KiB of the supervisor."""
    path = pathlib.Path(f"/proc/{server.process.pid}")
    memory = int(re.search(r"VmRSS:\s+(\d+)", (path / "status").read_text())[1])
    return len(os.listdir(path / "fd")), len(children_of(server.process.pid)), memory


def at_rest(server):
    """The resources of a server that has nothing to do: nothing changes for a while."""
    seen = []

    def quiet():
        seen.append(resources(server)[:2])
        time.sleep(0.05)
        return len(seen) > 5 and len(set(seen[-6:])) == 1
    wait_until(quiet, 20, "the server is at rest")
    return resources(server)


def unchanged(before, after):
    assert after[:2] == before[:2]
    if not SAN and not TSAN:  # which keep what is freed
        assert after[2] <= before[2] + 512  # KiB: the C library keeps the room of 50 workers' records


def fork_clients(server, count, seed, transport):
    result = run([sys.executable, "-c", CLIENTS, str(count), str(seed)],
                 client_env(server.address(transport)), 300)
    assert (result.status, result.out) == (0, "wrong: []\n"), f"seed {seed}: {result.err}"


@pytest.mark.parametrize("spares", [0, 2])
def test_sessions_that_end_anyhow_leave_nothing_behind(tmp_path, spares):
    server = Server(tmp_path / "server", "--warm", str(spares), "--standby", "0")
    seed = random.randrange(1 << 30)
    try:
        fork_clients(server, 16, seed, "unix")  # what is allocated once is there after this
        wait_until(lambda: len(server.spares()) == spares and not server.workers(), 20, "idle")
        before = at_rest(server)
        for transport in ("unix", "tcp"):
            fork_clients(server, MANY // 2, seed + 1, transport)
        wait_until(lambda: len(server.spares()) == spares and not server.workers(), 20, "idle")
        unchanged(before, at_rest(server))
        server.stop()
    finally:
        server.kill()


def test_a_thousand_connections_leave_nothing_behind(own_server):
    """Some say nothing, some half a record, some rubbish, some ask what needs no session."""
    null_call = bytes.fromhex("80000028 00000007 00000000 00000002 00000063 00000001 00000000"
                              "00000000 00000000 00000000 00000000")
    said = [b"", null_call[:9], b"GET / HTTP/1.1\r\n\r\n", null_call, null_call + null_call[:20]]

    def connect(count):
        for i in range(count):
            family, where = ((socket.AF_INET, ("127.0.0.1", own_server.port)) if i % 2 else
                             (socket.AF_UNIX, str(own_server.unix)))
            with socket.socket(family) as s:
                s.settimeout(HANG)
                s.connect(where)
                s.sendall(said[i % len(said)])
                if said[i % len(said)] == null_call:
                    assert s.recv(100)[4:8] == null_call[4:8]
    connect(5)          # the server has started
    connect(100)        # what is allocated once is there after this
    before = at_rest(own_server)
    connect(CONNECTIONS)
    unchanged(before, at_rest(own_server))
    assert own_server.answers()


def test_connections_that_say_nothing_give_way(tmp_path, app):
    server = Server(tmp_path / "server", program=with_few_files(tmp_path))
    try:
        with contextlib.ExitStack() as silent:
            def connect():
                silent.enter_context(socket.socket(socket.AF_UNIX)).connect(str(server.unix))
                return "silent connections: the oldest is closed" in server.log()
            wait_until(connect, 5, "the server does not wait for them")
            result = run([app("vector_add")], client_env(server.address("tcp")))
        assert (result.status, result.err) == (0, ""), result.err
    finally:
        server.end()


@pytest.mark.parametrize("spares", [0, 4])
def test_sixteen_programs_in_one_moment_all_get_it_right(tmp_path, app, spares):
    server = Server(tmp_path / "server", "--warm", str(spares), "--standby", "0")
    names = ("vector_add", "matmul", "reduction", "first_kernel")
    try:
        clients = [start([app(names[i % 4])], client_env(server.address("tcp" if i % 3 else "unix")))
                   for i in range(16)]
        for client in clients:
            result = ended(client, 120)
            expected = (EXPECTED / f"{os.path.basename(client.args[0])}.txt").read_text()
            assert (result.status, result.out, result.err) == (0, expected, "")
        server.wait_idle()
        server.stop()
    finally:
        server.kill()


@pytest.mark.skipif(DRIVER != "emu", reason="the driver that hangs is a made one")
def test_a_session_whose_driver_hangs_holds_up_nobody(tmp_path):
    library, what = tmp_path / "libbroken.so", tmp_path / "what"
    source = pathlib.Path(__file__).parent / "warm_driver.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    what.write_text("hang")
    server = Server(tmp_path / "server", "--driver", library, "--warm", "0", "--standby", "0", WARM_DRIVER=str(what))
    program = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    env = client_env(server.address("unix"))
    try:
        stuck = [start([sys.executable, "-c", program], env) for _ in range(3)]
        try:
            hangs = tmp_path / "what.hangs"
            wait_until(lambda: hangs.exists() and len(hangs.read_text()) == 3, 10,
                       "the workers of all three hang")
            what.write_text("802")
            began = time.monotonic()
            result = run([sys.executable, "-c", program], env, 20)
            assert result.out == "802\n" and time.monotonic() - began < 10 * SLOW
            assert all(client.poll() is None for client in stuck)
        finally:
            for client in stuck:
                client.kill()
                client.communicate()
        wait_until(lambda: not server.workers(), 5, "killed clients' workers are gone")
        server.stop()
    finally:
        server.kill()
