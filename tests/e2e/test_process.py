"""tests/e2e/test_process.py - what processes do around CUDA (../test_apps/awkward.c): none of it ends
or stops a program, or costs it its GPU."""
import signal
import socket
import sys

import pytest

from conftest import KIND, TRANSPORTS, client_env, run


@pytest.fixture
def awkward(server, app):
    """awkward(WHAT, TRANSPORT): what it says; it has to end well, and quietly, but for a line with WARNING."""
    def go(what, transport, warning=None):
        result = run([app("awkward"), what], client_env(server.address(transport)))
        assert result.status == 0, (result.out, result.err)
        lines = result.err.splitlines()
        assert lines == [] or (warning and len(lines) == 1 and warning in lines[0]), result.err
        return result.out
    return go


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_thread_that_is_cancelled_leaves_the_others_their_connection(awkward, transport):
    assert awkward("cancel", transport) == "works: 42\n"


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_thread_that_is_cancelled_in_a_call_leaves_no_lock_behind(awkward, transport):
    assert awkward("pending", transport) == "works: 42\n"


@pytest.mark.skipif(KIND != "", reason="the sanitizer's own work at exit is not for handlers of signals")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_exit_by_a_signals_handler_in_the_middle_of_a_call_is_quiet(awkward, transport):
    assert awkward("exit", transport) == "ended: 6\n"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_thread_without_a_descriptor_for_its_connection_fails_alone(awkward, transport):
    # CUDA_ERROR_OPERATING_SYSTEM, and it comes by itself when there are some
    out = awkward("descriptors", transport, "no further connection to the GPU server")
    if transport == "tcp" and "another thread: 304" not in out:     # a slow moment made the server look far: connections in reserve
        assert out == "another thread: 0\nworks: 42\nanother thread: 0\n"
    else:
        assert out == "another thread: 304\nworks: 42\nanother thread: 0\n"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_work_that_needs_a_thread_of_the_clients_fails_alone_without_descriptors(awkward, transport):
    """Nothing hangs, and it works when there are some; managed memory has its thread from the beginning."""
    out = awkward("none_left", transport)
    if transport == "tcp" and "function: 0" in out:     # a slow moment made the server look far: connections in reserve
        assert out == "touched: 1\nfunction: 0\ncalled: 2\nworks: 42\n"
    else:
        assert out == "touched: 1\nfunction: 304\ncalled: 1\nworks: 42\n"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_touches_of_a_program_that_closes_what_it_has_not_opened_end(server, app, transport):
    """Its connections are lost, and the page that was on the device, unless the page comes before that is seen."""
    result = run([app("awkward"), "closed"], client_env(server.address(transport)))
    assert (result.status, result.out, "is lost" in result.err) == (128 + signal.SIGBUS, "", True) or \
        (result.status, result.out) == (0, "touched: 1\n"), (result.out, result.err)


@pytest.mark.skipif(KIND != "", reason="the sanitizer has taken sigaction")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_pages_are_touched_where_all_signals_are_blocked(awkward, transport):
    assert awkward("masks", transport) == "all blocked: 1\nhandler: 1\n"


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_childs_write_of_managed_memory_is_refused_and_the_parents_stays(awkward, transport):
    assert awkward("child", transport) == "child: 0\ntouched: 1\nworks: 42\n"


def test_a_child_that_is_forked_while_another_thread_begins_can_begin(app):
    """The server takes connections and says nothing, so that both end with CUDA_ERROR_NO_DEVICE."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = client_env(f"127.0.0.1:{silent.getsockname()[1]}", CRICKET_TIMEOUT="2")
        result = run([app("awkward"), "fork"], env)
    assert (result.status, result.out) == (0, f"child: {100 << 8:#x}\n"), result.err


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_vectors_that_the_kernel_refuses_are_left_to_it(awkward, transport):
    assert awkward("vectors", transport) == ("no vector: EFAULT\n"
                                             "a longer one than there may be: EINVAL\n")


@pytest.mark.slow
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_threads_that_all_begin_at_once_all_have_a_connection(awkward, transport):
    assert awkward("crowd", transport) == "served: 800 of 800\n"


def test_a_line_that_nobody_reads_does_not_end_the_program(app, tmp_path):
    result = run([app("awkward"), "reader"], client_env(f"unix:{tmp_path / 'nothing'}"))
    assert (result.status, result.out) == (0, "cuInit: 100\n")


def test_the_driver_is_found_without_its_version(server):
    result = run([sys.executable, "-c", """
import ctypes
plain, versioned = ctypes.CDLL("libcuda.so"), ctypes.CDLL("libcuda.so.1")
print(plain.cuInit(0), [ctypes.cast(l.cuInit, ctypes.c_void_p).value for l in (plain, versioned)])
"""], client_env(server.address("unix")))
    status, _, addresses = result.out.partition(" ")
    assert (result.status, result.err, status) == (0, "", "0")
    assert len(set(addresses.strip(" []\n").split(", "))) == 1
