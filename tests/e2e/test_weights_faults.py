"""tests/e2e/test_weights_faults.py - kept uploads at bad times: files that change without a trace, full disks, programs that are killed."""
import contextlib
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import DRIVER, NETWORK_CLIENT, PRODUCTS, ended, over, run, start, wait_until
from stranger import name_of
from test_held_weights import SIZE, go_on, in_the_middle, lists, load, old_file  # noqa: F401
from test_weights import MIB, PROGRAM, cricket, place  # noqa: F401

SLOW = "bw=100M"     # the file of a place takes two seconds


@contextlib.contextmanager
def disk(folder, options=""):
    """FOLDER is in memory."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", *(["-o", options] if options else []), "tmpfs", folder], capture_output=True).returncode != 0:
        pytest.skip("mount needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def begun(here, **env):
    return start([sys.executable, "-c", PROGRAM, str(here.file), "map"], here.env(**env))


def make_whole(here):
    """The next starts work, and complete the store; nothing of files that were half written remains."""
    size = here.file.stat().st_size
    here.server.wait_idle()
    here.upload()
    assert here.upload() < size / 50
    assert here.stored() == size
    assert all(name_of(chunk.read_bytes()).hex() == chunk.name for chunk in here.chunks())
    assert not list(here.cache.glob("store/*/tmp.*"))


def test_a_change_without_a_trace_is_sent(place, tmp_path):  # noqa: F811
    """In memory, the kernel does not note when a mapped file is written: size and all times stay."""
    with disk(tmp_path / "memory"):
        here = place()
        here.file = tmp_path / "memory" / "weights"
        here.write(12 * MIB)
        here.upload()
        before = here.file.stat()
        with open(here.file, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            mapping[5 * MIB] ^= 1
        after = here.file.stat()
        assert (before.st_ino, before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (after.st_ino, after.st_size, after.st_mtime_ns,
                                                                                         after.st_ctime_ns)
        assert 2 * MIB <= here.upload() < 3 * MIB


CLOCK = """
#include <time.h>
time_t time(time_t *to)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += 300;
	if (to)
		*to = now.tv_sec;
	return now.tv_sec;
}
"""


def test_a_page_that_waits_for_the_disk_is_written_first(place, tmp_path):  # noqa: F811
    """Until the kernel has written it, the file's time stays at each change of a mapping. It may wait for longer than the client: here, a new
    file is old at once."""
    clock = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", clock, "-xc", "-"], input=CLOCK, text=True, check=True)
    here = place()
    later = {"LD_PRELOAD": f"{here.env()['LD_PRELOAD']}:{clock}"}
    with open(here.file, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        for _ in range(3):
            mapping[5 * MIB] ^= 1
            here.upload(**later)
        assert here.upload(**later) < here.file.stat().st_size / 50


def test_another_file_of_the_same_name_size_and_time_is_sent(place):  # noqa: F811
    here = place()
    size, times = here.file.stat().st_size, here.file.stat()
    here.upload()
    here.file.rename(here.folder / "old")
    here.write(size, seed=2)
    os.utime(here.file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert here.upload() >= size


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("change", ["written", "replaced"])
def test_a_file_changes_while_it_is_loaded(place, change, known):  # noqa: F811
    """The device gets what the mapping shows: what has been written, or the file that had the name before."""
    here = place()
    here.write(SIZE)
    if known:
        load(here, here.file)
    one = in_the_middle(here, here.file)
    times = here.file.stat()
    if change == "replaced":
        here.file.rename(here.folder / "old")
        here.write(SIZE, seed=2)
    else:
        with open(here.file, "r+b") as file:
            file.seek(15 * MIB)
            file.write(b"changed!")
    os.utime(here.file, ns=(times.st_atime_ns, times.st_mtime_ns))
    go_on(one)
    here.server.wait_idle()
    load(here, here.file)
    load(here, here.file)


@pytest.mark.parametrize("damage", ["flipped", "shorter", "gone", "folder"])
def test_the_store_is_damaged_while_a_program_starts(place, old_file, damage):  # noqa: F811
    """Every chunk of it, or its folder."""
    here = place()
    load(here, old_file)
    one = in_the_middle(here, old_file)
    for chunk in here.chunks():
        content = bytearray(chunk.read_bytes())
        content[len(content) // 2] ^= 1
        chunk.unlink()
        if damage in ("flipped", "shorter"):
            chunk.write_bytes(content if damage == "flipped" else content[:len(content) // 2])
    if damage == "folder":
        shutil.rmtree(here.cache / "store")
    go_on(one)
    here.server.wait_idle()
    load(here, old_file)
    assert all(name_of(chunk.read_bytes()).hex() == chunk.name for chunk in here.chunks())


# Eight threads load the file, each into memory and a stream of its own on one of two devices; compare.
THREADS = """
import ctypes, mmap, os, sys, threading
cuda, path = ctypes.CDLL(None), sys.argv[1]
size = os.path.getsize(path)
assert cuda.cuInit(0) == 0
with open(path, "rb") as file:
    mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=3)
source, same = (ctypes.c_char * size).from_buffer(mapping), []
def load(number):
    context, stream, dptr = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    calls = [cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), number % 2), cuda.cuCtxSetCurrent(context),
             cuda.cuStreamCreate(ctypes.byref(stream), 1), cuda.cuMemAlloc_v2(ctypes.byref(dptr), ctypes.c_size_t(size)),
             cuda.cuMemcpyHtoDAsync_v2(dptr, source, ctypes.c_size_t(size), stream), cuda.cuStreamSynchronize(stream)]
    back = ctypes.create_string_buffer(size)
    calls.append(cuda.cuMemcpyDtoH_v2(back, dptr, ctypes.c_size_t(size)))
    same.append(not any(calls) and ctypes.string_at(source, size) == back.raw)
