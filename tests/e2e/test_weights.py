"""tests/e2e/test_weights.py - uploads that the server keeps, so that the next start need not send them (CRICKET_WEIGHTS)."""
import os
import pathlib
import random
import struct
import sys
import time

import pytest

from conftest import KIND, PRODUCTS, Server, client_env, over, run, wait_until
from stranger import Session, name_of, opaque, u32, u64
from test_compress import messages
from test_descriptors import RIGHT

MIB = 1 << 20
# Upload the file as loaders do: mapped privately (safetensors, and so transformers and vLLM), "shared" (llama.cpp), or filled by "read"
# (torch.load); one byte may be "written" in memory; or one tensor in its middle; or "staged" in a pinned buffer (safetensors 0.8). Fetch it, and compare.
PROGRAM = """
import ctypes, mmap, os, sys
cuda = ctypes.CDLL(None)
context, dptr = ctypes.c_void_p(), ctypes.c_uint64()
path, way = sys.argv[1:3]
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
size = os.path.getsize(path)
start = (3 << 20) + 4096 if way == "part" else 0
size -= 2 * start
assert cuda.cuMemAlloc_v2(ctypes.byref(dptr), ctypes.c_size_t(size)) == 0
with open(path, "rb") as file:
    if way.startswith("read"):
        source = ctypes.create_string_buffer(size)
        file.readinto(source)
    elif way == "shared":
        cuda.mmap.restype = ctypes.c_void_p
        at = cuda.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
        source = (ctypes.c_char * size).from_address(at)
    else:
        mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=3)
        source = (ctypes.c_char * size).from_buffer(mapping, start)
if way.endswith("written"):
    source[3 << 20] = b"!" if source[3 << 20] != b"!" else b"?"
if way == "staged":
    staged = ctypes.c_void_p()
    assert cuda.cuMemHostAlloc(ctypes.byref(staged), ctypes.c_size_t(8 << 20), 2) == 0
    assert cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(ctypes.c_uint64()), staged, 0) == 0
    for at in range(0, size, 8 << 20):
        part = ctypes.c_size_t(min(size - at, 8 << 20))
        ctypes.memmove(staged, ctypes.byref(source, at), part.value)
        assert cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(dptr.value + at), staged, part, None) == 0
        assert cuda.cuStreamSynchronize(None) == 0
else:
    assert cuda.cuMemcpyHtoD_v2(dptr, source, ctypes.c_size_t(size)) == 0
back = ctypes.create_string_buffer(size)
assert cuda.cuMemcpyDtoH_v2(back, dptr, ctypes.c_size_t(size)) == 0
print(ctypes.string_at(source, size) == back.raw, hash(back.raw) if way == "read" else "")
"""


def sent_by(err):
    """Bytes of all copies to the device that a program sent."""
    return sum(size for name, (_, size) in messages(err).items() if name.startswith("ck_upload"))


class Place:
    """A user's cache folder, a server, and a file of weights."""

    def __init__(self, folder, *options, **env):
        self.folder = folder
        self.home = folder / "home"
        self.cache = folder / "cache"
        self.server = Server(folder / "server", "--cache-dir", self.cache, *options, **env)
        self.file = folder / "weights"
        self.write(24 * MIB + 12346)

    def write(self, size, seed=1):
        self.file.write_bytes(random.Random(seed).randbytes(size))

    def env(self, **more):
        return client_env(self.server.address("tcp"), XDG_CACHE_HOME=str(self.home),
                          **{"CRICKET_STATS": "1", "CRICKET_WEIGHTS": "on", "CRICKET_CONNECTIONS": "2", **more})

    def upload(self, way="map", **env):
        """The bytes that one start of the program sends. The server writes the last of them after the program's end."""
        others = set(self.server.workers())
        result = run([sys.executable, "-c", PROGRAM, str(self.file), way], self.env(**env))
        assert result.status == 0 and result.out.startswith("True"), result.err
        wait_until(lambda: others.issuperset(self.server.workers()), 5, "the program's worker has gone")
        return sent_by(result.err)

    def chunks(self):
        """The files of the store, of all identities."""
        return sorted(p for p in self.cache.glob("store/*/*") if len(p.name) == 64)

    def stored(self):
        return sum(p.stat().st_size for p in self.chunks())


