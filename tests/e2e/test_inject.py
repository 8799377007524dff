"""tests/e2e/test_inject.py - programs over a slower network that the client plays (CRICKET_INJECT)."""
import pytest

from conftest import EXPECTED, KIND, TRANSPORTS, client_env, run

NETWORK = "rtt=2ms,bw=1G"
# managed_io needs functions of the C library that the sanitizers have taken (client/managed/interpose.c).
PROGRAMS = ["threads_order", "streams_events"] + ([] if KIND else ["managed_io"])


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_print_the_same_over_a_slower_network(run_app, program, transport):
    result = run_app(program, transport, CRICKET_INJECT=NETWORK)
    assert result.out == (EXPECTED / f"{program}.txt").read_text(), result.err
    assert (result.status, result.err) == (0, "")


def test_large_copies_over_several_connections_share_it(run_app):
    result = run_app("copies", "tcp", CRICKET_INJECT="rtt=1ms,bw=8G", CRICKET_CONNECTIONS="4")
    assert (result.status, result.err) == (0, "")
    assert result.out == (EXPECTED / "copies.txt").read_text()


def test_a_program_takes_longer_over_it(run_app):
    """Connecting, hello, memory, copies: a round trip each."""
    result = run_app("vector_add", "unix", CRICKET_INJECT="rtt=100ms")
    assert result.status == 0, result.err
    assert result.seconds > 0.6


@pytest.mark.parametrize("value", ["500us", "rtt=5", "rtt=1ms,bw=fast"])
def test_a_network_that_is_none_is_told(server, app, value):
    result = run([app("vector_add")], client_env(server.address("unix"), CRICKET_INJECT=value), 10)
    assert result.status == 1
    assert len(result.lines_about(f"CRICKET_INJECT={value}")) == 1, result.err
