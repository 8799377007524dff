"""tests/e2e/test_inject.py - programs over a slower network that their client simulates (tests/network)."""
import sys

import pytest

from conftest import EXPECTED, KIND, client_env, over, run

NETWORK = "rtt=2ms,bw=1G"
# managed_io needs functions of the C library that the sanitizers have taken (client/managed/interpose.c).
PROGRAMS = ["threads_order", "streams_events"] + ([] if KIND else ["managed_io"])


@pytest.mark.threads
@pytest.mark.parametrize("transport", ["tcp", "unix"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_print_the_same_over_a_slower_network(run_app, program, transport):
    result = run_app(program, transport, **over(NETWORK))
    assert result.out == (EXPECTED / f"{program}.txt").read_text(), result.err
    assert (result.status, result.err) == (0, "")


def test_large_copies_over_several_connections_share_it(run_app):
    result = run_app("copies", "tcp", CRICKET_CONNECTIONS="4", **over("rtt=1ms,bw=8G"))
    assert (result.status, result.err) == (0, "")
    assert result.out == (EXPECTED / "copies.txt").read_text()


def test_a_program_takes_longer_over_it(run_app):
    """Connecting, hello, and the copy back: a round trip each."""
    result = run_app("vector_add", "unix", **over("rtt=100ms"))
    assert result.status == 0, result.err
    assert result.seconds > 0.3


LARGE = """
import ctypes, sys
cuda = ctypes.CDLL(None)
context, dptr = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
size = 6 << 20
assert cuda.cuMemAlloc_v2(ctypes.byref(dptr), ctypes.c_size_t(size)) == 0
back = ctypes.create_string_buffer(size)
for i in range(8):
    data = bytes([i]) * size
    assert cuda.cuMemcpyHtoD_v2(dptr, data, ctypes.c_size_t(size)) == 0
assert cuda.cuMemcpyDtoH_v2(back, dptr, ctypes.c_size_t(size)) == 0
assert back.raw == data
"""


def test_uploads_do_not_wait_where_the_round_trip_is_most_of_the_wait(server):
    result = run([sys.executable, "-c", LARGE],
                 client_env(server.address("tcp"), CRICKET_DEBUG="no-compress", CRICKET_STATS="1", **over("rtt=300ms")))
    assert result.status == 0, result.err
    rows = {line.split()[-1]: line.split() for line in result.err.splitlines() if line.split()[1:2]}
    assert "ck_upload_part" not in rows, result.err     # several connections, whose replies are waited for
    # one-way all of them, on the command connection or on those for uploads
    assert sum(int(rows[name][1]) for name in ("ck_upload", "ck_upload_beside") if name in rows) >= 8, result.err
