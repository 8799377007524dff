"""tests/e2e/test_loader_cuda.py - CUDA programs whose driver library is a lower half: the client,
loaded by kernel-loader, against a server with the emulated GPU. What they print is what they print anyway.
"""
import os
import re
import shutil
import signal

import pytest

from conftest import APPS, EXPECTED, PRODUCTS, ROOT, SAN, TSAN, Server, clean_env, command_env, run
from test_cuts import ACTOR, FAR, Foreign, proxies, serve  # noqa: F401

pytestmark = pytest.mark.skipif(SAN or TSAN, reason="the loader runs without a libc, so without a sanitizer")

LOADER = ROOT / "loader" / "kernel-loader"
BUILT = ROOT / "build" / "tests-loader"
UNDER = [LOADER, "--lh", f"cuda={ROOT / 'loader' / 'cuda_lh.exe'}"]
MPI = ["--lh", f"mpi={ROOT / 'loader' / 'mpi_lh.exe'}"]


@pytest.fixture(scope="module", name="address")
def fixture_address(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("loader"))
    yield server.address("unix")
    server.kill()


def needs(program):
    if not os.access(program, os.X_OK):
        pytest.skip(f"{program} is not built: no nvcc")


def load(*command, address, options=(), **env):
    return run([*UNDER, *options, "--", *command], clean_env(REMOTE_GPU_ADDRESS=address, **env))


@pytest.mark.parametrize("program", [
    "vector_add", "vector_add_shared", "cuda_memset_async", "streams_events", "streams_events_shared",
    "host_functions", "graphs_shared", "per_thread", "driver_ptx", "driver_ptx_linked",
    "errors", "printf_hello", "zero_copy", "thread_data", "thread_data_shared",
    "fork_child", "managed_intro", "managed_var", "managed_calls", "managed_during", "managed_io", "managed_io_shared", "managed_signals",
    "managed_signals_shared"])
def test_a_program_prints_what_it_prints_anyway(address, program):
    needs(APPS / program)
    name = re.sub("_(shared|linked)$", "", program)
    result = load(APPS / program, address=address)
    assert (result.status, result.out) == (
        0, (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")), result.err


def test_a_fault_that_nobody_handles_ends_the_program(address):
    """It had handlers for SIGSEGV, and managed memory, which needs that signal: its last fault is its own."""
    needs(APPS / "managed_signals")
    result = load(APPS / "managed_signals", "and crash", address=address)
    assert (result.status, result.out) == (
        128 + signal.SIGSEGV, (EXPECTED / "managed_signals.txt").read_text(encoding="utf-8")), result.err


def test_without_managed_memory_the_signals_are_the_programs_own(address):
    """A handler for SIGSEGV that is set before the first CUDA call, or without any, is called as ever."""
    code = ("import ctypes, faulthandler, os, signal, sys; c = ctypes.CDLL(None);"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGSEGV]);"
            "print(signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, []));"
            "faulthandler.enable(file=sys.stdout); sys.stdout.flush(); c.strlen(8)")
    result = load("/usr/bin/python3", "-c", code, address=address)
    assert result.status == 128 + signal.SIGSEGV and result.out.startswith("True\nFatal Python error: Segm"), result


@pytest.mark.parametrize("program", ["nvml", "nvml_linked"])
def test_nvml_comes_from_the_half_too(address, program):
    result = load(APPS / program, address=address)
    assert (result.status, result.out) == (0, "NVML: 0 not as promised\n"), result.err


def test_no_table_of_functions_leads_around_the_stub(address):
    """nvidia-smi's table and the runtime's: only the runtime's check of itself is called in the half directly."""
    code = """if True:
        import ctypes, uuid
        cuda, nvml = (ctypes.CDLL(f"lib{name}.so.1") for name in ("cuda", "nvidia-ml"))
        half = [[int(x, 16) for x in line.split()[0].split("-")] for line in open("/proc/self/maps")
                if "cricket-client.so" in line]
        def direct(call, id):
            table = ctypes.POINTER(ctypes.c_size_t)()
            assert not call(ctypes.byref(table), uuid.UUID(id).bytes)
            return [i for i in range(1, table[0] // 8) if any(start <= table[i] < end for start, end in half)]
        assert half and not nvml.nvmlInit_v2()
        print(direct(nvml.nvmlInternalGetExportTable, "c4fe3e6cc98f6c4ea327ee696e12f7c4"),
              direct(cuda.cuGetExportTable, "d4082055bde6704b8d34ba123c66e1f2"),
              direct(cuda.cuGetExportTable, "6bd5fb6c5bf4e74a8987d93912fd9df9"))
        """
    result = load("/usr/bin/python3", "-c", code, address=address)
    assert (result.status, result.out) == (0, "[] [1] []\n"), result.err


