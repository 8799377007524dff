"""tests/e2e/test_apps.py - every test program prints the same in every mode.

expected/NAME.txt is what the program prints on a real GPU with the real driver.
"""
import importlib.util
import re
import sys

import pytest

from conftest import DRIVER, EXPECTED, KIND, ROOT, TRANSPORTS, client_env, run

NAMES = sorted(p.stem for p in EXPECTED.glob("*.txt"))
SUFFIXES = {"arrays": ("",), "bystanders": ("",), "driver_ptx": ("", "_linked"), "two_contexts": ("",), "graph_threads": ("",),
            "rdc": ("", "_shared", "_ptx")}
BUILDS = [(name, name + suffix) for name in NAMES
          for suffix in SUFFIXES.get(name, ("", "_shared"))]
# The sanitizers take the C library's read, write and sigaction for themselves, so that the shim
# leaves them alone (client/managed/interpose.c): these programs need it to have them.
ASSERTION = r"^\S*assertion.cu:\d+: .*check_range.*: block: \[0,0,0\], thread: \[3,0,0\] Assertion `.*` failed\.$"
INTERPOSED = {"managed_calls", "managed_during", "managed_hints", "managed_io", "managed_parts", "managed_signals"}
# What these do needs several threads, of their own or of the client.
THREADS = {"async_copies", "bystanders", "graph_host_memory", "graph_modes", "graph_threads", "graphs", "host_functions", "last_words", "managed_attach", "managed_copies", "managed_cost", "managed_during", "managed_hints", "managed_io",
           "managed_parts", "managed_large", "managed_module", "managed_signals", "managed_var", "per_thread", "polls",
           "stream_values", "streams_events", "threads_order"}
# One of each kind, for make check-quick.
QUICK = {"driver_ptx", "graphs", "matmul", "streams_events"}
# Its memory is not shared with a worker under a sanitizer: it has no device address there.
SHARED = {"registered"}
# Over the network a copy from pinned memory waits for what holds it up, and registered memory has
# no device address.
SAME_HOST = {"late_sources", "registered"}


def runs():
    """Each build over sockets and over shared memory; with sanitizers, which are slow, over one of
    the two. The unix socket, which moves its bytes as tcp does, is left to the tests below."""
    for name, build in BUILDS:
        skip = [pytest.mark.skip(reason="needs functions that the sanitizer has taken")] \
            if KIND and name in INTERPOSED | SHARED else []
        for transport in ("tcp", "shm"):
            threads = name in THREADS or (name, transport) == ("staged_copies", "shm")
            if name in SAME_HOST and transport == "tcp":
                continue
            if not KIND or (transport == "tcp") == (build == name):
                yield pytest.param(name, build, transport, id=f"{build}-{transport}",
                                   marks=skip + [pytest.mark.threads] * threads + [pytest.mark.quick] * (name in QUICK))


@pytest.mark.parametrize("name, build, transport", runs())
def test_program_prints_what_it_prints_on_a_real_gpu(run_app, name, build, transport):
    result = run_app(build, transport)
    assert result.out == (EXPECTED / f"{name}.txt").read_text(), result.err
    assert result.status == 0, result.err
    if name == "assertion":
        # With sanitizers the worker's stderr is theirs: the line is in the server's log.
        assert KIND or re.search(ASSERTION, result.err)
    elif name == "fault":
        assert KIND or re.fullmatch(r"cricket: cuCtxSynchronize reports CUDA_ERROR_ILLEGAL_ADDRESS: .* Cause: kernel .*wild.*\n", result.err)
    else:  # nothing else has a reason to write there
        assert result.err == ""


@pytest.mark.parametrize("transport", ("direct", *TRANSPORTS))
def test_a_capture_takes_a_fill_of_memory_that_does_not_exist(run_app, transport):
    """NVIDIA's driver does: cuDNN reads the node of such a capture, and ONNX Runtime's convolutions fail without it."""
    result = run_app("capture_nowhere", transport)
    assert (result.status, result.out) == (0, "a fill of 4096 bytes nowhere was captured\n"), result.err


@pytest.mark.parametrize("transport", ("direct", *TRANSPORTS))
def test_a_graph_is_not_destroyed_while_a_stream_is_captured_into_it(server, app, direct_env, transport):
    env = direct_env if transport == "direct" else client_env(server.address(transport))
    result = run([app("graph_threads"), "early"], env)
    assert (result.status, result.out) == (0, "destroyed early: error 1, 0 wrong\n"), result.err