@pytest.fixture
def place(tmp_path):
    disk, made = os.statvfs(tmp_path), []
    if disk.f_bavail * disk.f_frsize < min(disk.f_blocks * disk.f_frsize // 20, 4096 * MIB) + 1024 * MIB:
        pytest.skip("the server keeps nothing on a disk that is nearly full")

    def make(*options, **env):
        made.append(Place(tmp_path, *options, **env))
        return made[-1]

    yield make
    for one in made:
        one.server.stop()


@pytest.mark.threads
@pytest.mark.parametrize("way", ["map", "shared", "read"])
def test_a_second_start_sends_little(place, way):
    here = place()
    size = here.file.stat().st_size
    assert here.upload(way) >= size
    assert here.upload(way) < size / 50
    assert here.upload(way) < size / 50
    assert here.stored() == size


@pytest.mark.threads
def test_a_second_start_knows_pieces_that_were_staged_in_pinned_memory(place):
    """The last one is too short to be kept."""
    here = place()
    size = here.file.stat().st_size
    assert here.upload("staged") >= size
    assert here.upload("staged") < size / 50
    assert here.stored() == size // (8 * MIB) * 8 * MIB


@pytest.mark.skipif(KIND != "", reason="a sanitizer needs more stack")
def test_a_thread_with_a_small_stack_uploads_without_the_store(place, app):
    """16 KiB (../test_apps/cramped.c) are too few for names of files."""
    here = place()
    result = run([app("cramped"), "stack", 16384], here.env(CRICKET_STATS="0"))
    assert (result.status, result.out, result.err) == (0, RIGHT, "")
    assert not here.chunks()


@pytest.mark.parametrize("first", ["map", "put"])
def test_a_tensor_finds_the_chunks_of_its_file(place, first):
    """Also those that it has only a part of, at its begin and end."""
    here = place()
    if first == "put":
        assert cricket(here, "put", here.server.address("tcp"), here.file)[0] == 0
    else:
        here.upload()
    assert here.upload("part") < here.file.stat().st_size / 50
    assert here.stored() == here.file.stat().st_size


def test_a_tensor_of_a_new_file_is_sent_once(place):
    here = place()
    size = here.file.stat().st_size
    assert here.upload("part") >= size - 8 * MIB
    assert here.upload("part") < size / 50


# Fill 32 MiB of the device from memory, each time with one of so many different contents; fetch them, and compare.
BATCHES = """
import ctypes, random, sys
cuda = ctypes.CDLL(None)
context, dptr, size = ctypes.c_void_p(), ctypes.c_uint64(), 32 << 20
times, different = map(int, sys.argv[1:])
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(dptr), ctypes.c_size_t(size)) == 0
source, back = ctypes.create_string_buffer(random.Random(5).randbytes(size), size), ctypes.create_string_buffer(size)
for i in range(times):
    for at in range(0, size, 4096):
        source[at:at + 2] = (i % different).to_bytes(2, "little")
    assert cuda.cuMemcpyHtoD_v2(dptr, source, ctypes.c_size_t(size)) == 0
assert cuda.cuMemcpyDtoH_v2(back, dptr, ctypes.c_size_t(size)) == 0
print(source.raw == back.raw)
"""


def batches(here, times, different):
    result = run([sys.executable, "-c", BATCHES, times, different], here.env())
    assert (result.status, result.out) == (0, "True\n"), result.err
    return sent_by(result.err)


def test_batches_do_not_fill_the_store(place):
    """Nothing repeats: of what goes to the same memory, 256 MiB are kept after the first time."""
    here = place("--store-size", "512M")
    size = here.file.stat().st_size
    here.upload()
    batches(here, 18, 18)
    assert here.stored() <= size + (32 + 256 + 32) * MIB
    assert here.upload() < size / 50


def test_weights_that_move_to_the_device_again_and_again_are_sent_once(place):
    assert batches(place(), 14, 2) < 2.1 * 32 * MIB


def test_a_change_is_sent(place):
    here = place()
    size = here.file.stat().st_size
    here.upload()
    before = here.file.stat()
    with open(here.file, "r+b") as file:
        file.seek(5 * MIB)
        file.write(b"changed!")
    os.utime(here.file, ns=(before.st_atime_ns, before.st_mtime_ns))
    here.upload()
    here.write(size, seed=2)
    assert here.upload() >= size
    here.write(size // 2, seed=2)
    here.upload()


@pytest.mark.parametrize("old", [False, True])
def test_pages_that_the_program_has_written_are_not_the_file(place, old):
    """A file that has not changed for a minute is not hashed again: there the pages themselves must tell."""
    here = place()
    if old:
        here.file = pathlib.Path(sys.executable).resolve()
        if here.file.stat().st_size < 5 * MIB or time.time() - here.file.stat().st_ctime < 60:
            pytest.skip("no large file that is old")
    here.upload()
    here.upload("written")
    assert here.upload() < here.file.stat().st_size / 50
    here.upload("written")


def test_memory_that_changes_after_it_was_read_is_sent(place):
    """The byte is none of those by which the client finds what it may know."""
    here = place()
    here.upload("read")
    assert 2 * MIB <= here.upload("read-written") < 3 * MIB
    assert here.upload("read") < here.file.stat().st_size / 50


def test_a_hole_of_a_file_is_zeros(place):
    here = place()
    os.truncate(here.file, 33 * MIB + 5)
    with open(here.file, "r+b") as file:
        file.seek(32 * MIB)
        file.write(b"the end")
    assert here.upload() >= 33 * MIB
    assert here.upload() < MIB
    assert here.stored() < 33 * MIB     # the zeros once
    with open(here.file, "r+b") as file:
        file.seek(29 * MIB)
        file.write(b"no hole")
    here.upload()
    assert here.upload() < MIB


def test_only_a_server_on_another_machine_keeps_uploads(place):
    here = place()
    assert here.upload(CRICKET_WEIGHTS="off") >= here.file.stat().st_size
    result = run([sys.executable, "-c", PROGRAM, str(here.file), "map"],
                 here.env(REMOTE_GPU_ADDRESS=here.server.address("unix")))
    assert result.status == 0 and "ck_upload_kept" not in messages(result.err), result.err
    assert not here.chunks() and not here.home.exists()


@pytest.mark.alone     # rates are measured
def test_a_slow_network_is_noticed(place):
    here = place()
    size = here.file.stat().st_size
    slow = {"CRICKET_WEIGHTS": "auto", **over("bw=100M")}
    first = here.upload(**slow)
    assert size <= first < size * 1.01     # no byte is sent twice
    assert here.stored() == size
    assert here.upload(**slow) < size / 50


def test_what_is_damaged_is_sent_again(place):
    here = place()
    size = here.file.stat().st_size
    here.upload()
    flipped, shorter, gone = here.chunks()[:3]
    content = bytearray(flipped.read_bytes())
    content[-1] ^= 1
    flipped.write_bytes(content)
    os.truncate(shorter, shorter.stat().st_size // 2)
    gone.unlink()
    assert 2 * MIB < here.upload() < 7 * MIB
    assert here.upload() < size / 50
    assert here.server.log().count("does not have the content of its name") == 2


@pytest.mark.parametrize("damage", [b"", b"x" * 5000, "half", "flipped"])
def test_a_damaged_index_only_costs_time(place, damage):
    here = place()
    size = here.file.stat().st_size
    here.upload()
    index = here.home / "cricket" / "chunks"
    content = index.read_bytes()
    half, flipped = content[:len(content) // 2], bytes(b ^ (i % 37 == 0) for i, b in enumerate(content))
    index.write_bytes({"half": half, "flipped": flipped}.get(damage, damage))
    here.upload()
    assert here.upload() < size / 50


def test_the_store_has_a_limit(place):
    here = place("--store-size", "10M")
    for _ in range(2):
        here.upload()
        assert 0 < here.stored() <= 10 * MIB


def test_nothing_is_kept_without_a_store(place):
    here = place("--store-size", "0")
    for _ in range(2):
        assert here.upload() >= here.file.stat().st_size
    assert not here.chunks()


class Stranger(Session):
    """Knows hashes, and has 4 MiB of memory."""

    def __init__(self, server, transport):
        super().__init__(server, transport)
        err, found = self.ask("cuMemAlloc_v2", u64(4 * MIB))
        assert err == 0
        self.memory = found[:8]

    def missing(self, chunk, offset=0, size=None, whole=None, begin=0):
        """What the reply says of one chunk, or of a part of it: the error, and whether the server lacks it."""
        size = len(chunk) if size is None else size
        offer = struct.pack("<2Q", offset, size) + name_of(chunk) + struct.pack("<2Q", size if whole is None else whole, begin)
        err, found = self.ask("ck_upload_stored", self.memory + u64(0) + opaque(offer))
        return err, found[4:5] == b"\1"

    def keep(self, chunk, name=None, blocks=b"", size=None):
        args = self.memory + u64(0) + (name or name_of(chunk)) + u64(len(chunk) if size is None else size) + opaque(blocks)
        return self.ask("ck_upload_kept", args + opaque(chunk))[0]

    def content(self, size):
        err, data = self.ask("ck_download", self.memory + u64(0) + u64(size) + u32(0))
        assert err == 0
        return data[4:4 + size]


INVALID_VALUE = 1


def test_a_hash_gives_nothing_that_another_identity_has_sent(place):
    """The client by the unix socket is this user, the one by TCP an address."""
    here = place()
    secret = random.randbytes(100000)
    owner, other = Stranger(here.server, "unix"), Stranger(here.server, "tcp")
    assert owner.keep(secret) == 0 and owner.missing(secret) == (0, False)
    before = other.content(len(secret))
    assert other.missing(secret) == (0, True)
    assert other.content(len(secret)) == before
    assert other.keep(b"something else", name_of(secret)) == 0     # arrives, and is not kept as that
    assert other.missing(secret, size=14) == (0, True) and other.missing(secret) == (0, True)
    assert other.keep(secret) == 0 and other.missing(secret) == (0, False)     # who has it may use it
    assert other.content(len(secret)) == secret
    owner.end()
    other.end()


def test_what_is_in_place_is_kept_without_its_bytes(place):
    """A sample that measured the network. The hash that the client names has to be that of the memory."""
    here = place()
    one = Stranger(here.server, "tcp")
    chunk, other = random.randbytes(3 * MIB // 2), random.randbytes(3 * MIB // 2)
    assert one.ask("ck_upload_part", one.memory + u64(0) + opaque(chunk))[0] == 0
    assert one.keep(b"", bytes(32), size=len(chunk)) == 0
    assert one.keep(b"", name_of(other), size=len(chunk)) == 0
    assert one.missing(chunk) == (0, False) and one.missing(other) == (0, True)
    assert one.content(len(chunk)) == chunk
    assert one.keep(b"", bytes(32), size=4 * MIB) == INVALID_VALUE
    assert one.keep(b"", bytes(32), blocks=bytes(12), size=len(chunk)) == INVALID_VALUE
    one.end()


def test_wrong_messages_are_refused(place):
    here = place()
    one = Stranger(here.server, "tcp")
    chunk = random.randbytes(3 * MIB // 2)
    assert one.keep(chunk) == 0
    assert one.missing(chunk, offset=4 * MIB - 10)[0] == INVALID_VALUE     # beyond the memory
    assert one.missing(chunk, offset=2 ** 64 - 10)[0] == INVALID_VALUE
    assert one.missing(chunk, size=0)[0] == INVALID_VALUE
    assert one.missing(chunk, size=2 * MIB + 1)[0] == INVALID_VALUE
    assert one.missing(chunk, size=10, whole=len(chunk), begin=len(chunk) - 9)[0] == INVALID_VALUE
    assert one.missing(chunk, size=10, whole=len(chunk), begin=2 ** 64 - 5)[0] == INVALID_VALUE
    assert one.missing(chunk, size=10, whole=len(chunk), begin=len(chunk) - 10) == (0, False)
    assert one.content(10) == chunk[-10:]
    assert one.keep(chunk[:5], bytes(32)) == 0 and one.missing(chunk[:5]) == (0, False)     # the server finds the hash
    for offer in b"", b"x", bytes(63), bytes(65), bytes(64 * 65):
        assert one.ask("ck_upload_stored", one.memory + u64(0) + opaque(offer))[0] == INVALID_VALUE
    for size in 0, 1, len(chunk) + 1, 2 ** 63:
        assert one.keep(chunk, size=size) == INVALID_VALUE
    for blocks in b"x", struct.pack("<I", 5), struct.pack("<3I", 0, 0, len(chunk)), struct.pack("<3I", *[2 ** 31] * 3):
        assert one.keep(chunk, blocks=blocks) == INVALID_VALUE
    assert one.keep(bytes(100), blocks=struct.pack("<I", 100)) == 0
    assert one.keep(bytes(100), size=200, blocks=struct.pack("<I", 100)) == INVALID_VALUE     # not compressed data
    assert one.missing(chunk) == (0, False)
    assert one.content(len(chunk)) == chunk
    one.end()


def cricket(here, *words):
    """`cricket WORD...`, as the user of the place."""
    result = run([str(PRODUCTS / "cricket"), *map(str, words)], here.env(CRICKET_STATS="0"))
    return result.status, result.out, result.err


def test_put_leaves_only_names_for_the_first_start(place):
    here = place()
    size, address = here.file.stat().st_size, here.server.address("tcp")
    put = cricket(here, "put", address, here.file)
    assert put == (0, f"{here.file}: {size} bytes, of which stored already: 0\n", "")
    assert here.stored() == size
    assert here.upload() < size / 50
    assert cricket(here, "put", address, here.file)[1].endswith(f"stored already: {size}\n")
    here.write(size, seed=2)
    assert cricket(here, "put", address, here.file)[1].endswith("stored already: 0\n")
    assert here.upload() < size / 50


def test_put_reports_what_it_cannot_store(place):
    here = place("--store-size", "16M")
    address = here.server.address("tcp")
    status, out, err = cricket(here, "put", address, here.file, here.folder / "none", here.folder)
    assert status == 1 and out == "" and not here.chunks()
    assert "larger than your store" in err and "No such file" in err and "not a regular file" in err
    here.write(100)     # with a program's other small uploads
    assert cricket(here, "put", address, here.file) == (0, f"{here.file}: 100 bytes, too small to be stored\n", "")
    assert not here.chunks()
    assert cricket(here, "put", address)[0] == 2


def test_put_says_that_the_server_keeps_nothing(place):
    here = place("--store-size", "0")
    status, _, err = cricket(here, "put", here.server.address("tcp"), here.file)
    assert status == 1 and "--store-size" in err


def test_the_store_is_listed_and_emptied_by_its_owner_only(place):
    here = place()
    address = here.server.address("tcp")
    secret = random.randbytes(100000)
    other = Stranger(here.server, "unix")
    assert other.keep(secret) == 0
    assert " 0 B in 0 chunks, of at most 32.0 GiB" in cricket(here, "store", "-s", address)[1]
    here.upload()
    count = len(here.chunks()) - 1
    assert f" in {count} chunks, of at most " in cricket(here, "store", "-s", address, "list")[1]
    assert cricket(here, "store", "-s", address, "empty") == (0, "", "")
    assert [p.stat().st_size for p in here.chunks()] == [len(secret)] and other.missing(secret) == (0, False)
    assert cricket(here, "store", "-s", address, "all")[0] == 2
    assert here.upload() >= here.file.stat().st_size
    other.end()


def test_wrong_messages_about_the_store_are_refused(place):
    here = place()
    one = Stranger(here.server, "tcp")
    chunk = random.randbytes(3 * MIB // 2)

    def keep(name, size, data):
        return one.ask("ck_store_keep", name + u64(size) + opaque(data))[0]

    for hashes in b"", b"x", bytes(31), bytes(33), bytes(32 * 65):
        assert one.ask("ck_store_find", opaque(hashes))[0] == INVALID_VALUE
    assert keep(name_of(b"other"), len(chunk), chunk) == INVALID_VALUE
    for size in 0, 1, len(chunk) + 1, 2 * MIB + 1, 2 ** 63:
        assert keep(name_of(chunk), size, chunk) == INVALID_VALUE
    assert keep(name_of(chunk * 2), len(chunk * 2), chunk * 2) == INVALID_VALUE     # too long for a chunk
    assert not here.chunks()
    assert keep(name_of(chunk), len(chunk), chunk) == 0
    err, found = one.ask("ck_store_find", opaque(name_of(chunk) + name_of(b"other")))
    assert err == 0 and found[4:6] == b"\0\1"
    assert one.missing(chunk) == (0, False) and one.content(len(chunk)) == chunk
    one.end()
