"""tests/e2e/test_managed.py - managed and mapped memory where something goes wrong, and what they
cost; that they work is in test_apps.py (managed_*, zero_copy)."""
import os
import re
import signal

import pytest

from conftest import KIND, TRANSPORTS, client_env, ended, run, start


@pytest.mark.skipif(KIND != "", reason="the sanitizer has taken sigaction")
@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_fault_of_the_programs_own_ends_it_with_its_signal(server, app, transport):
    result = run([app("managed_signals"), "crash"], client_env(server.address(transport)))
    assert result.status == 128 + signal.SIGSEGV, (result.out, result.err)
    assert result.out.startswith("set before: called 1 times\n")


def lost(server, transport, *command, **env):
    """How a program ends that touches its managed memory when its server is gone; one line says so."""
    client = start(command, client_env(server.address(transport), **env))
    assert client.stdout.readline() == "ready\n", client.stderr.read()
    os.kill(server.workers()[0], signal.SIGKILL)
    result = ended(client, 10)
    assert len(result.lines_about("managed memory cannot be accessed (the server is lost)")) == 1, result.err
    return result


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_touch_of_a_page_of_a_lost_server_raises_sigbus(app, own_server, transport):
    result = lost(own_server, transport, app("managed_lost"))
    assert (result.status, result.out) == (128 + signal.SIGBUS, "")


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_pages_of_a_lost_server_read_as_zeros_if_the_user_wants_that(app, own_server, transport):
    result = lost(own_server, transport, app("managed_lost"), CRICKET_LOST="zeros")
    assert (result.status, result.out) == (3, "sum 0, written 5\n")


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_programs_handler_of_sigbus_learns_which_address_is_lost(app, own_server, transport):
    result = lost(own_server, transport, app("managed_lost"), "handler")
    assert (result.status, result.out) == (3, "read 123456: SIGBUS at 123456, BUS_ADRERR 1\n"
                                              "write 123457: SIGBUS at 123457, BUS_ADRERR 1\n"
                                              "write 3: SIGBUS at 3, BUS_ADRERR 1\n")


@pytest.mark.skipif(bool(KIND), reason="the sanitizer's own read and write come before the client's")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_system_calls_refuse_pages_of_a_lost_server(app, own_server, transport):
    result = lost(own_server, transport, app("managed_lost"), "calls")
    assert (result.status, result.out) == (3, "write: -1, EFAULT 1\nread: -1, EFAULT 1\n")


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


@pytest.mark.threads
def test_pinned_memory_that_no_kernel_uses_is_not_mapped(server, app):
    result = run([app("copies")], client_env(server.address("unix"), CRICKET_STATS="1"))
    assert result.status == 0, result.err
    assert not result.lines_about("ck_map")
