"""tests/e2e/test_emulated_python.py - cricket_gpu.emulate() and pytest's option --cricket-emu (python/cricket_gpu/)."""
import os
import re
import signal
import subprocess
import sys

import pytest

from conftest import DRIVER, KIND, PRODUCTS, ROOT, clean_env, ended, is_alive, start, wait_until
from test_emulate import servers_at

pytestmark = pytest.mark.skipif(DRIVER != "emu" or bool(KIND), reason="an interpreter without the sanitizer cannot load it later")

PROLOGUE = """
import ctypes, os, sys
import cricket_gpu
def count():
    driver, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    return driver.cuInit(0), driver.cuDeviceGetCount(ctypes.byref(n)), n.value
"""
TESTS = """
import ctypes, os, subprocess, sys
import pytest
SEEN = os.environ.get("REMOTE_GPU_ADDRESS")     # already when this file is read

def count():
    driver, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(n)) == 0
    return n.value

def test_gpu():
    assert count() == 1 and "/cricket-emu." in SEEN

def test_child():
    subprocess.run([sys.executable, "-c", "import ctypes; assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0"], check=True)

@pytest.mark.real_gpu
def test_machine_code():
    assert False

def test_without_ptx():
    assert os.environ.get("WITH_PTX"), "CUDA_ERROR_NO_BINARY_FOR_GPU"
"""


@pytest.fixture(name="env")
def fixture_env(tmp_path):
    """The package as pip installs it, with the entry point of setup.py, and the command in PATH."""
    site = tmp_path / "site"
    info = site / "cricket_gpu-0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (site / "cricket_gpu").symlink_to(ROOT / "python" / "cricket_gpu")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cricket-gpu\nVersion: 0\n")
    group, entry = re.search(r'entry_points=\{"(\w+)": \["([^"]+)"\]\}', (ROOT / "python" / "setup.py").read_text(encoding="utf-8")).groups()
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    env = clean_env(PYTHONPATH=str(site), PATH=f"{PRODUCTS}:{os.environ['PATH']}", XDG_CONFIG_HOME=str(tmp_path),
                    XDG_RUNTIME_DIR=str(tmp_path / "run"), PYTHONDONTWRITEBYTECODE="1")
    # with these, a pytest in the test takes itself for a process of the pytest that runs it
    return {name: value for name, value in env.items() if not name.startswith("PYTEST_")}


def python(env, program):
    done = ended(start([sys.executable, "-c", PROLOGUE + program], env), 60)
    assert (done.status, done.err) == (0, "")
    return done.out.splitlines()


def all_gone(env):
    wait_until(lambda: not os.listdir(env["XDG_RUNTIME_DIR"]), 20, "the server's folder is gone")


def test_the_process_and_its_children_use_the_emulated_gpu(env):
    lines = python(env, """
with cricket_gpu.emulate() as gpu:
    print(gpu.address == os.environ["REMOTE_GPU_ADDRESS"], os.environ["CUPY_COMPILE_WITH_PTX"], count(), flush=True)
    print(hasattr(ctypes.CDLL(None), "nvJitLinkCreate"), flush=True)
    os.system(f"{sys.executable} -c 'import ctypes; print(ctypes.CDLL(\\"libcuda.so.1\\").cuInit(0))'")
print(count())      # a process that has used CUDA keeps its GPU until its end
""")
    assert lines == ["True 1 (0, 0, 1)", "True", "0", "(0, 0, 1)"]
    all_gone(env)


def test_without_use_everything_is_undone(env):
    assert python(env, """
before = dict(os.environ)
with cricket_gpu.emulate() as gpu:
    folder = os.path.dirname(gpu.address.partition(":")[2])
    gpu.close()
    print(os.environ == before)
with cricket_gpu.emulate() as second:
    print(gpu.address != second.address, count())
""") == ["True", "True (0, 0, 1)"]
    all_gone(env)


def test_the_server_ends_with_a_killed_process(env):
    with subprocess.Popen([sys.executable, "-c", PROLOGUE + "print(cricket_gpu.emulate().address, flush=True); input()"], env=env,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        socket = process.stdout.readline().strip().removeprefix("shm:")
        server, = servers_at(socket)
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(server), 20, "the server is gone")
    all_gone(env)


def test_a_server_that_is_missing_is_a_connection_error(env, tmp_path):
    (tmp_path / "cricket").symlink_to("/bin/false")
    lines = python({**env, "PATH": f"{tmp_path}:/usr/bin:/bin"}, """
try:
    cricket_gpu.emulate()
except ConnectionError as problem:
    print(problem)
""")
    assert lines == ["the emulated GPU did not start: `cricket run -s emu` ended with status 1"]


def run_tests(env, folder, *words):
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text(TESTS)
    return ended(start([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "--rootdir", folder / "tests",
                        *words, folder / "tests"], env), 120)


def test_pytest_runs_the_tests_on_the_emulated_gpu(env, tmp_path):
    done = run_tests(env, tmp_path, "--cricket-emu")
    assert "2 passed, 1 skipped" in done.out and "1 failed" in done.out, done.out + done.err
    assert "cricket: emulated GPU" in done.out and not done.err and "runs PTX only" in done.out and "runs no machine code" in done.out
    all_gone(env)


def test_processes_of_xdist_share_it(env, tmp_path):
    pytest.importorskip("xdist")
    done = run_tests({**env, "WITH_PTX": "1"}, tmp_path, "--cricket-emu", "-n", "2")
    assert "3 passed, 1 skipped" in done.out, done.out + done.err
    all_gone(env)


def test_pytest_without_the_option_changes_nothing(env, tmp_path):
    done = run_tests({**env, "WITH_PTX": "1"}, tmp_path, "-k", "machine_code or without_ptx")
    assert "1 failed, 1 passed" in done.out and "cricket:" not in done.out, done.out
    assert not os.listdir(env["XDG_RUNTIME_DIR"])
