"""tests/e2e/test_held_weights.py - kept uploads that the server has in memory: one-way copies, without a wait for each tensor."""
import pathlib
import random
import subprocess
import sys
import time

import pytest

from conftest import ended, run
from stranger import name_of, opaque, u32, u64
from test_compress import messages
from test_control import Asker
from test_suspend import begun, program
from test_weights import INVALID_VALUE, MIB, Place, Stranger, place, sent_by  # noqa: F401

# Upload the first bytes of a file, a tensor of 4 MiB and a few bytes after the other, each followed by a wait, as PyTorch does; compare.
TENSORS = """
import ctypes, mmap, sys
cuda = ctypes.CDLL(None)
context, dptr = ctypes.c_void_p(), ctypes.c_uint64()
path, size = sys.argv[1], int(sys.argv[2])
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(dptr), ctypes.c_size_t(size)) == 0
with open(path, "rb") as file:
    mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=3)
source = (ctypes.c_char * size).from_buffer(mapping)
tensor = (4 << 20) + 12288
for at in range(0, size, tensor):
    n = min(tensor, size - at)
    host, device = ctypes.c_void_p(ctypes.addressof(source) + at), ctypes.c_uint64(dptr.value + at)
    assert cuda.cuMemcpyHtoDAsync_v2(device, host, ctypes.c_size_t(n), None) == 0
    assert cuda.cuStreamSynchronize(None) == 0
back = ctypes.create_string_buffer(size)
assert cuda.cuMemcpyDtoH_v2(back, dptr, ctypes.c_size_t(size)) == 0
print(ctypes.string_at(source, size) == back.raw)
"""
# It waits for a line after the second tensor.
PAUSED = TENSORS.replace("for at in range", "done = 0\nfor at in range").replace(
    "    n = min", "    done += 1\n    if done == 3:\n        print('ready', flush=True)\n        sys.stdin.readline()\n    n = min")
SIZE = 5 * (4 * MIB + 12288)
LOCAL = {"ext2/ext3", "xfs", "btrfs", "f2fs", "bcachefs", "zfs"}     # where a file's times can be relied on


@pytest.fixture(scope="module")
def old_file():
    """A file of the system that has not changed for a minute: of such a one, the client need not look at the bytes."""
    for file in sorted(filter(pathlib.Path.is_file, pathlib.Path("/usr/lib").glob("*-linux-gnu/*.so*")), key=lambda f: -f.stat().st_size) + [pathlib.Path(sys.executable)]:
        kind = subprocess.run(["stat", "-f", "-c", "%T", file], capture_output=True, text=True, check=True).stdout.strip()
        state = file.stat()
        if state.st_size >= SIZE and time.time() - max(state.st_ctime, state.st_mtime) > 120 and kind in LOCAL:
            return file.resolve()
    pytest.skip("no large file that is old")
    return None


def load(here, file, **env):
    """The messages of one start. The server writes the last chunks after the program's end."""
    result = run([sys.executable, "-c", TENSORS, str(file), str(SIZE)], here.env(**env))
    assert (result.status, result.out) == (0, "True\n"), result.err
    here.server.wait_idle()
    return result.err


def in_the_middle(here, file):
    """A start that has uploaded two tensors of five."""
    return begun(program(here.server, PAUSED, file, SIZE, XDG_CACHE_HOME=here.home, CRICKET_STATS="1", CRICKET_WEIGHTS="on"))


def go_on(one):
    one.stdin.write("\n")
    one.stdin.flush()
    result = ended(one, 60)
    assert (result.status, result.out) == (0, "True\n"), result.err
    return result.err


def test_a_session_that_was_suspended_goes_on(place, old_file):  # noqa: F811
    """What was read ahead goes, what was promised comes."""
    here = place()
    load(here, old_file)
    one = in_the_middle(here, old_file)
    asker = Asker(here.server)
    name = asker.ask("sessions")["sessions"][0]["session"]
    reply = asker.ask("suspend", session=name, until="use")
    assert reply["ok"], reply
    assert sent_by(go_on(one)) < SIZE / 50


def lists(here):
    """What the server will read ahead: the hashes in each file."""
    return [len(file.read_bytes()) // 32 for file in here.cache.glob("store/*/starts/*")]


@pytest.mark.threads
@pytest.mark.parametrize("age", ["old", "new"])
def test_tensors_that_the_server_holds_need_no_wait(place, old_file, age):  # noqa: F811
    """Of a new file, the client hashes the bytes."""
    here = place()
    if age == "new":
        here.write(SIZE)
        old_file = here.file
    assert sent_by(load(here, old_file)) >= SIZE
    chunks = len(here.chunks())
    assert lists(here) == [chunks]
    for _ in range(2):
        err = load(here, old_file)
        said = messages(err)
        assert sent_by(err) < SIZE / 50, err
        assert said["ck_upload_held"][0] == 5 and "ck_upload_stored" not in said, err
        assert lists(here) == [chunks]


def test_put_is_enough_to_hold(place, old_file):  # noqa: F811
    """The first start has no list of an earlier one: the file's next chunks follow."""
    here = place()
    from test_weights import cricket
    assert cricket(here, "put", here.server.address("tcp"), old_file)[0] == 0
    err = load(here, old_file)
    assert sent_by(err) < SIZE / 50 and "ck_upload_stored" not in messages(err), err


def test_what_is_damaged_is_not_held(place, old_file):  # noqa: F811
    here = place()
    load(here, old_file)
    flipped, gone = here.chunks()[1:3]
    content = bytearray(flipped.read_bytes())
    content[0] ^= 1
    flipped.write_bytes(content)
    gone.unlink()
    assert sent_by(load(here, old_file)) > 0
    assert "does not have the content of its name" in here.server.log()
    assert sent_by(load(here, old_file)) < SIZE / 50


def test_a_promise_without_its_chunk_is_an_error(place):  # noqa: F811
    """Nothing of it may pass for a copy; a hash gives nothing that another identity has sent."""
    here = place()
    secret, own = random.randbytes(100000), random.randbytes(4096)
    owner, other = Stranger(here.server, "unix"), Stranger(here.server, "tcp")

    def hold(session, *chunks, needed=None):
        hashes = b"".join(map(name_of, chunks))
        return session.ask("ck_store_hold", u32(len(chunks) if needed is None else needed) + opaque(hashes))

    def upload(session, chunk, parts=None):
        part = bytes(8) + len(chunk).to_bytes(8, "little") + name_of(chunk) + len(chunk).to_bytes(8, "little") + bytes(8)
        session.send("ck_upload_held", session.memory + u64(0) + opaque(part if parts is None else parts))
        return session.ask("ck_download", session.memory + u64(0) + u64(64) + u32(0))

    assert owner.keep(secret) == 0 and other.keep(own) == 0
    assert hold(other, secret, own) == (0, u32(40) + name_of(own) + len(own).to_bytes(8, "little"))
    before = other.content(64)
    assert upload(other, secret)[0] != 0
    assert other.content(64) == before
    assert upload(other, own) == (0, u32(64) + own[:64] + u32(0))
    assert upload(owner, secret) == (0, u32(64) + secret[:64] + u32(0))     # without a promise: read now
    for parts in b"", b"x", bytes(63), bytes(64 * 65):
        assert upload(other, own, parts)[0] == INVALID_VALUE
    assert hold(other, own, needed=2)[0] == INVALID_VALUE
    for hashes in b"", b"x", bytes(31), bytes(32 * 1025):
        assert other.ask("ck_store_hold", u32(0) + opaque(hashes))[0] == INVALID_VALUE
    owner.end()
    other.end()
