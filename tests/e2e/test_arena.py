"""tests/e2e/test_arena.py - device memory that the client lays out: leases, their end, out of memory."""
import json
import subprocess
import sys
import time

import pytest

from conftest import DRIVER, HANG, PATIENCE, PRODUCTS, TRANSPORTS, Server, clean_env, client_env, run, wait_until

MIB = 1 << 20
CHUNK = 2 * MIB
MEMORY = 256 * MIB

HEAD = f"""
import ctypes, os, sys, threading, time
cuda = ctypes.CDLL("libcuda.so.1")
def counted(name):
    at, found = ctypes.c_void_p(), ctypes.c_int()
    assert cuda.cuGetProcAddress_v2(name, ctypes.byref(at), 12000, ctypes.c_uint64(0), ctypes.byref(found)) == 0
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(at.value)
cuMemAlloc = counted(b"cuMemAlloc")
CHUNK = {CHUNK}
OUT_OF_MEMORY = 2
def check(err):
    assert err == 0, err
def current():
    c = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0))
    check(cuda.cuCtxSetCurrent(c))
def alloc(size):
    p = ctypes.c_uint64()
    err = cuMemAlloc(ctypes.addressof(p), size)
    assert err in (0, OUT_OF_MEMORY), err
    return None if err else p.value
def free(p):
    check(cuda.cuMemFree_v2(ctypes.c_uint64(p)))
def left():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value
def soon():
    end = time.monotonic() + {10 * PATIENCE}
    while (p := alloc(CHUNK)) is None and time.monotonic() < end:
        time.sleep(0.05)
    return p
def say(*words):
    print(*words, flush=True)
def fill(size=CHUNK):
    got = []
    while (p := alloc(size)) is not None:
        got.append(p)
    return got
check(cuda.cuInit(0))
"""

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="takes all memory of a small device")


@pytest.fixture(name="small")
def small_server(tmp_path):
    s = Server(tmp_path / "server", CRICKET_EMU=f"memory={MEMORY},shared,usage={tmp_path}/table")
    yield s
    s.stop()


def python(code, env, timeout=60):
    return run([sys.executable, "-c", HEAD + code], env, timeout)


def begin(code, env):
    return subprocess.Popen([sys.executable, "-c", HEAD + code], env=env, text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)


def waits(text, name):
    """How often calls of NAME waited, of the statistics TEXT."""
    rows = [line.split() for line in text.splitlines() if line.split()[-1:] == [name]]
    return sum(int(row[4]) for row in rows)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_allocations_and_frees_do_not_wait(server, transport):
    result = python("""
current()
for size in (1, 512, 513, 100000, CHUNK, 3 * CHUNK):
    for _ in range(20):
        p, q = alloc(size), alloc(size)
        assert p % 512 == q % 512 == 0 and abs(p - q) >= size
        free(p), free(q)
""", client_env(server.address(transport), CRICKET_STATS="1"))
    assert result.status == 0, result.err
    assert waits(result.err, "cuMemAlloc_v2") == waits(result.err, "cuMemFree_v2") == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_watch_of_the_lease_does_not_make_copies_wait(server, transport):
    """The server can take the lease back by a function of the client, which writes nothing of the program's."""
    result = python("""
current()
p = alloc(CHUNK)
pinned = ctypes.c_void_p()
check(cuda.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(65536), 0))
time.sleep(1.5)     # the watch begins after a second
for _ in range(20):
    check(cuda.cuMemsetD8Async(ctypes.c_uint64(p), ctypes.c_ubyte(1), ctypes.c_size_t(65536), None))
    check(cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(p), pinned, ctypes.c_size_t(40000), None))
check(cuda.cuCtxSynchronize())
""", client_env(server.address(transport), CRICKET_STATS="1", CRICKET_DEBUG="no-compress"))
    assert result.status == 0, result.err
    rows = {line.split()[-1]: line.split() for line in result.err.splitlines() if len(line.split()) > 10}
    waited = sum(int(rows[name][1]) for name in ("ck_settle", "cuStreamSynchronize") if name in rows)
    assert waited <= 1, result.err      # that of cuCtxSynchronize


