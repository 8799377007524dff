"""tests/e2e/test_random_calls.py - random legal programs observe the same natively and through a server.

CRICKET_TEST_SEEDS=FIRST-LAST takes these seeds instead of the chosen ones, CRICKET_TEST_PAUSES=RATE,US pauses threads of client and
server: see tests/random_calls/README.md.
"""
import os

import pytest

from conftest import DRIVER, KIND, OUT, Server, client_env, run

CHOSEN = (1, 2, 4, 5, 8, 10, 13, 14, 19, 23, 177, 194, 1001)   # most of them have found something; with arrays from 1000 on
PROGRAM = OUT / "random_calls"
PAUSING = OUT / "pauses.so"
PAUSES = os.environ.get("CRICKET_TEST_PAUSES", "")
LIGHT = "200,1000"     # one of 200 calls, for up to a millisecond
STEPS, THREADS = 200, 3


def seeds():
    """The seeds to run."""
    asked = os.environ.get("CRICKET_TEST_SEEDS")
    if not asked:
        return CHOSEN
    first, _, last = asked.partition("-")
    return range(int(first), int(last or first) + 1)


emulated = pytest.mark.skipif(DRIVER != "emu", reason="pools and leases of a real GPU leave other amounts of memory")


def compare(server, direct_env, seed, transports, preloaded=(), **env):
    """The outputs of the program of SEED, natively and over the transports, with more libraries and variables."""
    assert PROGRAM.exists(), "make -C tests random"
    program = [PROGRAM, seed, STEPS, THREADS]
    native = run(program, direct_env)
    assert (native.status, native.err) == (0, "")
    for transport in transports:
        remote_env = client_env(server.address(transport), **env)
        remote_env["LD_PRELOAD"] = ":".join([remote_env["LD_PRELOAD"], *preloaded])      # the client first: it says so otherwise
        remote = run(program, remote_env, 200 if preloaded else 60)
        assert remote.err == "", transport
        assert remote.out == native.out, transport
        assert remote.status == 0, transport


@emulated
@pytest.mark.skipif(bool(PAUSES), reason="with pauses instead")
@pytest.mark.parametrize("seed", seeds())
def test_a_random_program_observes_what_it_does_natively(server, direct_env, seed):
    compare(server, direct_env, seed, ("tcp", "shm"))


@pytest.fixture(scope="module", name="pausing")
def pausing_server(tmp_path_factory):
    """A server whose threads pause."""
    server = Server(tmp_path_factory.mktemp("pausing"), LD_PRELOAD=str(PAUSING), PAUSES=PAUSES or LIGHT)
    yield server
    server.stop()


@emulated
@pytest.mark.skipif(bool(KIND), reason="the sanitizers' libraries have to be the first")
@pytest.mark.parametrize("seed", seeds() if PAUSES else (1,))
@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_pauses_at_locks_and_sockets_change_nothing(pausing, direct_env, seed, transport):
    assert PAUSING.exists(), "make -C tests pauses"
    compare(pausing, direct_env, seed, (transport,), [str(PAUSING)], PAUSES=PAUSES or LIGHT)
