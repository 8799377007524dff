"""tests/e2e/test_random_calls.py - random legal programs observe the same natively and through a server.

CRICKET_TEST_SEEDS=FIRST-LAST takes these seeds instead of the chosen ones: see tests/random_calls/README.md.
"""
import os

import pytest

from conftest import DRIVER, OUT, client_env, run

CHOSEN = (3, 6, 12, 18, 24, 33, 39, 45)
PROGRAM = OUT / "random_calls"
# One thread, without graphs and functions: with them, some seeds find faults that are not corrected yet.
STEPS = "copy,rectangle,batch,fill,launch,host,scratch,renew,observe,ask,wait,mistake"


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
    program = [PROGRAM, seed, 200, 1, STEPS]
    native = run(program, direct_env)
    assert (native.status, native.err) == (0, "")
    for transport in ("tcp", "shm"):
        remote = run(program, client_env(server.address(transport)))
        assert remote.err == "", transport
        assert remote.out == native.out, transport
        assert remote.status == 0, transport
