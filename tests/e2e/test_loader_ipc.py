"""tests/e2e/test_loader_ipc.py - below kernel-loader: structures passed by value, and CUDA's handles between processes.

The generator of the CUDA half lists the functions that take a structure by value; each of them is called here.
"""
import json
import shutil
import subprocess

import pytest

from conftest import HANG, ROOT, SAN, TSAN, Server, clean_env, listens, run, wait_until
from test_loader_cuda import BUILT, LOADER, MPI, UNDER, local_driver, needs

pytestmark = pytest.mark.skipif(SAN or TSAN, reason="the loader runs without a libc, so without a sanitizer")

CHUNKED_TEST = ROOT / "wcm" / "examples" / "bin" / "chunked_test"

# Each program has "cu", "check", a context, and memory of 4096 bytes that each call finds as it should be.
START = """
import ctypes, json, sys
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_uint64, c_void_p
cu = ctypes.CDLL("libcuda.so.1")
class Handle(ctypes.Structure):
    _fields_ = [("reserved", c_char * 64)]
class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]
def check(status):
    if status: raise SystemExit(f"status {status}")
context, memory, word = c_void_p(), c_uint64(), c_uint()
check(cu.cuInit(0))
check(cu.cuDevicePrimaryCtxRetain(byref(context), 0))
check(cu.cuCtxSetCurrent(context))
def say_word(address):
    check(cu.cuMemcpyDtoH_v2(byref(word), c_uint64(address.value), c_size_t(4)))
    print(f"{word.value:#x}", flush=True)
"""
MAKE = START + """
def text(handle):
    return bytes(handle).hex()
of_memory, of_event, event = Handle(), Handle(), c_void_p()
check(cu.cuMemAlloc_v2(byref(memory), c_size_t(4096)))
check(cu.cuMemsetD8_v2(memory, c_int(0x42), c_size_t(4096)))
check(cu.cuEventCreate(byref(event), 2 | 4))
check(cu.cuEventRecord(event, None))
check(cu.cuCtxSynchronize())
check(cu.cuIpcGetMemHandle(byref(of_memory), memory))
check(cu.cuIpcGetEventHandle(byref(of_event), event))
print(json.dumps({"memory": text(of_memory), "event": text(of_event)}), flush=True)
sys.stdin.read()
"""
OPEN = START + "handles = {n: Handle.from_buffer_copy(bytes.fromhex(h)) for n, h in json.loads(sys.argv[1]).items()}\n"
MANAGED = START + """
check(cu.cuMemAllocManaged(byref(memory), c_size_t(4096), 1))
check(cu.cuMemsetD8_v2(memory, c_int(0x42), c_size_t(4096)))
here = Location(1, 0)
nowhere = Location(77, 0)
"""
OPEN_MEMORY = OPEN + "check(cu.NAME(byref(memory), handles['memory'], c_uint(1)))\nsay_word(memory)\n" \
    "check(cu.cuIpcCloseMemHandle(memory))\n"
ADVISE = MANAGED + "check(cu.NAME(memory, c_size_t(4096), 3, here))\nsay_word(memory)\n" \
    "print(cu.NAME(memory, c_size_t(4096), 3, nowhere))"
PREFETCH = MANAGED + "check(cu.NAME(memory, c_size_t(4096), here, c_uint(0), None))\nsay_word(memory)\n" \
    "print(cu.NAME(memory, c_size_t(4096), nowhere, c_uint(0), None))"
CALLERS = {
    "cuIpcOpenMemHandle": OPEN_MEMORY,
    "cuIpcOpenMemHandle_v2": OPEN_MEMORY,
    "cuIpcOpenEventHandle": OPEN + "event = c_void_p()\ncheck(cu.NAME(byref(event), handles['event']))\n"
                                   "check(cu.cuEventSynchronize(event))\nprint('0x42424242')\n",
    "cuMemAdvise_v2": ADVISE,
    "cuMemPrefetchAsync_v2": PREFETCH,
    "cuMemPrefetchAsync_v2_ptsz": PREFETCH,
}
PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("loader-ipc"), CRICKET_EMU="devices=4,memory=64M")
    wait_until(lambda: listens(f"{server.unix}.m3"), 10, "its socket for sharing is there")
    yield server
    server.kill()


@pytest.fixture(scope="module", name="handles")
def fixture_handles(server):
    """Handles of memory and of an event, of a process that lives as long as the tests."""
    with subprocess.Popen([*UNDER, "--", PYTHON, "-c", MAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, env=clean_env(REMOTE_GPU_ADDRESS=server.address("unix"))) as maker:
        line = maker.stdout.readline()
        assert set(json.loads(line)) == {"memory", "event"}
        yield line
        maker.stdin.close()
        assert maker.wait(HANG) == 0


def test_each_function_that_takes_a_structure_by_value_has_a_caller_here():
    listed = (ROOT / "loader" / "build" / "cuda" / "by_value.txt").read_text(encoding="utf-8").split()
    assert set(listed) == set(CALLERS)


@pytest.mark.parametrize("name", CALLERS)
def test_a_structure_passed_by_value_arrives(server, handles, name):
    """It prints what the program prints without the loader."""
    env = clean_env(REMOTE_GPU_ADDRESS=server.address("unix"))
    command = [PYTHON, "-c", CALLERS[name].replace("NAME", name), handles]
    native = run(command, {**env, "LD_PRELOAD": str(ROOT / "cpu" / "cricket-client.so")})
    result = run([*UNDER, "--", *command], env)
    assert result.out.startswith("0x42424242\n"), result.err
    assert (result.status, result.out, result.err) == (native.status, native.out, native.err)


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no Open MPI")
@pytest.mark.parametrize("driver", ["client", "local"])
def test_ranks_pass_handles_of_memory_and_of_events_by_mpi(server, tmp_path, driver):
    needs(BUILT / "mpiipc")
    halves = UNDER[1:] if driver == "client" else ["--lh", "cuda=local"]
    env = local_driver(tmp_path)
    if driver == "client":
        env.update(REMOTE_GPU_ADDRESS=server.address("unix"), LD_LIBRARY_PATH="")
    result = run(["mpirun", "--oversubscribe", "-np", "2", LOADER, *MPI, *halves, "--", BUILT / "mpiipc"], env, 120)
    assert (result.status, result.out) == (0, "mpiipc: 2 ranks: 0 wrong\n"), result.err


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no Open MPI")
def test_chunked_memory_takes_cudas_handles_below_the_loader(server):
    """Left to itself it chooses them, as it does without the loader, and reports nothing."""
    needs(CHUNKED_TEST)
    env = clean_env(REMOTE_GPU_ADDRESS=server.address("unix"), LD_LIBRARY_PATH=str(ROOT / "cpu"),
                    OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    result = run(["mpirun", "--oversubscribe", "-np", "2", *UNDER, "--", CHUNKED_TEST], env, 120)
    assert (result.status, result.out, result.err) == (0, "chunked_test: 2 ranks, ipc: 0 wrong\n", "")
