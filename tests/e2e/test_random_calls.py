"""tests/e2e/test_random_calls.py - random legal programs observe the same natively and through a server.

CRICKET_TEST_SEEDS=FIRST-LAST takes these seeds instead of the chosen ones: see tests/random_calls/README.md.
"""
import os

import pytest

from conftest import DRIVER, OUT, client_env, run

CHOSEN = (1, 2, 4, 5, 8, 10, 13, 14, 19, 23, 177, 194, 1001)   # most of them have found something; with arrays from 1000 on
PROGRAM = OUT / "random_calls"
STEPS, THREADS = 200, 3


def seeds():
    """The seeds to run."""
    asked = os.environ.get("CRICKET_TEST_SEEDS")
    if not asked:
        return CHOSEN
    first, _, last = asked.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.skipif(DRIVER != "emu", reason="pools and leases of a real GPU differ in what is left over")
@pytest.mark.parametrize("seed", seeds())
def test_a_random_program_observes_what_it_does_natively(server, direct_env, seed):
    assert PROGRAM.exists(), "make -C tests random"
    program = [PROGRAM, seed, STEPS, THREADS]
    native = run(program, direct_env)
    assert (native.status, native.err) == (0, "")
    for transport in ("tcp", "shm"):
        remote = run(program, client_env(server.address(transport)))
        assert remote.err == "", transport
        assert remote.out == native.out, transport
        assert remote.status == 0, transport
