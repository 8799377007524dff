"""tests/e2e/python_apps.py - the programs of ../python_apps, with the packages that they need.

tools/python-packages.sh brings these from PyPI; without a network the tests are skipped.
"""
import subprocess
import sys

import pytest

from conftest import DRIVER, KIND, PRODUCTS, ROOT, clean_env, client_env, command_env, preload, run

PROGRAMS = ROOT / "tests" / "python_apps"
SCRIPT = ROOT / "tools" / "python-packages.sh"
QUIET = {"PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}


@pytest.fixture(scope="session")
def packages():
    """The virtual environment with the packages."""
    if KIND:
        pytest.skip("compilers of others make up nearly all of it: nothing for a sanitizer to see")
    brought = subprocess.run([SCRIPT, sys.executable], cwd=ROOT, capture_output=True, text=True, timeout=600,
                             check=False, env=clean_env())
    if brought.returncode == 3:
        pytest.skip("not to be had: " + brought.stdout.strip().splitlines()[-1])
    assert brought.returncode == 0, brought.stdout + brought.stderr
    return ROOT / brought.stdout.split()[-1]


@pytest.fixture
def run_python(packages, server, tmp_path):
    """run_python(PROGRAM, *ARGUMENTS): runs it, or `python3 -m MODULE ...`, through the shared server, by the driver's own linker."""
    def go(program, *arguments, transport="shm"):
        env = {**QUIET, "CUPY_CACHE_DIR": str(tmp_path), "LD_PRELOAD": f"{preload()}:{packages}/driver-links/libnvJitLink.so.13"}
        if DRIVER == "emu":     # PTX, and no CUB, which CuPy's wheel has as machine code
            env.update(CUPY_COMPILE_WITH_PTX="1", CUPY_ACCELERATORS="")
        program = program if program == "-m" else PROGRAMS / program
        return run([packages / "bin" / "python3", program, *arguments],
                   client_env(server.address(transport), **env), timeout=180)
    return go


@pytest.fixture
def run_as_installed(packages, tmp_path):
    """run_as_installed(PROGRAM): runs it with `cricket run -s emu`, and no other setting."""
    if DRIVER != "emu":
        pytest.skip("starts the emulated GPU itself")

    def go(program):
        env = command_env(**QUIET, CUPY_CACHE_DIR=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path))
        return run([PRODUCTS / "cricket", "run", "-s", "emu", "--", packages / "bin" / "python3", PROGRAMS / program], env, timeout=180)
    return go


def check(result, printed):
    """Every case was right, and PRINTED is what kernels wrote."""
    lines = result.out.splitlines()
    assert result.status == 0, result.out + result.err
    assert [line for line in lines if not line.startswith("ok ")] == printed, result.err
    assert len([line for line in lines if line.startswith("ok ")]) >= 12