@pytest.mark.parametrize("arena", ("0", "1"))
def test_out_of_memory_is_exact_to_the_chunk(small, arena):
    result = python("""
current()
before = left()
got = fill()
say(before // CHUNK - len(got), left() // CHUNK, alloc(1))
for p in got[::2]:
    free(p)
half = len(got[::2]) * CHUNK
say(left() // CHUNK - half // CHUNK, alloc(half + CHUNK), alloc(half) is not None, left() // CHUNK)
""", client_env(small.address("unix"), CRICKET_DEBUG=f"arena={arena}"))
    assert result.out == "0 0 None\n0 None True 0\n", result.err


def test_small_pieces_of_freed_chunks_are_one_again(small):
    result = python("""
current()
before = left() // CHUNK
pieces = fill(CHUNK // 4)
for p in pieces[1::2] + pieces[::2]:
    free(p)
say(len(pieces) - 4 * before, left() // CHUNK - before, alloc(before * CHUNK) is not None)
""", client_env(small.address("unix")))
    assert result.out == "0 0 True\n", result.err


def test_two_sessions_share_the_last_memory_exactly(small):
    """Many threads of two programs take memory until there is none."""
    code = """
current()
say("ready")
got = []
def take():
    current()
    got.extend(fill())
for line in sys.stdin:
    threads = [threading.Thread(target=take) for _ in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    say(len(got), len(set(got)))
"""

    def take(programs):
        """Has both take what there is at the same time; how much they have."""
        for p in programs:
            print(file=p.stdin, flush=True)
        counts = [[int(n) for n in p.stdout.readline().split()] for p in programs]
        assert all(count == different for count, different in counts)
        return sum(count for count, _ in counts)
    total = MEMORY // CHUNK
    for transport in TRANSPORTS:
        small.wait_idle()
        two = [begin(code, client_env(small.address(transport))) for _ in range(2)]
        assert [p.stdout.readline() for p in two] == ["ready\n"] * 2
        wait_until(lambda: take(two) >= total, 10, "they have all")       # what one returns takes a moment
        assert take(two) == total
        for p in two:
            p.communicate(timeout=HANG)
            assert p.returncode == 0


@pytest.mark.parametrize("holds", ("", "current()", "current(); free(alloc(1))",
                                   "current(); [free(p) for p in fill()]"),
                         ids=("offer", "context", "lease", "all"))
def test_an_idle_session_gives_up_what_another_needs(small, holds):
    total = MEMORY // CHUNK
    idle = begin(f'{holds}\ntime.sleep(1.5)\nsay("ready")\ninput()\ncurrent()\nsay(soon())', client_env(small.address("tcp")))
    assert idle.stdout.readline() == "ready\n"
    greedy = python(f"""
current()
got, end = fill(), time.monotonic() + {10 * PATIENCE}
while len(got) < {total} and time.monotonic() < end:
    got += fill()
say(len(got))
""", client_env(small.address("unix")))
    assert int(greedy.out) == total, greedy.err
    out, _ = idle.communicate("\n", timeout=HANG)
    assert out.strip().isdigit() and idle.returncode == 0


def test_memory_that_a_new_session_was_offered_stays_there(small):
    """Taking it is one-way: nothing could tell the program that another session has it."""
    new = begin("""
say("ready")
input()
current()
p = alloc(CHUNK)
say(p is None or cuda.cuMemsetD8_v2(ctypes.c_uint64(p), 1, ctypes.c_size_t(CHUNK)), cuda.cuCtxSynchronize())
say(cuda.cuCtxSynchronize(), left() >= 0)
""", client_env(small.address("tcp")))
    assert new.stdout.readline() == "ready\n"
    greedy = begin("current()\nfill()\nsay(1)\ninput()", client_env(small.address("unix")))
    assert greedy.stdout.readline() == "1\n"
    out, _ = new.communicate("\n", timeout=HANG)
    greedy.communicate("\n", timeout=HANG)
    assert out in ("0 0\n0 True\n", "True 0\n0 True\n") and new.returncode == greedy.returncode == 0


