"""tests/e2e/test_small_weights.py - kept uploads of one to four MiB, which are one-way commands also at the first start."""
import random
import struct
import sys

import pytest

from conftest import over, run
from stranger import name_of, opaque, u32, u64
from test_compress import messages
from test_weights import INVALID_VALUE, MIB, Stranger, place, sent_by  # noqa: F401

# Upload tensors from a private mapping of a file, or each read into one pinned buffer. Work lies between them: the last 8 KiB of each tensor are
# filled, and uploaded again. Fetch all, and compare. A file that is larger than COUNT tensors begins with one upload of all that comes before them.
PROGRAM = """
import ctypes, mmap, os, sys
cuda = ctypes.CDLL(None)
context, dptr, stream, pinned = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
path, way, tensor, count, flip = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
size, half = os.path.getsize(path), tensor - 8192


def ok(error):
    assert error == 0, error


def size_t(n):
    return ctypes.c_size_t(n)


def at(n):
    return ctypes.c_uint64(dptr.value + n)


def copy(to, host, n):
    ok(cuda.cuMemcpyHtoDAsync_v2(at(to), ctypes.c_void_p(host), size_t(n), stream))


ok(cuda.cuInit(0))
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
ok(cuda.cuCtxSetCurrent(context))
ok(cuda.cuStreamCreate(ctypes.byref(stream), 1))
ok(cuda.cuMemAlloc_v2(ctypes.byref(dptr), size_t(size)))
ok(cuda.cuMemHostAlloc(ctypes.byref(pinned), size_t(tensor), 0))
file = open(path, "rb")
mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=3)
host = ctypes.addressof((ctypes.c_char * size).from_buffer(mapping))
buffer = (ctypes.c_char * tensor).from_address(pinned.value)
begin = size - count * tensor
if begin:
    copy(0, host, begin)
for number in range(count):
    to = begin + number * tensor
    source = host + to
    if way == "read":
        ctypes.memmove(pinned, source, tensor)
        source = pinned.value
        if number == flip:
            buffer[4097] = bytes([buffer[4097][0] ^ 1])
    copy(to, source, tensor)
    ok(cuda.cuMemsetD8Async(at(to + half), ctypes.c_ubyte(7), size_t(tensor - half), stream))
    copy(to + half, source + half, tensor - half)
    ok(cuda.cuStreamSynchronize(stream))
back = ctypes.create_string_buffer(size)
ok(cuda.cuMemcpyDtoH_v2(back, dptr, size_t(size)))
want = bytearray(mapping[:])
if flip >= 0:
    want[begin + flip * tensor + 4097] ^= 1
print(bytes(want) == back.raw)
"""
TENSOR, COUNT = 3 * MIB + 8192, 6
WAIT = {"ck_upload_part", "ck_upload_kept", "ck_upload_stored", "ck_store_hold"}     # uploads and questions with a reply


def load(here, way="map", tensor=TENSOR, flip=-1, **env):
    """The messages of one start. The server writes the last chunks after the program's end."""
    result = run([sys.executable, "-c", PROGRAM, str(here.file), way, str(tensor), str(COUNT), str(flip)], here.env(**env))
    assert (result.status, result.out) == (0, "True\n"), result.err
    here.server.wait_idle()
    return result.err


@pytest.mark.threads
@pytest.mark.parametrize("way", ["map", "read"])
@pytest.mark.parametrize("tensor", [TENSOR, 2 * MIB])
def test_a_first_start_does_not_wait_for_small_tensors_and_a_second_sends_little(place, way, tensor):  # noqa: F811
    here = place()
    here.write(COUNT * tensor)
    load(here, way, tensor, CRICKET_WEIGHTS="off")
    assert not here.chunks()
    err = load(here, way, tensor)
    said = messages(err)
    assert sent_by(err) >= COUNT * tensor and "ck_upload_keep" in said, err
    assert not WAIT.intersection(said), err
    for _ in range(2):
        err = load(here, way, tensor)
        assert sent_by(err) < COUNT * tensor / 50, err
        assert "ck_upload_held" in messages(err)


def test_a_small_tensor_that_changes_after_it_was_read_is_sent(place):  # noqa: F811
    """The byte is none of those by which the client finds what it may know."""
    here = place()
    here.write(COUNT * TENSOR)
    load(here, "read")
    assert MIB <= sent_by(load(here, "read", flip=2)) < 2 * TENSOR
    assert sent_by(load(here, "read", flip=2)) < TENSOR / 10
    assert sent_by(load(here, "read")) < TENSOR / 10


def test_shorter_uploads_are_not_kept(place):  # noqa: F811
    here = place()
    here.write(COUNT * 512 * 1024)
    load(here, tensor=512 * 1024)
    assert not here.chunks()


@pytest.mark.alone     # rates are measured
def test_a_slow_network_is_known_by_a_larger_upload_or_from_the_last_start(place):  # noqa: F811
    here = place()
    size = 24 * MIB + COUNT * 2 * MIB
    here.write(size)
    slow = {"CRICKET_WEIGHTS": "auto", **over("bw=100M")}
    assert "ck_upload_keep" in messages(load(here, tensor=2 * MIB, **slow))
    assert sent_by(load(here, tensor=2 * MIB, **slow)) < size / 50
    here.write(COUNT * 2 * MIB, seed=3)
    assert "ck_upload_keep" in messages(load(here, tensor=2 * MIB, **slow))


def keep(session, chunk, name=bytes(32), blocks=b"", size=None):
    """One-way; the error is that of the next call."""
    args = session.memory + u64(0) + name + u64(len(chunk) if size is None else size) + opaque(blocks) + u32(len(chunk))
    session.send("ck_upload_keep", args, chunk)
    return session.ask("ck_download", session.memory + u64(0) + u64(64) + u32(0))[0]


def test_wrong_messages_are_refused_and_keep_nothing(place):  # noqa: F811
    here = place()
    owner = Stranger(here.server, "unix")
    chunk, other = random.randbytes(100000), random.randbytes(5000)
    assert keep(owner, chunk) == 0 and owner.content(len(chunk)) == chunk
    assert owner.missing(chunk) == (0, False)
    assert keep(owner, other, name_of(chunk)) == 0     # arrives, and is not kept as that
    assert owner.content(len(other)) == other and owner.missing(other) == (0, True)
    owner.end()
    for wrong in ({"size": 0}, {"size": len(chunk) + 1}, {"size": 2 ** 63}, {"blocks": b"x"}, {"blocks": struct.pack("<I", 5)}):
        one = Stranger(here.server, "tcp")
        before = one.content(len(chunk))
        assert keep(one, chunk, **wrong) == INVALID_VALUE, wrong
        one.end()
        one = Stranger(here.server, "tcp")
        assert one.missing(chunk) == (0, True) and one.content(len(chunk)) == before     # nor what another identity has
        one.end()
    one = Stranger(here.server, "tcp")
    assert keep(one, b"", size=100) == INVALID_VALUE     # bytes in place need a call
    one.end()
