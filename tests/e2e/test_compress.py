"""tests/e2e/test_compress.py - programs whose uploads and modules travel compressed (CRICKET_DEBUG=compress)."""
import re
import sys

import pytest

from conftest import EXPECTED, client_env, over, run
from test_evolution import Elder

PACKED = ("ck_upload_packed_part", "ck_upload_packed", "ck_image_packed")
# Uploads of 12 MiB of words, of 12 MiB that nothing shortens, and of 512 KiB; each is fetched again.
PROGRAM = """
import ctypes, random, sys
cuda = ctypes.CDLL(None)
context, dptr = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
size = 12 << 20
assert cuda.cuMemAlloc_v2(ctypes.byref(dptr), ctypes.c_size_t(size)) == 0
words = b"".join(b"%d words " % i for i in range(1 << 20))[:size]
noise = random.Random(1).randbytes(size)
for data in [words] * 5 + [noise] + [words[:512 << 10]]:
    back = ctypes.create_string_buffer(len(data))
    assert cuda.cuMemcpyHtoD_v2(dptr, data, ctypes.c_size_t(len(data))) == 0
    assert cuda.cuMemcpyDtoH_v2(back, dptr, ctypes.c_size_t(len(data))) == 0
    assert back.raw == data
"""


def messages(err):
    """Of CRICKET_STATS' table of messages: name to count and bytes sent."""
    rows = re.findall(r"^cricket: +(\d+) +\d+ +\d+ +\d+ +\d+ +(\d+) +\d+ .* (ck_\w+)$", err, re.MULTILINE)
    return {name: (int(count), int(sent)) for count, sent, name in rows}


def uploads(address, **env):
    """The messages of PROGRAM."""
    result = run([sys.executable, "-c", PROGRAM],
                 client_env(address, CRICKET_STATS="1", CRICKET_CONNECTIONS="4", **env))
    assert result.status == 0, result.err
    return messages(result.err)


def bytes_of(sent):
    return sum(size for _, size in sent.values())


@pytest.mark.threads
@pytest.mark.parametrize("program", ["copies", "matmul", "streams_events"])
def test_programs_print_the_same(run_app, program):
    result = run_app(program, "tcp", CRICKET_DEBUG="compress", CRICKET_CONNECTIONS="4")
    assert result.out == (EXPECTED / f"{program}.txt").read_text(), result.err
    assert (result.status, result.err) == (0, "")


def test_fewer_bytes_travel(server):
    packed = uploads(server.address("tcp"), CRICKET_DEBUG="compress")
    plain = uploads(server.address("tcp"), CRICKET_DEBUG="no-compress")
    # 24 blocks of each 12 MiB of words
    assert packed["ck_upload_packed_part"][0] >= 5 * 24
    assert packed["ck_upload_packed"][0] == 1
    assert not set(PACKED) & set(plain)
    assert bytes_of(packed) < bytes_of(plain) / 2


def test_a_module_travels_compressed(own_server, app):
    result = run([app("matmul")], client_env(own_server.address("tcp"), CRICKET_DEBUG="compress", CRICKET_STATS="1"))
    assert result.out == (EXPECTED / "matmul.txt").read_text(), result.err
    assert "ck_image_packed" in messages(result.err), result.err


@pytest.mark.parametrize("transport", ["unix", "shm"])
def test_on_one_host_nothing_is_compressed(server, transport):
    assert not set(PACKED) & set(uploads(server.address(transport), CRICKET_DEBUG="compress"))


@pytest.mark.alone     # the client measures which is faster
def test_a_slow_network_is_noticed_after_three_copies(server):
    assert uploads(server.address("tcp"), **over("bw=200M"))["ck_upload_packed_part"][0] >= 2 * 24


def test_a_module_goes_compressed_to_a_server_that_is_far_away(own_server, app):
    result = run([app("matmul")], client_env(own_server.address("tcp"), CRICKET_STATS="1", **over("rtt=20ms")))
    assert "ck_image_packed" in messages(result.err), result.err


def test_a_server_that_does_not_expand_gets_bytes_as_they_are(server):
    elder = Elder(server, PACKED, True)
    # the proxy reads records, without the frames of channels that last
    assert not set(PACKED) & set(uploads(elder.address, CRICKET_DEBUG="compress", CRICKET_RESUME="0"))
    elder.end()
    assert elder.asked == []


def test_the_cache_holds_the_same_image_however_it_came(own_server, app):
    for mode in ("1", "0"):
        result = run([app("matmul")],
                     client_env(own_server.address("tcp"), CRICKET_DEBUG=f"compress={mode}", CRICKET_STATS="1"))
        assert result.out == (EXPECTED / "matmul.txt").read_text(), result.err
    assert "ck_image" not in messages(result.err)
