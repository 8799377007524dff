"""tests/e2e/test_numba.py - kernels written in Python: Numba makes their PTX, the driver links it; or LTO-IR, for nvJitLink."""
import re

import pytest

from python_apps import check, packages, run_as_installed, run_python     # noqa: F401  (fixtures)

# Of Numba's own tests, those that ask most of a driver: docs/compatibility.md has all.
OWN = ("cudadrv.test_context_stack", "cudadrv.test_cuda_memory", "cudadrv.test_emm_plugins",
       "cudadrv.test_events", "cudadrv.test_host_alloc", "cudadrv.test_linker.TestLinker",
       "cudadrv.test_pinned", "cudapy.test_stream_api")


@pytest.mark.slow
def test_numba_s_kernels_compute_what_numpy_does(run_python):       # noqa: F811
    check(run_python("numba_kernels.py"), ["thread 3 has 2.500000"])


@pytest.mark.slow
def test_numba_runs_on_the_emulated_gpu_as_installed(run_as_installed):       # noqa: F811
    check(run_as_installed("numba_kernels.py"), ["thread 3 has 2.500000"])


def test_a_numba_kernel_that_leaves_its_array_is_an_error(run_python):      # noqa: F811
    result = run_python("numba_kernels.py", "leaves_its_array", transport="tcp")
    assert result.status == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS" in result.err


@pytest.mark.slow
def test_numba_s_own_tests_of_a_driver_pass(run_python):        # noqa: F811
    result = run_python("-m", "unittest", *(f"numba.cuda.tests.{name}" for name in OWN))
    assert result.status == 0, result.err
    assert int(re.search(r"^Ran (\d+) tests", result.err, re.M)[1]) >= 65