def test_memory_that_was_offered_serves_each_kind_of_allocation(small):
    result = python(f"""
current()
h, prop = ctypes.c_uint64(), (ctypes.c_int * 16)(1, 0, 1, 0)
say(cuda.cuMemCreate(ctypes.byref(h), ctypes.c_size_t({MEMORY}), prop, ctypes.c_uint64(0)))
""", client_env(small.address("unix")))
    assert result.out == "0\n", result.err


def test_a_lease_grows_before_it_is_used_up(server):
    result = python("""
current()
for _ in range(40):
    assert alloc(4 << 20)
    time.sleep(0.15)        # a busy server needs longer than usual
""", client_env(server.address("tcp"), CRICKET_STATS="1"))
    assert result.status == 0, result.err
    assert waits(result.err, "cuMemAlloc_v2") == 0
    assert waits(result.err, "ck_lease") > 0


def test_without_an_arena_the_server_chooses(server):
    result = python("""
current()
p = alloc(1000)
free(p)
say(hex(p)[:3])
""", client_env(server.address("unix"), CRICKET_DEBUG="no-arena", CRICKET_STATS="1"))
    assert result.status == 0 and result.out != "0x2\n", result.err
    assert waits(result.err, "cuMemAlloc_v2") == 2 and waits(result.err, "ck_lease") == 0


def test_a_server_need_not_lease_in_advance(tmp_path):
    server = Server(tmp_path / "server", "--lease", "0")
    try:
        result = python("current()\nfree(alloc(1000))\nfree(alloc(1000))",
                        client_env(server.address("unix"), CRICKET_STATS="1"))
        assert result.status == 0, result.err
        assert waits(result.err, "cuMemAlloc_v2") == 1
    finally:
        server.stop()


def test_memory_that_is_not_allocated_is_refused(server):
    """Leased memory is mapped memory for the driver, and an allocation for the program."""
    result = python("""
current()
p, q = alloc(1000), alloc(CHUNK)
handle = ctypes.c_uint64()
at = ctypes.c_uint64
say(cuda.cuMemFree_v2(at(p + 512)), cuda.cuMemUnmap(at(p & -CHUNK), ctypes.c_size_t(CHUNK)),
    cuda.cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(p)),
    cuda.cuMemAddressFree(at(p & -CHUNK), ctypes.c_size_t(CHUNK)))
free(p)
say(cuda.cuMemFree_v2(at(p)), cuda.cuMemsetD8_v2(at(p), 1, ctypes.c_size_t(10)),
    cuda.cuMemsetD8_v2(at(q), 1, ctypes.c_size_t(CHUNK)), cuda.cuMemsetD8_v2(at(q), 1, ctypes.c_size_t(CHUNK + 1)),
    cuda.cuCtxSynchronize())
""", client_env(server.address("unix")))
    assert result.out == "1 1 1 1\n1 1 0 1 0\n", result.err


