"""tests/e2e/test_sandbox.py - which processes have the filter of system calls; tests/unit/test_server_sandbox.c has its contents."""
import os
import sys

import pytest

from conftest import DRIVER, SERVER, Server, clean_env, client_env, run, start, wait_until
from test_m3 import M3

# A session that stays.
HOLDER = """
import ctypes, time
c = ctypes.CDLL(None)
context = ctypes.c_void_p()
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
print("ready", flush=True)
time.sleep(600)
"""


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return {name: value.strip() for name, value in (line.split(":", 1) for line in f)}


def filters_of(pid):
    """How many filters each thread of a process has, above those of this one."""
    here = int(status_of(os.getpid())["Seccomp_filters"])
    return {int(status_of(f"{pid}/task/{t}")["Seccomp_filters"]) - here for t in os.listdir(f"/proc/{pid}/task")}


@pytest.fixture(name="session")
def server_with_a_session(tmp_path):
    """session(OPTION...): a server, and the worker of a program."""
    ends = []

    def go(*options, **env):
        server = Server(tmp_path / "server", *options, **env)
        ends.append(server.stop)
        holder = start([sys.executable, "-c", HOLDER], client_env(server.address("unix")))
        ends.append(holder.kill)
        assert holder.stdout.readline() == "ready\n", holder.stderr.read()
        wait_until(server.workers, 10, "the worker")
        return server, server.workers()[0]
    yield go
    for end in reversed(ends):
        end()


def test_each_thread_of_a_worker_has_both_filters(session):
    _, worker = session()
    wait_until(lambda: filters_of(worker) == {2}, 10, "the second filter, which comes when the driver is ready")
    assert status_of(worker)["NoNewPrivs"] == "1"


def test_a_worker_that_was_spare_has_them_too(session):
    _, worker = session("--warm", "1")
    wait_until(lambda: filters_of(worker) == {2}, 10, "the second filter, which comes when the driver is ready")


def test_the_memory_broker_has_the_filter(session):
    server, _ = session()
    assert run([M3, "--socket", f"{server.unix}.m3", "ls"], clean_env()).status == 0
    wait_until(server.broker, 10, "the broker")
    assert filters_of(server.broker()) == {1}


def test_off_leaves_the_workers_without(session):
    _, worker = session("--sandbox", "off")
    assert filters_of(worker) == {0}


def test_the_variable_is_used_without_the_option(session):
    _, worker = session(CRICKET_SANDBOX="off")
    assert filters_of(worker) == {0}


@pytest.mark.skipif(DRIVER != "emu", reason="of the options, not of the driver")
@pytest.mark.parametrize("options, env", [(["--sandbox", "yes"], {}), ([], {"CRICKET_SANDBOX": "yes"})])
def test_an_unknown_word_is_refused(options, env):
    refused = run([SERVER, *options, "--no-unix", "--listen", "127.0.0.1:0"], clean_env(**env))
    assert refused.status == 2
    assert "not auto, on, log or off" in refused.err
