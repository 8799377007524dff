"""tests/e2e/test_far.py - programs whose server is far away: far.c delays the packets between two network namespaces."""
import re
import sys

import pytest

from conftest import DRIVER, OUT, SERVER, client_env, clean_env, run
from ports import free_port

FAR = OUT / "far"
UNABLE = 77         # status of FAR: this user cannot make such networks
ROUND_TRIP_MS = 100

EACH = 40           # Mbit/s of one connection: twice as many are twice as fast, on any machine

# `numbers` reads the client's log so far: programs go on until it says enough.
PRELUDE = """
import atexit, ctypes, os, random, re, sys, tempfile
log = tempfile.TemporaryFile("w+")
errors = os.dup(2)
os.dup2(log.fileno(), 2)
def numbers(words):
    return [int(n) for n in re.findall(words + " ([0-9]+) connections", os.pread(log.fileno(), 1 << 24, 0).decode())]
c = ctypes.CDLL("libcuda.so.1")
ctx, mem = ctypes.c_void_p(), ctypes.c_uint64()
def ok(err): assert err == 0, err
@atexit.register
def tell():
    sys.stderr.flush()
    os.write(errors, os.pread(log.fileno(), 1 << 24, 0))
ok(c.cuInit(0))
ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0))
ok(c.cuCtxSetCurrent(ctx))
"""

# Every byte differs from those near it and from those of the last copy.
LARGE_COPIES = PRELUDE + """
size, most = 24 << 20, int(os.environ["COPIES"])
ok(c.cuMemAlloc_v2(ctypes.byref(mem), ctypes.c_size_t(size)))
back = ctypes.create_string_buffer(size)
def enough():
    return all(max(numbers("the next large copy %s the server uses" % way), default=0) >= 4 for way in ("to", "from"))
for turn in range(most):
    data = random.Random(turn).randbytes(size)
    ok(c.cuMemcpyHtoD_v2(mem, data, ctypes.c_size_t(size)))
    ok(c.cuMemcpyDtoH_v2(back, mem, ctypes.c_size_t(size)))
    assert back.raw[:size] == data, turn
    if turn >= 2 and enough():
        break
print("right")
"""

# A DataLoader's steps: one pinned block, written again at once; work in a stream that overwrites a part of each upload.
STEPS = PRELUDE + """
size, most, places = 1 << 20, int(os.environ["STEPS"]), 8
stream, host = ctypes.c_void_p(), ctypes.c_void_p()
ok(c.cuMemAlloc_v2(ctypes.byref(mem), ctypes.c_size_t(places * size)))
ok(c.cuStreamCreate(ctypes.byref(stream), 1))
ok(c.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(size), 0))
data = [random.Random(i).randbytes(size) for i in range(7)]
back = ctypes.create_string_buffer(places * size)
def place(i): return ctypes.c_uint64(mem.value + i % places * size)
steps = 0
while steps < most and (steps < 40 or steps % 40 or max(numbers("one-way uploads use"), default=1) < 4):
    i = steps
    ctypes.memmove(host, data[i % 7], size)
    ok(c.cuMemcpyHtoDAsync_v2(place(i), host, ctypes.c_size_t(size), stream))
    ok(c.cuMemsetD8Async(place(i), i & 255, ctypes.c_size_t(16), stream))
    if i % 40 == 39:        # other sizes, and a wait
        ok(c.cuMemcpyHtoDAsync_v2(place(i), data[3][:70001], ctypes.c_size_t(70001), stream))
        ok(c.cuStreamSynchronize(stream))
    steps += 1
ok(c.cuStreamSynchronize(stream))
ok(c.cuMemcpyDtoH_v2(back, mem, ctypes.c_size_t(places * size)))
for i in range(steps - places, steps):
    want = bytes([i & 255]) * 16 + data[i % 7][16:]
    if i % 40 == 39:
        want = data[3][:70001] + want[70001:]
    assert back.raw[i % places * size:(i % places + 1) * size] == want, i
bad = ctypes.c_uint64(0x1234)       # an error of an upload comes at the latest with the next call that waits
errs = [c.cuMemcpyHtoDAsync_v2(bad, host, ctypes.c_size_t(size), stream), c.cuMemcpyDtoH_v2(back, mem, ctypes.c_size_t(4))]
assert any(errs), errs
print("right")
"""


