"""tests/e2e/test_jupyter.py - the Python package in notebooks: connect and status, the magic %cricket (python/cricket_gpu/), and the
kernels of `cricket jupyter`.

Neither Jupyter nor IPython is needed: a kernel is a command line, and a magic a function that a shell is given.
"""
import json
import os
import subprocess
import sys

import pytest

from conftest import DRIVER, KIND, PRODUCTS, ROOT, Server, clean_env, run
from ports import free_port

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
    first, none, status = done.stdout.splitlines()[:3]
    assert first.startswith("CUDA runs on") and none == "None" and "0 of 256 sessions" in status, done.stdout


@pytest.mark.parametrize("line", ["", "connect a b", "sing", "connect 'a", "connect --gpu"])
def test_a_wrong_line_does_not_end_the_kernel(line):
    done = shell(line + "\nsing\n")
    assert done.returncode == 0 and done.stdout == "None\nNone\n", done.stderr
    assert "%cricket connect" in done.stderr


def python(program, *arguments, **more):
    """What PROGRAM prints, line by line; each connect that fails is a line, with the name of the exception."""
    done = subprocess.run([sys.executable, "-c", PROLOGUE + program, *map(str, arguments)], env=env(**more), capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


PROLOGUE = """
import ctypes, os, sys
import cricket_gpu
def connect(*words, **options):
    try:
        print(cricket_gpu.connect(*words, **options))
    except (ConnectionError, RuntimeError) as problem:
        print(type(problem).__name__, problem)
def count():
    driver, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(n)) == 0
    print(n.value)
"""
NO_LATE_LOAD = pytest.mark.skipif(bool(KIND), reason="an interpreter without the sanitizer cannot load it later")


@pytest.fixture(name="guarded")
def fixture_guarded(tmp_path):
    """A server with two GPUs, one session, and a token."""
    (tmp_path / "token").write_text("sesame\n")
    server = Server(tmp_path / "server", "--token-file", tmp_path / "token", "--max-sessions", "1", CRICKET_EMU="devices=2")
    yield server
    server.end()


@NO_LATE_LOAD
def test_connect_fails_at_once_and_the_right_address_works_after_it(guarded):
    where, port = guarded.address("tcp"), free_port()
    lines = python("""
where, unix, port = sys.argv[1:]
connect(f"127.0.0.1:{port}")
connect("nohost.invalid", gpus=1)
connect(where)
connect(where, token="wrong")
connect(where, token="sesame", gpus=3)
connect(where, token="sesame", devices="0,5")
connect(where + "/0,5", token="sesame")
connect("unix:" + unix + "//5", token="sesame")
connect(f"{where},127.0.0.1:{port}", token="sesame")
print({"LD_PRELOAD", "REMOTE_GPU_ADDRESS", "CRICKET_TOKEN"} & set(os.environ))
connect(where, token="sesame", gpus=1)
count()
""", where, guarded.unix, port)
    for line, words in zip(lines, ("Connection refused", "no host has the name nohost.invalid", "token", "token", "not have 3 GPUs",
                                   *3 * ["there is no GPU 5; it has 2"], f"127.0.0.1:{port}: Connection refused")):
        assert line.startswith("ConnectionError ") and words in line, lines
    assert lines[9:] == ["set()", where, "1"]
    guarded.wait_idle()


@NO_LATE_LOAD
def test_connect_says_that_a_server_is_full_unless_it_is_to_wait(guarded):
    where = guarded.address("tcp")
    with subprocess.Popen([PRODUCTS / "cricket", "run", "-s", where, sys.executable, "-c", COUNT + "; input()"],
                          env=env(CRICKET_TOKEN="sesame"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "2\n"
        full, waits = python("connect(sys.argv[1], token='sesame'); connect(sys.argv[1], token='sesame', wait='1m')", where)
        assert full.startswith("ConnectionError ") and "no free session" in full and waits == where
        holder.communicate("\n", timeout=60)


@NO_LATE_LOAD
def test_a_token_may_be_the_content_of_a_file(guarded):
    """Which ends with a line break."""
    assert python("connect(sys.argv[1], token='sesame\\n', gpus=1)", guarded.address("tcp"))[0] == guarded.address("tcp")
    lines = python("os.environ['CRICKET_TOKEN'] = 'sesame\\r\\n'; connect(sys.argv[1]); count()", guarded.address("tcp"))
    assert lines == [guarded.address("tcp"), "2"]


def test_an_empty_name_is_no_server(server):
    words = "import cricket_gpu\ntry: cricket_gpu.status('')\nexcept ConnectionError as e: print(e)"
    assert python(words) == ["no server is named: the name is empty"]


def test_the_module_has_the_help_of_its_kernels():
    done = subprocess.run([sys.executable, "-m", "cricket_gpu", "jupyter", "--help"], env=env(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.startswith("Usage: cricket jupyter")


@NO_LATE_LOAD
def test_connect_again_is_no_error_and_another_server_needs_a_new_process(guarded, server):
    where, other = guarded.address("tcp"), server.address("tcp")
    lines = python("""
where, other = sys.argv[1:]
connect(other)                      # CUDA has not been used: this can be changed
connect(where, token="sesame")
count()
connect(where, token="sesame")
connect(f"tcp://{where}", token="sesame")
connect(other)
connect(where, token="sesame", gpus=1)
try:
    cricket_gpu.disconnect()
except RuntimeError as problem:
    print(problem)
""", where, other)
    assert lines[:5] == [other, where, "2", where, f"tcp://{where}"]
    assert [line.split()[0] for line in lines[5:7]] == ["RuntimeError"] * 2 and other in lines[5] and "(GPUs 0)" in lines[6]
    assert all("restart the kernel" in line for line in lines[5:8]) and len(lines) == 8


@NO_LATE_LOAD
def test_the_own_libcuda_is_no_other_driver(server):
    """A program that is linked with libcuda.so loads the file beside the client; the emulated driver is another one."""
    lines = python("""
ctypes.CDLL(sys.argv[2])
connect(sys.argv[1])
ctypes.CDLL(sys.argv[3])
cricket_gpu.disconnect()
connect(sys.argv[1])
""", server.address("tcp"), PRODUCTS / "libcuda.so", PRODUCTS / "libcuda-emu.so")
    assert lines[0] == server.address("tcp") and lines[1].startswith("RuntimeError this process has loaded another CUDA driver"), lines


@NO_LATE_LOAD
def test_disconnect_gives_back_the_variables(server):
    assert python("""
before = dict(os.environ)
connect(sys.argv[1])
print(os.environ["REMOTE_GPU_ADDRESS"] == sys.argv[1])
cricket_gpu.disconnect()
print(dict(os.environ) == before)
cricket_gpu.disconnect()
""", server.address("tcp")) == [server.address("tcp"), "True", "True"]


def test_status_is_a_table(server):
    """On the server's own host its sessions; elsewhere the GPUs and the number of sessions."""
    lines = python("""
from cricket_gpu.state import Status
near, far = cricket_gpu.status(f"unix:{sys.argv[1]}"), cricket_gpu.status(sys.argv[2])
print(isinstance(near, dict), near["sessions"] == [], repr(near).count("\\n") < 10, len(near._repr_html_()) < 3000)
print(far["max_sessions"], "<table>" in far._repr_html_())
evil = {"session": "s1", "program": "<b>", "state": "idle", "memory": 3 << 20, "host_memory": 0, "age": 3700, "identity": "i", "host": "h",
        "client_pid": 7}
one = Status(near, sessions=[evil])
print("&lt;b&gt;" in one._repr_html_() and "<b>&" not in one._repr_html_(), repr(one).splitlines()[-1].split())
try:
    cricket_gpu.status("nohost.invalid")
except ConnectionError as problem:
    print(problem)
""", server.unix, server.address("tcp"))
    assert lines[0] == "True True True True" and lines[1] == "256 True"
    assert lines[2] == "True ['s1', '<b>', 'idle', '-', '3.0', 'MiB', '1h01m', 'i', 'h:7']" and "nohost.invalid" in lines[3]


@pytest.mark.parametrize("way", ["command", "module"])
def test_a_kernel_runs_its_program_on_the_server(server, tmp_path, way):
    command = [PRODUCTS / "cricket", "jupyter", "-s", server.address("tcp"), "--gpus", "1", "--name=Lab", "--python", sys.executable]
    if way == "module":
        command = [sys.executable, "-m", "cricket_gpu", "jupyter", "install", *command[2:-2]]
    done = run(command, env(JUPYTER_DATA_DIR=str(tmp_path)))
    assert done.status == 0 and (not done.err or done.err.endswith("-m pip install ipykernel\n")), done.err
    assert done.out == f"{tmp_path}/kernels/lab\n"
    spec = json.loads((tmp_path / "kernels/lab/kernel.json").read_text())
    assert spec["language"] == "python" and server.address("tcp") in spec["display_name"]
    at = spec["argv"].index("-m")
    assert spec["argv"][at - 1:] == [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    result = run([*spec["argv"][:at], "-c", COUNT], env())
    assert (result.status, result.out) == (0, "1\n"), result.err


def test_a_kernel_that_cannot_be_written_is_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    for status, words in ((1, ["--prefix", tmp_path / "file"]), (2, ["--name", "../up"]), (1, ["--python", "no-such-python"]),
                          (2, ["--profile", "x"]), (2, ["more"])):
        done = run([PRODUCTS / "cricket", "jupyter", "-s", "host", *words], env(HOME=str(tmp_path)))
        assert done.status == status and done.err.startswith("cricket: ") and done.err.count("\n") == 1, done.err
