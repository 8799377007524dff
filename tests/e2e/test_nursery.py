"""tests/e2e/test_nursery.py - workers of the emulated GPU are forked from one process, and are what executed ones are."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import DRIVER, KIND, Server, children_of, client_env, is_alive, name_of, run, state_and_parent, wait_until
from test_control import worker_of

HOLD = """
import ctypes
c, context, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
print(c.cuInit(0), c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), flush=True)
input()
"""

pytestmark = [pytest.mark.skipif(DRIVER != "emu", reason="workers of a real GPU are executed"),
              pytest.mark.skipif(bool(KIND), reason="sanitizers do not know of such a fork")]


def nurseries(server):
    return [p for p in children_of(server.process.pid) if name_of(p) == "cricket-nursery"]


def base(pid):
    """Where the program lies: in a forked process, where it lies in the one it was forked from."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    return next((line.split("-")[0] for line in maps if line.endswith("/cricket-rpc-server")), None)


def nursery(server):
    """That process, once it has forked a worker: until it is ready, workers are executed."""
    def forks():
        found, client = nurseries(server), Client(server)
        forked = found and base(client.worker) == base(found[0])
        client.end()
        return forked
    wait_until(forks, 20, "it forks workers")
    return nurseries(server)[0]


class Client:
    """A program with a session."""

    def __init__(self, server):
        self.program = subprocess.Popen([sys.executable, "-c", HOLD], env=client_env(server.address("tcp"), CRICKET_RESUME="0"),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.program.stdout.readline() == "0 0\n", self.program.stderr.read()
        self.worker = worker_of(server, self.program)

    def end(self):
        self.program.communicate("\n", timeout=60)


def descriptors(pid):
    """What is open, without sockets: a client has more or fewer connections by chance."""
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):    # closed meanwhile
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0])
    return sorted(name for name in names if name != "socket")


def test_a_worker_is_the_servers_child_and_its_end_is_known(own_server):
    assert nursery(own_server)
    client = Client(own_server)
    assert state_and_parent(client.worker)[1] == own_server.process.pid
    os.kill(client.worker, signal.SIGSEGV)
    wait_until(lambda: f"worker {client.worker}: killed by signal 11" in own_server.log(), 10, "the signal is in the log")
    client.end()
    own_server.has_workers(0)


ATTRIBUTES = ("NoNewPrivs", "Seccomp", "Seccomp_filters", "SigIgn", "SigBlk", "SigCgt")


def attributes(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.split(":")[0] in ATTRIBUTES]


def title(pid):
    """What a worker says that it does; a moment after its start, the program that it serves."""
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0")


def test_workers_are_as_those_that_are_executed(own_server):
    forked = Client(own_server)
    first = nursery(own_server)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(first), 5, "it is gone")
    executed = Client(own_server)
    # a thread may have a file open for a moment, and signals are blocked while one is made
    wait_until(lambda: descriptors(forked.worker) == descriptors(executed.worker), 5, "both have the same open")
    wait_until(lambda: attributes(forked.worker) == attributes(executed.worker), 5, "both are in the same state")
    assert len(attributes(forked.worker)) == len(ATTRIBUTES)
    wait_until(lambda: title(forked.worker) == title(executed.worker), 5, "both are called the same")
    assert title(forked.worker).startswith(b"cricket-worker: ")
    forked.end()
    executed.end()


def test_another_one_comes_for_one_that_has_ended(own_server):
    first = nursery(own_server)
    os.kill(first, signal.SIGKILL)

    def again():
        Client(own_server).end()
        return nurseries(own_server) not in ([], [first])
    wait_until(again, 10, "another one is there")


def test_one_that_is_stuck_costs_one_client_its_session(own_server):
    first = nursery(own_server)
    os.kill(first, signal.SIGSTOP)
    result = run([sys.executable, "-c", HOLD], client_env(own_server.address("tcp")))
    assert result.out == "46 3\n" and "the server cannot start another process" in result.err
    wait_until(lambda: not is_alive(first), 5, "it is killed")
    own_server.wait_idle()
    Client(own_server).end()


def test_workers_end_with_a_server_that_is_killed(tmp_path):
    server = Server(tmp_path / "s")
    client, first = Client(server), nursery(server)
    server.process.kill()
    server.process.wait()
    wait_until(lambda: not is_alive(client.worker) and not is_alive(first), 5, "all are gone")
    client.end()
