"""tests/e2e/test_managed.py - managed and mapped memory where something goes wrong, and what they
cost; that they work is in test_apps.py (managed_*, zero_copy)."""
import os
import re
import signal
import subprocess
import sys

import pytest

from conftest import EXPECTED, KIND, PRODUCTS, TRANSPORTS, client_env, ended, run, start


@pytest.mark.skipif(KIND != "", reason="the sanitizer has taken sigaction")
@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_fault_of_the_programs_own_ends_it_with_its_signal(server, app, transport):
    result = run([app("managed_signals"), "crash"], client_env(server.address(transport)))
    assert result.status == 128 + signal.SIGSEGV, (result.out, result.err)
    assert result.out.startswith("set before: called 1 times\n")


def lost(server, transport, *command, **env):
    """How a program ends that touches its managed memory when its server is gone; one line says so."""
    client = start(command, client_env(server.address(transport), **env))
    assert client.stdout.readline() == "ready\n", client.stderr.read()
    os.kill(server.workers()[0], signal.SIGKILL)
    result = ended(client, 10)
    assert len(result.lines_about("managed memory cannot be accessed (the server is lost)")) == 1, result.err
    return result


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_touch_of_a_page_of_a_lost_server_raises_sigbus(app, own_server, transport):
    result = lost(own_server, transport, app("managed_lost"))
    assert (result.status, result.out) == (128 + signal.SIGBUS, "")


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_pages_of_a_lost_server_read_as_zeros_if_the_user_wants_that(app, own_server, transport):
    result = lost(own_server, transport, app("managed_lost"), CRICKET_LOST="zeros")
    assert (result.status, result.out) == (3, "sum 0, written 5\n")


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_programs_handler_of_sigbus_learns_which_address_is_lost(app, own_server, transport):
    result = lost(own_server, transport, app("managed_lost"), "handler")
    assert (result.status, result.out) == (3, "read 123456: SIGBUS at 123456, BUS_ADRERR 1\n"
                                              "write 123457: SIGBUS at 123457, BUS_ADRERR 1\n"
                                              "write 3: SIGBUS at 3, BUS_ADRERR 1\n")


@pytest.mark.skipif(bool(KIND), reason="the sanitizer's own read and write come before the client's")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_system_calls_refuse_pages_of_a_lost_server(app, own_server, transport):
    result = lost(own_server, transport, app("managed_lost"), "calls")
    assert (result.status, result.out) == (3, "write: -1, EFAULT 1\nread: -1, EFAULT 1\n")


def by_name(address, **more):
    """The environment of a program whose CUDA runtime opens the client, long after the C library."""
    return client_env(address, LD_PRELOAD="", LD_LIBRARY_PATH=str(PRODUCTS / "lib"), **more)


@pytest.mark.skipif(bool(KIND), reason="the sanitizer's own read and write come before the client's")
@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("program", ["managed_calls", "managed_calls_shared", "managed_during", "managed_hints", "managed_io", "managed_signals"])
def test_system_calls_take_managed_memory_of_a_client_that_is_opened_late(server, app, program, transport):
    result = run([app(program)], by_name(server.address(transport)))
    assert result.out == (EXPECTED / f"{program.removesuffix('_shared')}.txt").read_text(), result.err
    assert (result.status, result.err) == (0, "")


LATE = """
import ctypes, os, sys
cuda, context, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAllocManaged(ctypes.byref(p), ctypes.c_size_t(8192), 1) == 0
bytes_of = (ctypes.c_char * 8192).from_address(p.value)
def fill():
    assert cuda.cuMemsetD8_v2(p, ctypes.c_ubyte(ord("x")), ctypes.c_size_t(8192)) == 0
fill()
ends = os.pipe()
print(os.write(ends[1], bytes_of), os.read(ends[0], 8192) == b"x" * 8192)
own = ctypes.CDLL(sys.argv[1])  # it is not bound to the client either
fill()
assert cuda.cuCtxSynchronize() == 0
print(own.send_all(ends[1], p, ctypes.c_size_t(8192)), os.read(ends[0], 8192) == b"x" * 8192)
"""
OWN = """
#include <sys/uio.h>
#include <unistd.h>
static ssize_t (*const by_table)(int, const struct iovec *, int) = writev;
long send_all(int fd, void *p, size_t size)
{
	struct iovec iov[] = {{p, size / 2}, {(char *)p + size / 2, size / 2}};
	return by_table(fd, iov, 2);
}
"""


@pytest.mark.skipif(bool(KIND), reason="the sanitizer's own read and write come before the client's")
@pytest.mark.parametrize("flags", ["-Wl,-z,now,-z,relro", "-Wl,-z,lazy"])
def test_libraries_that_are_loaded_after_the_client_reach_it(server, tmp_path, flags):
    (tmp_path / "own.c").write_text(OWN)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", flags, "-o", tmp_path / "own.so", tmp_path / "own.c"], check=True, timeout=60)
    result = run([sys.executable, "-c", LATE, tmp_path / "own.so"], by_name(server.address("tcp")))
    assert result.out == "8192 True\n8192 True\n", result.err
    assert (result.status, result.err) == (0, "")


TAKES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
ssize_t read(int fd, void *p, size_t size) { return ((ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read"))(fd, p, size); }
"""


@pytest.mark.skipif(bool(KIND), reason="the sanitizer's own read and write come before the client's")
def test_a_library_that_takes_the_calls_is_told(server, app, tmp_path):
    (tmp_path / "takes.c").write_text(TAKES)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "takes.so", tmp_path / "takes.c"], check=True, timeout=60)
    env = by_name(server.address("tcp"))
    result = run([app("managed_intro")], dict(env, LD_PRELOAD=str(tmp_path / "takes.so")))
    assert result.status == 0, result.err
    line, = result.err.splitlines()
    assert "system calls may refuse managed memory" in line


def pages(result):
    """Pages sent and fetched, as CRICKET_STATS tells them."""
    line, = result.lines_about("cricket: managed memory")
    return [int(n) for n in re.findall(r"(\d+) (?:pages|fetched)", line)]


def test_only_changed_pages_are_sent(server, app):
    result = run([app("managed_intro")], client_env(server.address("unix"), CRICKET_STATS="1"))
    assert result.status == 0, result.err
    # two arrays of 1024 pages, and one page that is changed later; the results, whole, and a few
    assert pages(result)[0] == 2049
    assert pages(result)[1] <= 2048 + 64


@pytest.mark.threads
def test_pinned_memory_that_no_kernel_uses_is_not_mapped(server, app):
    result = run([app("copies")], client_env(server.address("unix"), CRICKET_STATS="1"))
    assert result.status == 0, result.err
    assert not result.lines_about("ck_map")
