"""tests/e2e/test_numba.py - kernels written in Python: Numba makes their PTX, the driver links it."""
import pytest

from python_apps import check, packages, run_python     # noqa: F401  (fixtures)


@pytest.mark.slow
def test_numba_s_kernels_compute_what_numpy_does(run_python):       # noqa: F811
    check(run_python("numba_kernels.py"), ["thread 3 has 2.500000"])


def test_a_numba_kernel_that_leaves_its_array_is_an_error(run_python):      # noqa: F811
    result = run_python("numba_kernels.py", "leaves_its_array", transport="tcp")
    assert result.status == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS" in result.err