# A big allocation of each kind, in ctypes; `big` is most of the device.
KINDS = {
    "pitch": "p, pitch = ctypes.c_uint64(), ctypes.c_size_t()\n"
             "err = cuda.cuMemAllocPitch_v2(ctypes.byref(p), ctypes.byref(pitch), 16384, big // 16384, 4)",
    "managed": "p = ctypes.c_uint64()\nerr = cuda.cuMemAllocManaged(ctypes.byref(p), big, 1)\n"
               "err = err or cuda.cuMemsetD8_v2(p, 1, big)",
    "array": "a, d = ctypes.c_void_p(), (ctypes.c_uint64 * 3)(8192, big // 32768, 0x1_0000_0020)\n"
             "err = cuda.cuArrayCreate_v2(ctypes.byref(a), d)",
    "array of three dimensions": "a, d = ctypes.c_void_p(), (ctypes.c_uint64 * 5)(1024, 32, big // 131072, 0x1_0000_0020, 0)\n"
                                 "err = cuda.cuArray3DCreate_v2(ctypes.byref(a), d)",
    "mipmap": "a, d = ctypes.c_void_p(), (ctypes.c_uint64 * 5)(4096, 4096, 0, 0x1_0000_0020, 0)\n"
              "err = cuda.cuMipmappedArrayCreate(ctypes.byref(a), d, 12)",
    "physical": "h, prop = ctypes.c_uint64(), (ctypes.c_int * 16)(1, 0, 1, 0)\n"
                "err = cuda.cuMemCreate(ctypes.byref(h), big, prop, ctypes.c_uint64(0))",
    "in a stream": "p = ctypes.c_uint64()\nerr = cuda.cuMemAllocAsync(ctypes.byref(p), big, None)",
    "of a graph": """g, n, x = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuGraphCreate(ctypes.byref(g), 0))
params = (ctypes.c_uint64 * 16)()
struct.pack_into("=iiii", params, 0, 1, 0, 1, 0)
params[88 // 8 + 2] = big
check(cuda.cuGraphAddMemAllocNode(ctypes.byref(n), g, None, ctypes.c_size_t(0), params))
check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(x), g, ctypes.c_uint64(0)))
err = cuda.cuGraphLaunch(x, None) or cuda.cuCtxSynchronize()""",
    "captured": """s, g, x, p = (ctypes.c_void_p() for _ in range(4))
check(cuda.cuStreamCreate(ctypes.byref(s), 1))
check(cuda.cuStreamBeginCapture_v2(s, 0))
check(cuda.cuMemAllocAsync(ctypes.byref(p), ctypes.c_size_t(big), s))
check(cuda.cuMemsetD8Async(p, 7, ctypes.c_size_t(big), s))
check(cuda.cuMemFreeAsync(p, s))
check(cuda.cuStreamEndCapture(s, ctypes.byref(g)))
check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(x), g, ctypes.c_uint64(0)))
err = cuda.cuGraphLaunch(x, s) or cuda.cuCtxSynchronize()""",
    "uploaded": """s, g, x, p = (ctypes.c_void_p() for _ in range(4))
check(cuda.cuStreamCreate(ctypes.byref(s), 1))
check(cuda.cuStreamBeginCapture_v2(s, 0))
check(cuda.cuMemAllocAsync(ctypes.byref(p), ctypes.c_size_t(big), s))
check(cuda.cuStreamEndCapture(s, ctypes.byref(g)))
check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(x), g, ctypes.c_uint64(0)))
err = cuda.cuGraphUpload(x, s) or cuda.cuCtxSynchronize() or cuda.cuGraphLaunch(x, s) or cuda.cuCtxSynchronize()""",
    "variable of a module": """m = ctypes.c_void_p()
err = cuda.cuModuleLoadData(ctypes.byref(m), b".version 6.4\\n.target sm_75\\n.address_size 64\\n"
                            b".visible .global .align 4 .b8 room[%d];\\n" % big)""",
}


@pytest.mark.parametrize("kind", KINDS)
def test_freed_memory_serves_each_kind_of_allocation(small, kind):
    result = python(f"""
import struct
current()
got = fill()
for p in got:
    free(p)
big = left() // 4 * 3
{KINDS[kind]}
say(err, len(got) > 100)
""", client_env(small.address("unix")))
    assert result.out == "0 True\n", result.err


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"mipmap", "of a graph", "captured", "uploaded", "managed"}))
def test_what_does_not_fit_is_out_of_memory_at_once(small, kind):
    result = python(f"""
import struct
current()
kept = alloc(left() // 2)
big = {MEMORY} // 4 * 3
{KINDS[kind]}
say(err, cuda.cuCtxSynchronize())
""", client_env(small.address("unix")))
    assert result.out == f"{2} 0\n", result.err


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("end", ("cuDevicePrimaryCtxRelease_v2(0)", "cuDevicePrimaryCtxReset_v2(0)"))
def test_a_context_that_has_ended_does_not_harm_others(server, transport, end):
    """Memory that is freed in one context and allocated in another waits for the work of all contexts that there are."""
    result = python(f"""
current()
p = alloc(4096)
check(cuda.cuMemsetD8_v2(ctypes.c_uint64(p), 1, 4096))
check(cuda.{end})
check(cuda.cuCtxSetCurrent(None))
def made():
    c = ctypes.c_void_p()
    check(cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0))
    return c
first = made()
host = ctypes.create_string_buffer(1 << 16)
for size in (CHUNK // 64, CHUNK, 10 * CHUNK):
    check(cuda.cuCtxSetCurrent(first))
    blocks = [alloc(size) for _ in range(6)]
    for b in blocks:
        check(cuda.cuMemsetD8Async(ctypes.c_uint64(b), 1, size, None))
    for b in blocks:
        free(b)
    second = made()
    r = alloc(5 * size)
    check(cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(r), host, min(5 * size, len(host))))
    check(cuda.cuCtxSynchronize())
    free(r)
    check(cuda.cuCtxDestroy_v2(second))
say("right")
""", client_env(server.address(transport)))
    assert result.out == "right\n", result.err


