"""tests/e2e/test_queue.py - CRICKET_WAIT: clients that wait for a session of a server that is full."""
import os
import pwd
import signal
import subprocess
import sys

import pytest

from conftest import HANG, PRODUCTS, Server, client_env, run, wait_until
from stranger import Refused, Session
from test_control import Asker
from test_refusals import new_token

# Tells when it has a session, and keeps it until its input ends.
PROGRAM = """
import ctypes, sys
assert ctypes.CDLL(None).cuInit(0) == 0
print("begun", flush=True)
sys.stdin.read()
"""
# Programs of this test run may ignore SIGINT by inheritance.
FIRST = 'import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nprint("waits", flush=True)\n'


@pytest.fixture
def begin(tmp_path):
    """Starts a server with the given options; it ends with the test, and so do programs."""
    servers, programs = [], []

    def go(*options, **env):
        servers.append(Server(tmp_path / "server", *options, **env))
        server = servers[-1]
        server.asker = Asker(server)

        def launch(code=PROGRAM, transport="unix", wait="10m", **more):
            programs.append(subprocess.Popen([sys.executable, "-c", FIRST + code], stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                             env=client_env(server.address(transport), CRICKET_WAIT=wait, **more)))
            assert programs[-1].stdout.readline() == "waits\n"
            return programs[-1]
        server.launch = launch
        server.waiting = lambda: server.asker.ask("status")["waiting"]
        return server
    yield go
    for program in programs:
        if program.poll() is None:
            program.kill()
        program.wait()
    for s in servers:
        s.end()


def begun(program):
    return program.stdout.readline() == "begun\n"


@pytest.mark.parametrize("transport", ["tcp", "unix", "shm"])
def test_a_client_waits_for_a_session_and_goes_on(begin, tmp_path, transport):
    server = begin("--max-sessions", "1", "--audit", tmp_path / "audit")
    holder = server.launch(transport=transport)
    assert begun(holder)
    waiter = server.launch(transport=transport)
    wait_until(server.waiting, 10, "it waits")
    (one,) = server.waiting()
    assert one["place"] == 1 and one["client_pid"] == waiter.pid and one["program"].startswith("python3") and one["age"] >= 0
    assert one["own"] == (transport != "tcp")
    if transport != "tcp":
        assert one["identity"] == f"user {pwd.getpwuid(os.getuid()).pw_name}"
    shown = run([PRODUCTS / "cricket", "status", "-s", f"unix:{server.unix}"], client_env(None, LD_PRELOAD=""))
    assert "PLACE" in shown.out and "python3" in shown.out, shown.err
    line = waiter.stderr.readline()
    assert "is full: the server has no free session (--max-sessions); place 1 of 1 in the queue; waiting for " in line
    assert "(CRICKET_WAIT)" in line
    holder.stdin.close()
    assert begun(waiter)
    assert not server.waiting()
    waiter.stdin.close()
    assert waiter.wait(HANG) == 0
    assert waiter.stderr.read() == ""
    assert "session-wait" in (tmp_path / "audit").read_text()


def test_without_the_wish_a_client_is_refused(begin):
    server = begin("--max-sessions", "1")
    holder = server.launch()
    assert begun(holder)
    for wait in ("0", ""):
        refused = server.launch(wait=wait)
        out, err = refused.communicate(timeout=HANG)
        assert refused.returncode == 1 and "refuses: the server has no free session" in err
    with pytest.raises(Refused) as refused:
        Session(server)
    assert refused.value.args[0] == 4
    assert not server.waiting()


def test_the_time_to_wait_ends(begin):
    server = begin("--max-sessions", "1")
    assert begun(server.launch())
    waiter = server.launch(wait="1")
    out, err = waiter.communicate(timeout=60)
    assert waiter.returncode == 1 and "the time of CRICKET_WAIT has expired" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_is_interrupted_leaves_the_queue(begin, number):
    server = begin("--max-sessions", "1")
    assert begun(server.launch())
    waiter = server.launch()
    wait_until(server.waiting, 10, "it waits")
    os.kill(waiter.pid, number)
    out, err = waiter.communicate(timeout=60)
    if number == signal.SIGINT:
        assert "no longer waiting: interrupted" in err and "KeyboardInterrupt" in err
    wait_until(lambda: not server.waiting(), 20, "the queue is empty")


def test_a_signal_without_a_handler_ends_a_program_that_waits(begin):
    server = begin("--max-sessions", "1")
    assert begun(server.launch())
    waiter = server.launch("signal.signal(signal.SIGINT, signal.SIG_DFL)\n" + PROGRAM)
    wait_until(server.waiting, 10, "it waits")
    os.kill(waiter.pid, signal.SIGINT)
    assert waiter.wait(HANG) == -signal.SIGINT
    wait_until(lambda: not server.waiting(), 20, "the queue is empty")


def test_a_free_session_goes_to_the_identity_with_fewest(begin, tmp_path):
    """Of one identity, to the one that has waited longest."""
    (alice, hers), (bob, his) = new_token("alice"), new_token("bob")
    (tmp_path / "tokens").write_text(f"{hers}\n{his}\n")
    server = begin("--max-sessions", "2", "--token-file", tmp_path / "tokens")

    def launch(token):
        return server.launch(transport="tcp", CRICKET_TOKEN=token.decode())
    holders = [launch(alice), launch(alice)]
    assert all(map(begun, holders))
    waiters = []
    for token in (alice, alice, bob):
        waiters.append(launch(token))
        wait_until(lambda: len(server.waiting()) == len(waiters), 10, "it waits")
    assert [w["identity"] for w in server.waiting()] == ["alice", "alice", "bob"]
    holders[0].stdin.close()
    assert begun(waiters[2])
    assert [w["client_pid"] for w in server.waiting()] == [waiters[0].pid, waiters[1].pid]
    holders[1].stdin.close()
    assert begun(waiters[0])
    assert [w["client_pid"] for w in server.waiting()] == [waiters[1].pid]
    waiters[2].stdin.close()
    assert begun(waiters[1])


def test_an_identity_that_waits_for_its_own_limit_keeps_nobody_else_waiting(begin, tmp_path):
    (alice, hers), (bob, his) = new_token("alice"), new_token("bob")
    (tmp_path / "tokens").write_text(f"{hers}\n{his}\n")
    (tmp_path / "policy").write_text('identities: ( { token = "alice"; sessions = 1; } );')
    server = begin("--token-file", tmp_path / "tokens", "--policy", tmp_path / "policy")
    first = server.launch(transport="tcp", CRICKET_TOKEN=alice.decode())
    assert begun(first)
    waiter = server.launch(transport="tcp", CRICKET_TOKEN=alice.decode())
    wait_until(server.waiting, 10, "she waits")
    assert "alice has 1 session, the maximum of the policy" in waiter.stderr.readline()
    other = server.launch(transport="tcp", CRICKET_TOKEN=bob.decode(), wait="0")
    assert begun(other)
    first.stdin.close()
    assert begun(waiter)


def test_a_client_waits_on_after_an_upgrade(begin):
    server = begin("--max-sessions", "1")
    assert begun(server.launch())
    waiter = server.launch()
    wait_until(server.waiting, 10, "it waits")
    os.kill(server.process.pid, signal.SIGUSR2)
    wait_until(lambda: "continuing with 1 running" in server.log(), 20, "the server is upgraded")
    server.asker = Asker(server)
    wait_until(server.waiting, 10, "it waits still")
    assert waiter.poll() is None