def run_far(folder, program, *options, mbits=0, each=EACH, most=200, **env):
    """Runs a Python PROGRAM against a server of its own at the end of a long network."""
    assert FAR.exists(), "not built: make -C tests far"
    port = free_port()
    address = f"10.77.0.2:{port}"
    env = client_env(address, CRICKET_DEBUG="no-compress", CRICKET_WEIGHTS="off", **env)
    preload = env.pop("LD_PRELOAD")
    server = [SERVER, "--driver", DRIVER, "--listen", address, "--unix", folder / "s", "--insecure", *options]
    words = {k: v for k, v in env.items() if k.startswith(("CRICKET_", "REMOTE_GPU"))}
    result = run([FAR, ROUND_TRIP_MS, mbits, each, port, "env", f"CRICKET_CACHE_DIR={folder / 'cache'}", "CRICKET_LOG=error", *server,
                  "--", "env", f"LD_PRELOAD={preload}", sys.executable, "-c", program],
                 clean_env(CRICKET_LOG="client:debug", COPIES=str(most), STEPS=str(most), **words), 120)
    if result.status == UNABLE:
        pytest.skip(result.err)
    return result


def connections(result, way):
    """The numbers of connections that copies in one direction were to use, in turn."""
    return [int(n) for n in re.findall(f"the next large copy {way} the server uses ([0-9]+) connections", result.err)]


def upload_connections(result):
    """The same of one-way uploads."""
    return [int(n) for n in re.findall("one-way uploads use ([0-9]+) connections", result.err)]


@pytest.mark.slow
def test_large_copies_use_more_connections_while_that_is_faster(tmp_path):
    result = run_far(tmp_path, LARGE_COPIES, most=12)
    assert result.status == 0 and result.out == "right\n", result.err
    for way in ("to", "from"):
        assert max(connections(result, way), default=0) >= 4, result.err


@pytest.mark.slow
def test_the_users_number_of_connections_is_kept(tmp_path):
    result = run_far(tmp_path, LARGE_COPIES, most=2, CRICKET_CONNECTIONS="12")
    assert result.status == 0 and result.out == "right\n", result.err
    assert not connections(result, "to") and not connections(result, "from"), result.err


@pytest.mark.slow
def test_one_way_uploads_use_several_connections_in_the_order_of_the_stream(tmp_path):
    result = run_far(tmp_path, STEPS, most=1000, CRICKET_STATS="1")
    assert result.status == 0 and "right" in result.out, result.err
    assert max(upload_connections(result), default=1) >= 4, result.err
    assert upload_connections(result)[:2] == [2, 4], result.err


@pytest.mark.slow
def test_more_connections_that_are_not_faster_are_given_up(tmp_path):
    """Two connections share what one can carry."""
    result = run_far(tmp_path, STEPS, mbits=2 * EACH, each=0, most=120)
    assert result.status == 0 and "right" in result.out, result.err
    assert max(upload_connections(result), default=1) <= 2, result.err


@pytest.mark.parametrize("lanes", [3, 16])
def test_a_limit_of_the_server_leaves_connections_to_the_program(tmp_path, lanes):
    """An eighth of them is for one use."""
    result = run_far(tmp_path, LARGE_COPIES, "--max-lanes", lanes, most=3)
    assert result.status == 0 and result.out == "right\n", result.err
    assert "no connection for this thread" not in result.err, result.err
    assert max(connections(result, "to") + connections(result, "from"), default=1) <= max(lanes // 8, 1), result.err


def test_a_short_network_needs_no_more(server):
    env = client_env(server.address("tcp"), CRICKET_LOG="client:debug", COPIES="3", STEPS="60")
    for program in (LARGE_COPIES, STEPS):
        result = run([sys.executable, "-c", program], env)
        assert result.status == 0 and result.out == "right\n", result.err
        assert not connections(result, "to") and not connections(result, "from") and not upload_connections(result), result.err