def test_an_idle_session_keeps_little_more_than_it_uses(tmp_path):
    """Ten seconds after its last allocation, what it has leased in advance is back."""
    server = Server(tmp_path / "server", CRICKET_EMU=f"memory={64 << 30}")
    idle = begin('current()\nkept = alloc(2 * CHUNK)\nsay("ready")\ninput()', client_env(server.address("unix")))

    def held():
        shown = run([PRODUCTS / "cricket", "status", "-s", server.address("unix"), "--json"], clean_env())
        return [s["memory"] for s in json.loads(shown.out)["sessions"]]
    try:
        assert idle.stdout.readline() == "ready\n"
        wait_until(lambda: held() and held()[0] > 200 * MIB, 5, "the lease is there")
        wait_until(lambda: 2 * CHUNK <= held()[0] <= 2 * CHUNK + 16 * MIB, 12, "all but the memory in use is back")
    finally:
        idle.communicate("\n", timeout=HANG)
        server.stop()


# Memory is freed and allocated again while stream a waits for a word that stream b writes later.
HELD = f"""
SIZE = {64 * MIB}
def stream():
    s = ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(s), 1))
    return s
def alloc_in(s):
    p = ctypes.c_uint64()
    check(cuda.cuMemAllocAsync(ctypes.byref(p), ctypes.c_size_t(SIZE), s))
    return p.value
def free_in(s, p):
    check(cuda.cuMemFreeAsync(ctypes.c_uint64(p), s))
def use(s, p, value):
    check(cuda.cuMemsetD8Async(ctypes.c_uint64(p), value, ctypes.c_size_t(1000), s))
def hold():
    check(cuda.cuStreamWaitValue32_v2(a, ctypes.c_uint64(word), 1, 0))
current()
word, a, b, c = alloc(4), stream(), stream(), stream()
check(cuda.cuMemsetD32_v2(ctypes.c_uint64(word), 0, ctypes.c_size_t(1)))
check(cuda.cuCtxSynchronize())
"""
RELEASE = """
use(b, q, 7)
check(cuda.cuStreamWriteValue32_v2(b, ctypes.c_uint64(word), 1, 0))
check(cuda.cuCtxSynchronize())
byte = ctypes.create_string_buffer(1)
check(cuda.cuMemcpyDtoH_v2(byte, ctypes.c_uint64(q), ctypes.c_size_t(1)))
assert byte.raw == b"\\x07"
say("done")
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("steps", [
    pytest.param("hold(); p = alloc_in(b); use(b, p, 1); free_in(b, p); q = alloc(SIZE)", id="freed in another stream"),
    pytest.param("p = alloc_in(a); hold(); use(a, p, 1); free_in(a, p); q = alloc_in(b)", id="freed in the stream that waits"),
    pytest.param("hold(); p = alloc_in(c); use(c, p, 1); free_in(c, p); destroy(c); q = alloc_in(b)", id="freed in a stream that has ended"),
    pytest.param("p = alloc_in(a); hold(); use(a, p, 1); free_in(a, p); destroy(a); q = alloc_in(b)", id="freed in a stream that has ended waiting"),
    pytest.param("p = alloc(SIZE); use(b, p, 1); free(p); hold(); q = alloc(SIZE)", id="freed before"),
])
def test_freed_memory_is_allocated_while_work_waits_for_later_work(server, transport, steps):
    destroy = "def destroy(s):\n    check(cuda.cuStreamDestroy_v2(s))\n"
    result = python(HELD + destroy + steps + RELEASE, client_env(server.address(transport)), timeout=20)
    assert (result.status, result.out) == (0, "done\n"), result.err


# Natively, these fail at once.
MORE = f"""
MOST = {200 * MIB}
def lacks(err):
    assert err == 2, err
