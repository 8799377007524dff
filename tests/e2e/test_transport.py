"""tests/e2e/test_transport.py - what an address chooses, and processes killed at random moments."""
import contextlib
import os
import random
import re
import signal
import time

import pytest

from conftest import (EXPECTED, SLOW, TRANSPORTS, Server, client_env, ended, is_alive,
                      run, start, state_and_parent, wait_until)
from ports import free_port


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A server whose unix socket is where clients without an address look for it."""
    folder = tmp_path_factory.mktemp("here")
    s = Server(folder, default_unix=True)
    s.folder = folder
    yield s
    s.stop()


@pytest.fixture(scope="module")
def no_shm(tmp_path_factory):
    """The same, but it shares no memory."""
    folder = tmp_path_factory.mktemp("no_shm")
    s = Server(folder, "--no-shm", default_unix=True)
    s.folder = folder
    yield s
    s.stop()


def transport_of(server, app, address, **env):
    """What the server says the session of a program came by."""
    before = len(server.log())
    result = run([app("vector_add")],
                 client_env(address, XDG_RUNTIME_DIR=str(server.folder), **env), 30)
    assert (result.status, result.err) == (0, ""), result.err
    server.wait_idle()
    return re.findall(r"session of vector_add .* \((\w+) .*\), client", server.log()[before:])


@pytest.mark.parametrize("address", [None, "", "localhost", "127.0.0.1", "127.0.0.1:9909",
                                     "[::1]", "[::1]:9909"])
def test_on_this_host_the_client_shares_memory_by_itself(here, app, address):
    assert transport_of(here, app, address) == ["shm"]


def test_an_address_that_names_its_transport_gets_that(here, app):
    assert transport_of(here, app, f"unix:{here.unix}") == ["unix"]
    assert transport_of(here, app, f"shm:{here.unix}") == ["shm"]
    assert transport_of(here, app, f"tcp://127.0.0.1:{here.port}") == ["tcp"]
    assert transport_of(here, app, f"127.0.0.1:{here.port}") == ["tcp"]


def test_who_shares_no_memory_gets_the_socket(here, no_shm, app):
    assert transport_of(no_shm, app, None) == ["unix"]
    assert transport_of(here, app, None, CRICKET_DEBUG="no-shm") == ["unix"]


def test_shared_memory_that_cannot_be_had_is_an_error_where_it_was_asked_for(no_shm, app):
    for env in ({}, {"CRICKET_DEBUG": "no-shm"}):
        result = run([app("vector_add")], client_env(f"shm:{no_shm.unix}", **env), 30)
        assert result.status != 0
        assert len(result.lines_about("shared memory")) == 1, result.err


def test_a_host_without_a_server_is_told_with_its_address(app, tmp_path):
    for address in (f"127.0.0.1:{free_port()}", f"shm:{tmp_path / 'none'}"):
        result = run([app("vector_add")], client_env(address), 30)
        assert result.status != 0
        assert len(result.lines_about(address)) == 1, result.err


# ---- killed at random moments --------------------------------------------------------------------

ROUNDS, AT_ONCE = 50, 4
THREADS = 8     # of threads_order, the program with the most: each reports its own error


def waits_and_says(client, victim):
    """A program ends well, or by its own error after its server went, or as it was killed."""
    result = ended(client, 10)
    if victim == "client" and result.status == 128 + signal.SIGKILL:
        return
    if result.status == 0:
        name = os.path.basename(client.args[0])
        assert result.out == (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")
        return
    assert victim == "worker" and result.status < 128, (client.args, result.out, result.err)
    own = [line for line in result.err.splitlines() if line.startswith(f"{os.path.basename(client.args[0])}.cu:")]
    assert len(own) <= THREADS and len(result.err.splitlines()) - len(own) <= 2, result.err


@pytest.mark.slow
@pytest.mark.skipif(SLOW > 1, reason="nothing in it is for the sanitizers to see")
@pytest.mark.parametrize("victim", ["client", "worker"])
def test_whoever_is_killed_at_whatever_moment_the_other_ends_cleanly(app, own_server, victim):
    """With an unlucky moment in the number that the failing test prints."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    programs = [[app("endless"), kind] for kind in ("launch", "sync", "copy", "alloc")]
    programs += [[app(name)] for name in ("streams_events", "threads_order", "copies")]
    for _ in range(ROUNDS // 2):
        # a client that is killed before it has read anything looks like a broken network
        clients = [start(chance.choice(programs),
                         client_env(own_server.address(chance.choice(TRANSPORTS)), CRICKET_RESUME="3s"))
                   for _ in range(AT_ONCE)]
        time.sleep(chance.random() * 0.1)
        if victim == "client":
            for client in clients:
                client.kill()
        end_workers(own_server, clients, victim)
        for client in clients:
            waits_and_says(client, victim)
        wait_until(lambda: not own_server.workers(), 5, "no worker is left")
    result = run([app("matmul")], client_env(own_server.address("shm")), 60)
    assert result.out == (EXPECTED / "matmul.txt").read_text(encoding="utf-8"), result.err


def end_workers(server, clients, victim):
    """Kills the workers until no program is left that needs one."""
    while victim == "worker" and any(client.poll() is None for client in clients):
        for pid in server.workers():
            # A worker is the supervisor's child; by now, and even now, it may have ended by itself.
            with contextlib.suppress(ProcessLookupError):
                if is_alive(pid) and state_and_parent(pid)[1] == server.process.pid:
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
