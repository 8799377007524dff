"""tests/e2e/test_cupy.py - CuPy: its kernels are compiled by NVRTC as the program runs."""
import json

import pytest

from conftest import DRIVER, PRODUCTS, ROOT, client_env, run
from python_apps import check, packages, run_as_installed, run_python     # noqa: F401  (fixtures)


@pytest.mark.slow
def test_cupy_computes_what_numpy_does(run_python):     # noqa: F811
    check(run_python("cupy_arrays.py"), ["thread 0 has 1.500000", "thread 1 has 1.500000"])


@pytest.mark.slow
def test_cupy_runs_on_the_emulated_gpu_as_installed(run_as_installed):       # noqa: F811
    check(run_as_installed("cupy_arrays.py"), ["thread 0 has 1.500000", "thread 1 has 1.500000"])


def test_a_cupy_kernel_that_leaves_its_array_is_an_error(run_python):       # noqa: F811
    result = run_python("cupy_arrays.py", "leaves_its_array", transport="tcp")
    assert result.status == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS" in result.err


def test_ranges_of_cupy_are_in_the_timeline(packages, server, tmp_path):        # noqa: F811
    """`profile` switches a profiler on and off; `time_range` marks what its kernels belong to."""
    out = tmp_path / "out.json"
    plain = {"CUPY_COMPILE_WITH_PTX": "1", "CUPY_ACCELERATORS": ""} if DRIVER == "emu" else {}
    result = run([packages / "bin" / "python3", ROOT / "bench" / "cupy_profile.py"],
                 client_env(server.address("tcp"), BENCH_REPEAT="4", CUPY_CACHE_DIR=str(tmp_path), CRICKET_PROFILE=out,
                            NVTX_INJECTION64_PATH=PRODUCTS / "cricket-client.so", **plain), timeout=180)
    assert result.status == 0, result.err
    assert json.loads(result.out)["cupy_result"]["value"] == 1
    events = json.loads(out.read_text())["traceEvents"]
    ranges = [e["name"] for e in events if e["ph"] == "B"]
    assert ranges == ["step 0", "step 1"] * 2
    assert len([e for e in events if e.get("cat") == "kernel"]) >= 5 * 4