def alloc_large():
    lacks(cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(MOST)))
def managed():
    lacks(cuda.cuMemAllocManaged(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(MOST), 1))
class Array(ctypes.Structure):
    _fields_ = [("w", ctypes.c_size_t), ("h", ctypes.c_size_t), ("format", ctypes.c_int), ("n", ctypes.c_uint)]
def array():
    lacks(cuda.cuArrayCreate_v2(ctypes.byref(ctypes.c_void_p()), ctypes.byref(Array(8192, MOST // 8192 // 4, 0x20, 1))))
def fill_in(s):
    global SIZE
    SIZE = MOST
    p = alloc_in(s)
    SIZE = {4 * MIB}
    return p
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("steps", [
    "p = fill_in(a); hold(); use(a, p, 1); free_in(a, p); alloc_large(); alloc_large()",
    "p = fill_in(a); hold(); use(a, p, 1); free_in(a, p); managed()",
    "p = fill_in(a); hold(); use(a, p, 1); free_in(a, p); array()",
    "p = fill_in(b); use(b, p, 1); free(p); hold(); lacks(cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(2 * MOST)))",
])
def test_an_allocation_fails_where_only_memory_of_held_work_is_left(tmp_path, transport, steps):
    server = Server(tmp_path / "server", CRICKET_EMU=f"memory={256 * MIB}")
    try:
        ends = "\nq = alloc(SIZE)" + RELEASE + "\nassert alloc(MOST)\n"
        result = python(HELD + MORE + steps + ends, client_env(server.address(transport)), timeout=60)
        assert (result.status, result.out) == (0, "done\n"), result.err
        server.stop()
    finally:
        server.kill()


# Work that waits for a word, which the program writes after a line of input.
WAITS = """
current()
word, a, b = alloc(4), ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuStreamCreate(ctypes.byref(a), 1)), check(cuda.cuStreamCreate(ctypes.byref(b), 1))
time.sleep(1.5)         # it can be asked for memory now
check(cuda.cuStreamWaitValue32_v2(a, ctypes.c_uint64(word), 1, 0))
assert cuda.cuStreamQuery(a) == 600
say("ready")
input()
check(cuda.cuStreamWriteValue32_v2(b, ctypes.c_uint64(word), 1, 0))
check(cuda.cuStreamSynchronize(a))
say("done")
"""


def goes_back_at_rest(server, _greedy):
    def held():
        shown = run([PRODUCTS / "cricket", "status", "-s", server.address("unix"), "--json"], clean_env())
        return [s["memory"] for s in json.loads(shown.out)["sessions"]]
    wait_until(lambda: max(held()) > 32 * MIB, 5, "the lease is there")
    wait_until(lambda: max(held()) <= 16 * MIB, 12, "free memory is back")


def goes_back_to_another(_server, greedy):
    greedy.stdin.write("\n")
    greedy.stdin.flush()
    assert greedy.stdout.readline() == "all\n"


@pytest.mark.parametrize("goes_back", (goes_back_at_rest, goes_back_to_another))
def test_free_memory_goes_back_while_work_waits_for_later_work(tmp_path, goes_back):
    server = Server(tmp_path / "server", CRICKET_EMU=f"memory={4 << 30},shared,usage={tmp_path}/table")
    greedy = begin(f"""
current()
say("ready")
for _ in sys.stdin:
    got, end = fill(), time.monotonic() + {10 * PATIENCE}
    while len(got) < {(4 << 30) // CHUNK - 8} and time.monotonic() < end:
        got += fill()
    say("all" if time.monotonic() < end else len(got))
""", client_env(server.address("unix")))
    waiting = begin(WAITS, client_env(server.address("unix")))
    try:
        assert greedy.stdout.readline() == waiting.stdout.readline() == "ready\n"
        goes_back(server, greedy)
        out, _ = waiting.communicate("\n", timeout=HANG)
        assert out == "done\n" and waiting.returncode == 0
    finally:
        waiting.kill()
        greedy.communicate(timeout=HANG)
        server.stop()
