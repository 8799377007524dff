"""tests/e2e/test_jupyter.py - the Python package in notebooks: the magic %cricket, and kernels (python/cricket_gpu/jupyter.py).

Neither Jupyter nor IPython is needed: a kernel is a command line, and a magic a function that a shell is given.
"""
import json
import os
import subprocess
import sys

import pytest

from conftest import DRIVER, KIND, PRODUCTS, ROOT, clean_env, run

pytestmark = pytest.mark.skipif(DRIVER != "emu" or bool(KIND), reason="needs the command beside the emulated GPU")

SHELL = """
import sys
class Shell:
    def register_magic_function(self, function, kind, name):
        assert kind == "line"
        self.magics = {name: function}
import cricket_gpu
shell = Shell()
cricket_gpu.load_ipython_extension(shell)
for line in sys.stdin:
    print(shell.magics["cricket"](line.strip()), flush=True)
"""
COUNT = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); n = ctypes.c_int(); c.cuDeviceGetCount(ctypes.byref(n)); print(n.value)"


def env(**more):
    return clean_env(PYTHONPATH=str(ROOT / "python"), PATH=f"{PRODUCTS}:{os.environ['PATH']}", **more)


def shell(lines, **more):
    return subprocess.run([sys.executable, "-c", SHELL], input=lines, env=env(**more), capture_output=True, text=True, timeout=60)


def test_the_magic_connects_and_shows_sessions(server):
    done = shell(f"connect {server.address('tcp')}\nstatus unix:{server.unix}\n")
    assert done.returncode == 0, done.stderr
    first, none, status = done.stdout.splitlines()
    assert first.startswith("CUDA runs on") and none == "None" and "'sessions'" in status, done.stdout


@pytest.mark.parametrize("line", ["", "connect a b", "sing", "connect 'a", "connect --gpu"])
def test_a_wrong_line_does_not_end_the_kernel(line):
    done = shell(line + "\nsing\n")
    assert done.returncode == 0 and done.stdout == "None\nNone\n", done.stderr
    assert "%cricket connect" in done.stderr


def test_a_kernel_runs_its_program_on_the_server(server, tmp_path):
    done = run([sys.executable, "-m", "cricket_gpu", "jupyter", "install", "-s", server.address("tcp"), "--gpus", "1", "--name", "lab"],
               env(JUPYTER_DATA_DIR=str(tmp_path)))
    assert done.status == 0, done.err
    assert done.out == f"{tmp_path}/kernels/lab\n"
    spec = json.loads((tmp_path / "kernels/lab/kernel.json").read_text())
    assert spec["language"] == "python" and server.address("tcp") in spec["display_name"]
    at = spec["argv"].index("-m")
    assert spec["argv"][at:] == ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
    result = run([*spec["argv"][:at], "-c", COUNT], env())
    assert (result.status, result.out) == (0, "1\n"), result.err


def test_a_kernel_that_cannot_be_written_is_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    for words in (["--prefix", str(tmp_path / "file")], ["--name", "../up"]):
        done = run([sys.executable, "-m", "cricket_gpu", "jupyter", "install", "-s", "host", *words], env(HOME=str(tmp_path)))
        assert done.status == 1 and done.err.startswith("cricket: ") and done.err.count("\n") == 1, done.err
