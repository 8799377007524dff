"""tests/e2e/test_criu.py - what checkpoints take for granted of CRIU: here, and with processes that look like a worker."""
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from conftest import HANG, is_alive, wait_until
from criu import criu

# A sparse file in memory at a fixed address, address ranges without memory, a second thread.
PROGRAM = textwrap.dedent("""
    import ctypes, os, sys, threading, time
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    TIB, NONE, RW, SHARED, PRIVATE, LAZY = 1 << 40, 0, 3, 1, 0x22, 0x104000
    def map_at(address, protection, flags, file):
        got = libc.mmap(address, TIB, protection, flags | LAZY, file, 0)
        assert got == address, os.strerror(ctypes.get_errno())
    for i in range(5):
        map_at(0x200000000000 + i * TIB, NONE, PRIVATE, -1)
    file = os.memfd_create("memory")
    os.ftruncate(file, TIB)
    map_at(0x300000000000, RW, SHARED, file)
    cells = [ctypes.c_uint64.from_address(0x300000000000 + i * (TIB // 64)) for i in range(64)]
    for i, cell in enumerate(cells):
        cell.value = i
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    while True:
        for cell in cells:
            cell.value += 1
        sums = {cell.value - i for i, cell in enumerate(cells)}
        assert len(sums) == 1
        with open(sys.argv[1] + ".new", "w") as out:
            out.write(str(sums.pop()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(0.01)
    """)


@pytest.fixture(name="counter")
def counter_of_a_process(tmp_path):
    """A process with much address space and little memory, and a function that reads its counter."""
    count = tmp_path / "count"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, count], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_until(count.exists, 20, "the process counts")
        yield process, lambda: int(count.read_text())
    finally:
        process.kill()
        process.wait()


def call(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    log = pathlib.Path(arguments[-1])
    assert done.returncode == 0, log.read_text()[-3000:] if log.exists() else done.stderr


def test_a_process_with_sparse_memory_continues_where_it_was(counter, tmp_path):
    program = criu()
    process, count = counter
    images = tmp_path / "images"
    images.mkdir()
    call(program, "dump", "--tree", process.pid, "--images-dir", images, "-v3", "--log-file", images / "dump.log")
    process.wait(HANG)
    before = count()
    # five tebibytes of addresses and one of a sparse file: only what was written takes room
    assert sum(f.stat().st_size for f in images.iterdir()) < 256 << 20
    call(program, "restore", "--restore-detached", "--images-dir", images, "-v3", "--log-file", images / "restore.log")
    try:
        assert is_alive(process.pid)
        wait_until(lambda: count() > before + 5, 20, "the restored process counts on")
    finally:
        os.kill(process.pid, signal.SIGKILL)