threads = [threading.Thread(target=load, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(same.count(True))
"""


@pytest.mark.threads
@pytest.mark.skipif(DRIVER != "emu", reason="the number of devices is the emulated driver's")
def test_one_file_to_two_devices_by_many_threads(place):  # noqa: F811
    here = place(CRICKET_EMU="devices=2")
    for _ in range(3):
        result = run([sys.executable, "-c", THREADS, str(here.file)], here.env())
        assert (result.status, result.out) == (0, "8\n"), result.err
        here.server.wait_idle()
    assert here.stored() == here.file.stat().st_size


def test_a_truncated_file_is_another_one(place):  # noqa: F811
    here = place()
    size = here.file.stat().st_size
    here.upload()
    os.truncate(here.file, size // 2)
    here.upload()
    os.truncate(here.file, size)    # the rest is zeros now
    here.upload()
    assert here.upload() < size / 50


@pytest.mark.parametrize("damage", ["flipped", "shorter", "longer", "empty"])
def test_a_damaged_list_of_a_start_only_costs_time(place, old_file, damage):  # noqa: F811
    here = place()
    load(here, old_file)
    [file] = here.cache.glob("store/*/starts/*")
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        for at in range(0, len(content), 32):
            content[at] ^= 1
    file.write_bytes({"flipped": content, "shorter": content[:-7], "longer": content + random.randbytes(1 << 20), "empty": b""}[damage])
    for _ in range(2):
        load(here, old_file)
    assert lists(here) == [len(here.chunks())]


def test_a_full_disk_is_no_error(place, tmp_path):  # noqa: F811
    with disk(tmp_path / "cache", "size=12m"):
        here = place()
        for _ in range(2):
            here.upload()
        assert 0 < here.stored() <= 12 * MIB
        assert all(name_of(chunk.read_bytes()).hex() == chunk.name for chunk in here.chunks())
        assert not list(here.cache.glob("store/*/tmp.*"))


def test_a_full_disk_of_the_client_is_no_error(place, tmp_path):  # noqa: F811
    """There is room for a page of the index."""
    with disk(tmp_path / "home", "size=8k"):
        here = place()
        for _ in range(2):
            here.upload()
        assert here.stored() == here.file.stat().st_size


def test_two_programs_at_once(place):  # noqa: F811
    here = place()
    size = here.file.stat().st_size
    programs = [begun(here) for _ in range(3)]
    for program in programs:
        result = ended(program, 60)
        assert result.status == 0 and result.out.startswith("True"), result.err
    here.server.wait_idle()
    assert here.stored() == size
    assert here.upload() < size / 50


def test_the_store_is_emptied_while_programs_start(place):  # noqa: F811
    here = place()
    here.upload()
    programs = [begun(here) for _ in range(2)]
    while any(program.poll() is None for program in programs):
        assert cricket(here, "store", "-s", here.server.address("tcp"), "empty") == (0, "", "")
    for program in programs:
        result = ended(program, 60)
        assert result.status == 0 and result.out.startswith("True"), result.err
    make_whole(here)


def kill_one(here, who, program):
    """The program may have come to its end just now; it never reports success over bytes that did not arrive."""
    with contextlib.suppress(ProcessLookupError, IndexError):
        os.kill(program.pid if who == "client" else here.server.workers()[0], signal.SIGKILL)
    result = ended(program, 60)
    assert result.status != 0 or result.out.startswith("True"), result.err


@pytest.mark.parametrize("chunks", [0, 1, 6, 11])
@pytest.mark.parametrize("who", ["client", "worker"])
def test_killed_in_the_middle(place, who, chunks):  # noqa: F811
    """The file has 13 chunks."""
    here = place()
    program = begun(here, **over(SLOW))
    wait_until(lambda: len(here.chunks()) >= chunks and (here.server.workers() or program.poll() is not None), 30, "some chunks are kept")
    kill_one(here, who, program)
    make_whole(here)


@pytest.mark.parametrize("who", ["client", "worker"])
def test_killed_at_a_second_start(place, who):  # noqa: F811
    here = place()
    here.upload()
    here.server.wait_idle()
    program = begun(here)
    wait_until(lambda: here.server.workers() or program.poll() is not None, 30, "the session has begun")
    kill_one(here, who, program)
    make_whole(here)


def test_put_that_is_killed_goes_on_later(place, tmp_path):  # noqa: F811
    here = place()
    address = here.server.address("tcp")
    env = here.env(CRICKET_STATS="0", **over(SLOW))
    command = shutil.copy(PRODUCTS / "cricket", tmp_path)   # it loads the client that lies beside it
    (tmp_path / "cricket-client.so").symlink_to(NETWORK_CLIENT)
    put = start([command, "put", address, here.file], env)
    wait_until(lambda: len(here.chunks()) >= 3, 30, "the first chunks are stored")
    os.kill(put.pid, signal.SIGKILL)
    assert ended(put, 60).out == ""
    here.server.wait_idle()
    status, out, err = cricket(here, "put", address, here.file)
    assert (status, err) == (0, "") and int(out.split()[-1]) >= 3 * MIB, out
    make_whole(here)