def test_the_drivers_files_lie_in_the_cuda_half(address):
    needs(APPS / "vector_add")
    result = load(APPS / "vector_add", address=address, options=["--map"])
    assert result.status == 0
    assert re.search(r"^cuda\t.*/cpu/cricket-client\.so$", result.err, re.M), result.err
    assert not re.search(r"^upper\t.*cricket-client", result.err, re.M)


def test_a_server_that_is_not_there_is_an_error_not_a_hang(tmp_path):
    needs(APPS / "vector_add")
    result = load(APPS / "vector_add", address=f"unix:{tmp_path}/none")
    assert result.status == 1 and "cudaError" in result.err
    assert len(result.lines_about(tmp_path)) == 1, result.err


def test_a_half_whose_library_is_missing_is_refused(tmp_path):
    """A copy of the half in a folder where no client is: one line, and no application."""
    copy = shutil.copy(ROOT / "loader" / "cuda_lh.exe", tmp_path / "cuda_lh.exe")
    result = run([LOADER, "--lh", f"cuda={copy}", "--", "echo", "ran"], clean_env())
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("kernel-loader: ") and "cricket-client.so" in result.err
    assert len(result.err.splitlines()) == 1


def test_without_the_half_calls_fail(address):
    needs(APPS / "driver_ptx")
    env = clean_env(LD_LIBRARY_PATH=str(ROOT / "loader" / "stubs" / "cuda"), REMOTE_GPU_ADDRESS=address)
    assert run([APPS / "driver_ptx"], env).status != 0


def test_the_half_can_be_dropped_and_loaded_again(address):
    result = load(BUILT / "cuda_reload", address=address)
    assert (result.status, result.out) == (0, "ok\n"), result.err


