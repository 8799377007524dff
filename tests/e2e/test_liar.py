"""tests/e2e/test_liar.py - a server whose replies are wrong: the program gets an error, or wrong data, but it neither crashes nor
waits without end. With sanitizers, it also shows that the client touches no memory that is not its own.
"""
import itertools

import pytest

from conftest import DRIVER, client_env, run
from liar import Liar

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="it is the client that is asked")

RATES = (1, 2, 5, 12)   # one reply of so many is changed: the first is the hello's


@pytest.mark.parametrize("name", ["vector_add", "nvml", "copies", "graphs", "printf_hello", "managed_intro"])
def test_a_server_that_lies_does_not_crash_its_client(server, app, name):
    told = 0
    for seed, rate in itertools.product(range(3), RATES):
        liar = Liar(server.port, seed, rate)
        try:
            # a cut connection is an error, not a pause
            result = run([app(name)], client_env(liar.address, CRICKET_RESUME="0"), 120)
        finally:
            liar.end()
        told += liar.told
        assert result.status >= 0, (seed, rate, result.status, result.err)
        assert "Sanitizer" not in result.err and "runtime error" not in result.err, (seed, rate, result.err)
    assert told >= len(RATES)


def test_a_proxy_that_changes_nothing_is_not_noticed(server, app):
    liar = Liar(server.port, 1, float("inf"))
    try:
        result = run([app("copies")], client_env(liar.address, CRICKET_RESUME="0"))
    finally:
        liar.end()
    assert (result.status, result.err, liar.told) == (0, "", 0)
