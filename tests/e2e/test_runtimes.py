"""tests/e2e/test_runtimes.py - one program, with each release of NVIDIA's runtime from 11.8 on.

tools/runtimes.sh brings all but that of the toolkit from PyPI; without a network these tests are skipped.
"""
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import DRIVER, ROOT, TRANSPORTS, clean_env, client_env, run

SCRIPT = ROOT / "tools" / "runtimes.sh"
HOME = ROOT / "build" / "runtimes"
RELEASES = re.findall(r"cuda-runtime(?:-cu\d+)?==([\d.]+)", SCRIPT.read_text(encoding="utf-8"))
STATIC = ["12.9.79", "13.5.37"]        # whose wheels have libcudart_static.a
PROMISED = ["kernel, constant, variable", "streams, events, asynchronous copies", "errors", "pools",
            "graphs", "reset"]
# What each needs; where docs/coverage.md says that it is refused, the program must say so too.
NEEDS = {"pools": "cuMemAllocAsync", "graphs": "cuStreamBeginCapture_v2"}


def expected(release):
    """What the program prints with RELEASE."""
    major, minor = release.split(".")[:2]
    coverage = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    lines = [f"runtime {int(major) * 1000 + int(minor) * 10}"]
    for what in PROMISED:
        refused = what in NEEDS and re.search(
            rf"^\*\*refuse\*\*.*\n(?:\w+,\n)*{NEEDS[what]}\b", coverage, re.M)
        lines.append(f"{what}: {'refused' if refused else 'right'}")
    return lines


@pytest.fixture(scope="session")
def releases():
    """Sees that all releases are in build/runtimes."""
    brought = subprocess.run([SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=600,
                             check=False, env=clean_env())
    if brought.returncode == 3:
        pytest.skip("no network to bring the runtimes by: " + brought.stdout.strip())
    assert brought.returncode == 0, brought.stdout + brought.stderr


def newest_runtime():
    """The libcudart.so.13 beside nvcc."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    homes = [pathlib.Path(nvcc).resolve().parents[1], ROOT / "build" / "cuda"]
    return next((lib for h in homes for lib in h.glob("lib*/libcudart.so.13")), None)


def check(result, release):
    assert result.out.splitlines() == expected(release), result.err
    assert result.status == 0, result.err


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_program_of_each_release_runs(releases, server, app, release, transport):
    library = next((HOME / release / "lib").glob("libcudart.so.*"))
    check(run([app("any_runtime"), library], client_env(server.address(transport))), release)


@pytest.mark.skipif(DRIVER != "emu", reason="the emulated driver was not asked for")
@pytest.mark.parametrize("release", RELEASES)
def test_it_runs_on_the_emulated_driver_itself(releases, app, direct_env, release):
    library = next((HOME / release / "lib").glob("libcudart.so.*"))
    check(run([app("any_runtime"), library], direct_env), release)


@pytest.mark.parametrize("release", STATIC)
def test_a_release_s_static_library_runs(releases, server, app, release):
    app("any_runtime")      # which can be built where this one can
    name = f"bin/any_runtime_static_{release}"
    subprocess.run(["make", "-C", ROOT / "tests" / "test_apps", name], check=True, timeout=120,
                   capture_output=True)
    check(run([ROOT / "tests" / "test_apps" / name], client_env(server.address("unix"))), release)


@pytest.mark.parametrize("variable", ["CUDA_MODULE_LOADING=EAGER", "CUDA_MODULE_LOADING=LAZY",
                                      "CUDA_LAUNCH_BLOCKING=1"])
def test_every_release_heeds_the_variables(releases, server, app, variable):
    name, value = variable.split("=")
    env = client_env(server.address("unix"), **{name: value})
    for release in RELEASES:
        library = next((HOME / release / "lib").glob("libcudart.so.*"))
        check(run([app("any_runtime"), library], env), release)


def test_the_newest_release_runs(server, app):
    program, library = app("any_runtime"), newest_runtime()
    assert library, "there is an nvcc and no libcudart.so.13 beside it"
    check(run([program, library], client_env(server.address("unix"))), "13.0.0")
