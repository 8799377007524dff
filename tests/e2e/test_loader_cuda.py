"""tests/e2e/test_loader_cuda.py - CUDA programs whose driver library is a lower half: the client,
loaded by kernel-loader, against a server with the emulated GPU. What they print is what they print anyway.
"""
import os
import re
import shutil

import pytest

from conftest import APPS, EXPECTED, ROOT, SAN, TSAN, Server, clean_env, run

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
    "errors", "printf_hello", "zero_copy",
    "fork_child", "managed_intro"])
def test_a_program_prints_what_it_prints_anyway(address, program):
    needs(APPS / program)
    name = re.sub("_(shared|linked)$", "", program)
    result = load(APPS / program, address=address)
    assert (result.status, result.out) == (
        0, (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")), result.err


@pytest.mark.parametrize("program", ["nvml", "nvml_linked"])
def test_nvml_comes_from_the_half_too(address, program):
    result = load(APPS / program, address=address)
    assert (result.status, result.out) == (0, "NVML: 0 not as promised\n"), result.err


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
