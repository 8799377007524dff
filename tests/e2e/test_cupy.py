"""tests/e2e/test_cupy.py - CuPy: its kernels are compiled by NVRTC as the program runs."""
import pytest

from python_apps import check, packages, run_python     # noqa: F401  (fixtures)


@pytest.mark.slow
def test_cupy_computes_what_numpy_does(run_python):     # noqa: F811
    check(run_python("cupy_arrays.py"), ["thread 0 has 1.500000", "thread 1 has 1.500000"])


def test_a_cupy_kernel_that_leaves_its_array_is_an_error(run_python):       # noqa: F811
    result = run_python("cupy_arrays.py", "leaves_its_array", transport="tcp")
    assert result.status == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS" in result.err
