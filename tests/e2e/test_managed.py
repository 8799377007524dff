"""tests/e2e/test_managed.py - managed and mapped memory where something goes wrong, and what they
cost; that they work is in test_apps.py (managed_*, zero_copy)."""
import os
import re
import signal

import pytest

from conftest import KIND, TRANSPORTS, client_env, ended, run, start


@pytest.mark.skipif(KIND != "", reason="the sanitizer has taken sigaction")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_fault_of_the_programs_own_ends_it_with_its_signal(server, app, transport):
    result = run([app("managed_signals"), "crash"], client_env(server.address(transport)))
    assert result.status == 128 + signal.SIGSEGV, (result.out, result.err)
    assert result.out.startswith("set before: called 1 times\n")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_pages_of_a_lost_server_read_as_zeros(app, own_server, transport):
    client = start([app("managed_lost")], client_env(own_server.address(transport)))
    assert client.stdout.readline() == "ready\n", client.stderr.read()
    os.kill(own_server.workers()[0], signal.SIGKILL)
    result = ended(client, 10)
    assert result.status == 3, (result.out, result.err)
    assert result.out == "sum 0, written 5\n"
    assert len(result.lines_about("managed memory is out of reach")) == 1, result.err


def pages(result):
    """Pages sent and fetched, as CRICKET_STATS tells them."""
    line, = result.lines_about("cricket: managed memory")
    return [int(n) for n in re.findall(r"(\d+) (?:pages|fetched)", line)]


def test_only_changed_pages_are_sent(server, app):
    result = run([app("managed_intro")], client_env(server.address("unix"), CRICKET_STATS="1"))
    assert result.status == 0, result.err
    # two arrays of 1024 pages, and one page that is changed later; the results, whole, and a few
    assert pages(result)[0] == 2049
    assert pages(result)[1] <= 2048 + 64


def test_pinned_memory_that_no_kernel_uses_is_not_mapped(server, app):
    result = run([app("copies")], client_env(server.address("unix"), CRICKET_STATS="1"))
    assert result.status == 0, result.err
    assert not result.lines_about("ck_map")