@pytest.mark.threads
def test_a_copy_of_what_two_copies_of_its_graph_have_written_is_refused(server, app):
    """Over sockets: a mirror is the memory of one copy."""
    result = run([app("graph_host_memory"), "pieces"], client_env(server.address("tcp")))
    assert (result.status, result.out) == (0, "two pieces: cudaErrorNotSupported\n"), result.err
    assert len(result.lines_about("a copy in a graph from host memory")) == 1, result.err


@pytest.mark.threads
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_graph_reads_pageable_memory_at_its_launch(server, app, transport):
    """Not after its functions: NVIDIA's driver does so. The emulated GPU alone reads it when the copy runs."""
    result = run([app("graph_host_memory"), "functions"], client_env(server.address(transport)))
    assert (result.status, result.out) == (0, "host memory within a graph: read at the launch\n"), result.err


@pytest.mark.skipif(DRIVER != "emu", reason="a GPU runs it")
def test_a_program_without_ptx_is_told_what_is_missing(run_app):
    result = run_app("first_kernel_machine", "unix")
    assert result.status != 0
    assert len(result.lines_about("a module of this program has none")) == 1, result.err
    assert "code=compute_90" in result.err


UNSUPPORTED = """
import ctypes
cuda, context, module, f, p = ctypes.CDLL("libcuda.so.1"), *(ctypes.c_void_p() for _ in range(4))
value, threads = ctypes.c_uint(), ctypes.c_int()
ptx = b'''.version 8.0
.target sm_90a
.address_size 64
.visible .entry never() { wgmma.fence.sync.aligned; ret; }
.visible .entry fine(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a], 42; ret; }
'''
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4)) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), ptx) == 0
def launch(name):
    assert cuda.cuModuleGetFunction(ctypes.byref(f), module, name) == 0
    assert cuda.cuFuncGetAttribute(ctypes.byref(threads), 0, f) == 0 and threads.value == 1024
    params = (ctypes.c_void_p * 1)(ctypes.addressof(p))
    return cuda.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, params, None) or cuda.cuCtxSynchronize()
print(launch(b"fine"), cuda.cuMemcpyDtoH_v2(ctypes.byref(value), p, ctypes.c_size_t(4)), value.value)
print(launch(b"never"))
"""


@pytest.mark.skipif(DRIVER != "emu", reason="a GPU runs it")
def test_an_unsupported_instruction_spoils_only_its_kernel(own_server):
    result = run([sys.executable, "-c", UNSUPPORTED], client_env(own_server.address("unix")))
    assert result.out == "0 0 42\n801\n", result.err
    assert "launch of never: line 4: instruction 'wgmma.fence.sync.aligned' is not supported" \
        in own_server.log()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_handles_that_are_none_are_refused(run_app, transport):
    result = run_app("bad_handles", transport)
    assert result.status == 0, result.out + result.err
    assert result.out.endswith("0 not as promised\n")


def test_the_smallest_program_is_found_beside_its_source(app):
    app("cuda_memset_async")
    assert (ROOT / "tests" / "test_apps" / "cuda_memset_async").exists()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_large_copies_go_over_several_connections(run_app, transport):
    result = run_app("copies", transport, CRICKET_CONNECTIONS="4", CRICKET_STATS="1")
    assert result.status == 0, result.err
    assert "ck_upload_part" in result.err


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_order_of_threads_holds_every_time(run_app, transport):
    for _ in range(5):
        result = run_app("threads_order", transport)
        assert result.status == 0, result.err


def test_one_program_after_another_leaves_no_worker(server, run_app):
    for _ in range(5):
        assert run_app("vector_add", "unix").status == 0
    server.wait_idle()


@pytest.mark.skipif(DRIVER != "cuda", reason="PyTorch's kernels are machine code: needs a real GPU")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_pytorch_learns_the_same(server, transport):
    command = [sys.executable, ROOT / "tests" / "test_apps" / "pytorch_minimal.py"]
    native = run(command, client_env(None, LD_PRELOAD=""), timeout=120)
    remote = run(command, client_env(server.address(transport)), timeout=120)
    assert remote.status == 0, remote.err
    assert native.status != 0 or remote.out == native.out