def test_threads_of_the_half_and_of_the_application(address):
    """Host functions come from the half's threads; streams are used by many threads of ours."""
    needs(APPS / "per_thread_shared")
    result = load(APPS / "per_thread_shared", address=address, CRICKET_LOADER_FSGSBASE="0")
    assert (result.status, result.out) == (
        0, (EXPECTED / "per_thread.txt").read_text(encoding="utf-8")), result.err


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no Open MPI")
@pytest.mark.parametrize("order", ["mpi first", "cuda first"])
def test_jacobi_with_mpi_and_cuda_in_one_address_space(address, order):
    """Each rank has three halves; the result is that of one process on the CPU, bit by bit."""
    needs(BUILT / "jacobi")
    halves = [*MPI, *UNDER[1:]] if order == "mpi first" else [*UNDER[1:], *MPI]
    env = clean_env(REMOTE_GPU_ADDRESS=address, OMPI_ALLOW_RUN_AS_ROOT="1",
                    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    result = run(["mpirun", "--oversubscribe", "-np", "4", LOADER, *halves, "--", BUILT / "jacobi"], env, 120)
    assert (result.status, result.out) == (
        0, "jacobi: 4 ranks, 64 x 64, 40 steps: 0 cells differ from the CPU's, mean 34.569341\n"), result.err


# --- the machine's own driver library in place of the client; here the emulated one stands for it

def local_driver(tmp_path):
    """The environment in which libcuda.so.1 is the emulated driver."""
    (tmp_path / "libcuda.so.1").symlink_to(ROOT / "cpu" / "libcuda-emu.so")
    return clean_env(LD_LIBRARY_PATH=str(tmp_path), OMPI_ALLOW_RUN_AS_ROOT="1",
                     OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


LOCAL = [LOADER, "--lh", "cuda=local"]


@pytest.mark.parametrize("program", ["driver_ptx", "driver_ptx_linked", "arrays"])
def test_a_driver_program_runs_with_the_machines_own_library(tmp_path, program):
    needs(APPS / program)
    result = run([*LOCAL, "--map", "--", APPS / program], local_driver(tmp_path))
    name = program.removesuffix("_linked")
    assert (result.status, result.out) == (
        0, (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")), result.err
    assert re.search(r"^cuda\t.*/cpu/libcuda-emu\.so$", result.err, re.M), result.err
    assert not re.search("cricket-client|^upper\t.*libcuda-emu", result.err, re.M)


@pytest.mark.parametrize("program", [
    "vector_add", "vector_add_shared", "streams_events", "host_functions", "graphs_shared", "per_thread",
    "managed_intro", "managed_io", "managed_signals", "printf_hello", "errors", "textures", "mem_pools"])
def test_a_program_does_what_it_does_with_that_library_natively(tmp_path, program):
    """What the library itself cannot do is not the loader's: status and output are the native ones."""
    needs(APPS / program)
    env = local_driver(tmp_path)
    native, result = run([APPS / program], env), run([*LOCAL, "--", APPS / program], env)
    assert (result.status, result.out) == (native.status, native.out), result.err
    if native.status == 0:
        name = program.removesuffix("_shared")
        assert result.out == (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")


def test_a_half_with_the_machines_own_library_can_be_dropped_and_loaded_again(tmp_path):
    result = run([*LOCAL, "--", BUILT / "cuda_reload"], local_driver(tmp_path))
    assert (result.status, result.out) == (0, "ok\n"), result.err


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no Open MPI")
def test_jacobi_with_the_machines_own_library(tmp_path):
    needs(BUILT / "jacobi")
    env, ranks = local_driver(tmp_path), ["mpirun", "--oversubscribe", "-np", "2"]
    native = run([*ranks, BUILT / "jacobi"], env, 120)
    result = run([*ranks, *LOCAL, *MPI, "--", BUILT / "jacobi"], env, 120)
    assert (result.status, result.out) == (native.status, native.out), result.err


def test_a_library_of_the_machine_that_cannot_be_loaded_is_refused(tmp_path):
    (tmp_path / "libcuda.so.1").write_bytes(b"")
    result = run([*LOCAL, "--", "echo", "ran"], clean_env(LD_LIBRARY_PATH=str(tmp_path)))
    assert (result.status, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1 and "libcuda.so.1" in result.err


def actor(code):
    """The command of test_cuts.py's program below the loader; CODE ends it."""
    script = ACTOR.replace("CDLL(None)", "CDLL('libcuda.so.1')").replace("exec(sys.stdin.read())", code)
    return [*UNDER, "--", "/usr/bin/python3", "-c", script]


def end_below(server, proxies, code):
    """Runs it as if on another machine."""
    address = proxies(Foreign, server.port, FAR).address
    return run(actor(code), clean_env(REMOTE_GPU_ADDRESS=address, CRICKET_RESUME="1h"))


@pytest.mark.parametrize("code", ["os._exit(3)", "threading.Thread(target=os._exit, args=(3,)).start(); threading.Event().wait()"])
def test_a_program_without_exit_handlers_says_goodbye(serve, proxies, code):
    """Also on a thread that was never in the half."""
    server = serve("--keep", "1h")
    result = end_below(server, proxies, code)
    assert (result.status, result.out, result.err) == (3, "ready\n", "")
    server.has_workers(0)


def test_cricket_run_reports_a_program_that_is_killed(serve, proxies):
    """The loader cannot: it is the process that is killed."""
    server = serve("--keep", "1h")
    address = proxies(Foreign, server.port, FAR).address
    env = command_env(REMOTE_GPU_ADDRESS=address, CRICKET_TOKEN="", CRICKET_RESUME="1h")
    killed = actor("os.kill(os.getpid(), signal.SIGKILL)")
    result = run([PRODUCTS / "cricket", "run", "env", "-u", "LD_PRELOAD", *killed], env)
    assert (result.status, result.out) == (128 + signal.SIGKILL, "ready\n"), result.err
    server.has_workers(0)


def test_the_end_of_a_child_says_nothing_of_its_parent(serve, proxies):
    server = serve("--keep", "1h")
    result = end_below(server, proxies, "os.fork() or os._exit(1); os.wait(); print(use())")
    assert (result.status, result.out, result.err) == (0, "ready\n(0, 0)\n", "")
    server.has_workers(0)
