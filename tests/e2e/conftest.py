"""tests/e2e/conftest.py - a server to talk to, and a way to run CUDA programs against it.

Everything runs on this machine with the emulated GPU; CRICKET_TEST_DRIVER=cuda takes the real one.
CRICKET_TEST_SAN=1 takes the products that were built with ASan and UBSan, CRICKET_TEST_TSAN=1 those
with TSan. No process outlives its test.

Tests may run beside one another (pytest-xdist, `make check-e2e`): each has ports, sockets and folders of its own.
One that cannot bear company, because it measures a time or changes the host, is marked `alone`.
"""
import atexit
import contextlib
import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
from dataclasses import dataclass

import pytest

from ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
APPS = ROOT / "tests" / "test_apps" / "bin"
EXPECTED = pathlib.Path(__file__).parent / "expected"
DRIVER = os.environ.get("CRICKET_TEST_DRIVER", "emu")
SAN = os.environ.get("CRICKET_TEST_SAN", "") not in ("", "0")
TSAN = os.environ.get("CRICKET_TEST_TSAN", "") not in ("", "0")
KIND = "-san" if SAN else "-tsan" if TSAN else ""
PRODUCTS = ROOT / "cpu" / f"build{KIND}" if KIND else ROOT / "cpu"
OUT = ROOT / "build" / f"tests{KIND}"       # what tests/Makefile builds
SERVER = PRODUCTS / "cricket-rpc-server"
CLIENT = ROOT / os.environ.get("CRICKET_TEST_CLIENT", PRODUCTS) / "cricket-client.so"
NETWORK_CLIENT = ROOT / "cpu" / f"build{KIND}" / "network" / "cricket-client.so"
EMULATED = PRODUCTS / "libcuda-emu.so"
SLOW = 8 if SAN or TSAN else 1      # how much longer the sanitizers may take
PATIENCE = 3 * SLOW  # how much longer a wait may take on a machine that is busy with other work
HANG = 100 * SLOW    # seconds after which something hangs that takes a moment
LONGEST = 300       # seconds that a test may take
TRANSPORTS = ("tcp", "unix", "shm")


@dataclass
class Result:
    """How a program ended: its status, as a shell would see it, and what it wrote."""
    status: int
    out: str
    err: str
    seconds: float

    def lines_about(self, words):
        """The lines of stderr that contain WORDS."""
        return [line for line in self.err.splitlines() if str(words) in line]


def clean_env(**more):
    """This process's environment without anything that steers CUDA or Cricket, plus MORE. The machine may stand still for longer
    than the 10 s that a program usually gives a server."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("CRICKET_", "CUDA_", "LD_PRELOAD", "REMOTE_GPU"))}
    if SAN:
        # The programs and CUDA's own libraries are not ours to check for leaks.
        # The client raises SIGBUS at lost pages on purpose, which is the program's to handle.
        env["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0:handle_sigbus=0"
        env["UBSAN_OPTIONS"] = "print_stacktrace=1"
    if TSAN:
        # What the programs and CUDA's own libraries do among themselves is not ours to check. No process waits a second at its end.
        env["TSAN_OPTIONS"] = (f"suppressions={ROOT / 'tests' / 'tsan.supp'} exitcode=66 handle_sigbus=0 "
                               "ignore_noninstrumented_modules=1 atexit_sleep_ms=10")
    # Since Python 3.12, a fork beside the client's threads is worth a line.
    env["PYTHONWARNINGS"] = "ignore:This process:DeprecationWarning"
    # What other programs of this user do on the emulated GPU is not for these to see.
    env["CRICKET_EMU"] = f"usage=/dev/shm/cricket-emu-test-{os.getpid()}"
    env["CRICKET_TIMEOUT"] = "60"
    more = dict(more)
    emulated = more.pop("CRICKET_EMU", "")
    env.update(more)
    return with_words(env, "CRICKET_EMU", emulated)


def with_words(env, name, words):
    """ENV with WORDS at the end of the list NAME: the last word of a kind counts."""
    return dict(env, **{name: ",".join(filter(None, (env.get(name), words)))})


@atexit.register
def forget_usage():
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"/dev/shm/cricket-emu-test-{os.getpid()}")


def runtime():
    """The sanitizer's own library, or nothing: one with a sanitizer in it wants it in front."""
    if not SAN and not TSAN:
        return ""
    name = subprocess.run(["gcc", f"-print-file-name=lib{'asan' if SAN else 'tsan'}.so"],
                          capture_output=True, text=True, check=True, timeout=HANG).stdout.strip()
    return os.path.realpath(name)


def preload(client=CLIENT):
    """What LD_PRELOAD has to hold."""
    return f"{runtime()}:{client}" if runtime() else str(client)


def over(network):
    """Variables for client_env: the client runs over a simulated network, as in rtt=1ms,bw=1G (tests/network)."""
    if not NETWORK_CLIENT.exists():
        pytest.skip("no client over a simulated network: make -C tests far")
    return {"LD_PRELOAD": preload(NETWORK_CLIENT), "CRICKET_TEST_NETWORK": network}


def command_env(**more):
    """The environment of `cricket run`, which adds the client itself."""
    return clean_env(**({"LD_PRELOAD": runtime()} if runtime() else {}), **more)


def client_env(address, **more):
    """The environment of a program that is to use the server at ADDRESS (None: not named)."""
    env = clean_env(LD_PRELOAD=preload())
    if address is not None:
        env["REMOTE_GPU_ADDRESS"] = str(address)
    env.update(more)
    return env


def start(command, env):
    """Starts a program in a process group of its own; the caller ends it (see ended)."""
    return subprocess.Popen([str(c) for c in command], env=env, text=True, start_new_session=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, errors="replace")


def ended(process, timeout, began=None):
    """Waits for a started program; one that takes longer than TIMEOUT of a quiet machine fails the test."""
    began = time.monotonic() if began is None else began
    try:
        out, err = process.communicate(timeout=timeout * PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"{process.args} did not end in {timeout * PATIENCE} s\n"
                    f"stdout: {out}\nstderr: {err}")
    if "ThreadSanitizer" in err:
        pytest.fail(f"{process.args}: {err}")
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Result(status, out, err, time.monotonic() - began)


def run(command, env, timeout=60):
    """Runs a program to its end."""
    began = time.monotonic()
    return ended(start(command, env), timeout, began)


def wait_until(condition, seconds, what):
    """Polls CONDITION until it holds; fails the test when it does not within SECONDS of a quiet machine."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds * PATIENCE} s: {what() if callable(what) else what}")
        time.sleep(0.01)


def lines_of_a_kind(began):
    """How many log lines of one kind a server has written at most since the moment BEGAN: of a flood, 20 in 10 s, and a sum."""
    return 21 * (1 + (time.monotonic() - began) // 10)


def with_few_files(folder):
    """The server as a program that may have no more than 256 descriptors: its bounds for silent connections are reached in less than
    the 10 s after which it closes them."""
    program = folder / "few-files"
    program.write_text(f'#!/bin/sh\nulimit -n 256\nexec {SERVER} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def listens(path):
    """Whether somebody listens at the unix socket PATH; its file is there a moment before (proc_net(5))."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
        return any(line[3:4] == ["00010000"] and line[7:] == [str(path)] for line in map(str.split, sockets))


def is_alive(pid):
    """Whether the process exists and is more than a zombie."""
    return state_and_parent(pid)[0] not in (None, "Z", "X")


def state_and_parent(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None, None
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)


def name_of(pid):
    """The name that a process gives itself; None when it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


def children_of(pid):
    """The living children of a process."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        state, parent = state_and_parent(entry)
        if parent == pid and state not in ("Z", "X"):
            found.append(int(entry))
    return found


UNIX_PATH_MAX = 107


class Server:
    """One cricket-rpc-server with a port, a socket, a cache and a log of its own.

    DEFAULT_UNIX: leaves the socket where the server puts it by itself, in XDG_RUNTIME_DIR.
    OWN_SESSION: False for a server with many busy workers. Linux shares processors between sessions (sched(7),
    autogroup); in one of its own, the server's process once waited 14 s for a processor.
    """

    def __init__(self, folder, *options, default_unix=False, own_session=True, program=SERVER, **env):
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.unix = folder / ("cricket.sock" if default_unix else "s")
        self.pid_file = folder / "pid"
        self.log_file = folder / "log"
        command = [program, "--driver", DRIVER, "--listen", f"127.0.0.1:{self.port}",
                   "--pid-file", self.pid_file, *options]
        if default_unix:
            env["XDG_RUNTIME_DIR"] = str(folder)
        else:
            command += ["--unix", self.unix]
        env = clean_env(CRICKET_CACHE_DIR=str(folder / "cache"), **env)
        env.pop("ASAN_OPTIONS", None)
        self.log_file.write_text("", encoding="utf-8")
        with open(self.log_file, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([str(c) for c in command], env=env, stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL,
                                            start_new_session=own_session)
        try:
            wait_until(self.answers, 10, "the server's unix socket answers")
        except BaseException:
            self.kill()
            print(self.log())
            raise

    def answers(self):
        """Whether somebody accepts connections on the unix socket, and the server's last socket is there, too."""
        if self.process.poll() is not None:
            pytest.fail(f"the server ended with {self.process.returncode}:\n{self.log()}")
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(str(self.unix))
            except OSError:
                return False
        last = pathlib.Path(f"{self.unix}.status")
        return listens(last) or len(str(last)) > UNIX_PATH_MAX or "--ctl-socket" in self.process.args

    def address(self, transport):
        """What REMOTE_GPU_ADDRESS has to say."""
        return f"127.0.0.1:{self.port}" if transport == "tcp" else f"{transport}:{self.unix}"

    def log(self):
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def findings(self):
        """The log without the lines of a leak check that could not be made, as where its process was killed meanwhile."""
        return re.sub(r"==\d+==.*LeakSanitizer (has encountered a fatal error|does not work under ptrace).*", "", self.log())

    def workers(self):
        """The worker processes that have a client. Each has given itself its name before it answers the client; a process that
        is being forked or executed, for any purpose, has another one. A restored worker is the child of the process that has
        restored it."""
        return [pid for pid in children_of(self.process.pid) if name_of(pid) in ("cricket-worker", "cricket-restore")]

    def has_workers(self, count):
        """Waits for those of programs that have ended to go, and for a session's to be there."""
        wait_until(lambda: len(self.workers()) == count, 5, f"{count} workers")

    def spares(self):
        """The worker processes that have none yet."""
        return [pid for pid in children_of(self.process.pid) if name_of(pid) == "cricket-spare"]

    def broker(self):
        """The memory broker's process, or None."""
        return next((p for p in children_of(self.process.pid) if name_of(p) == "cricket-broker"),
                    None)

    def knows_sessions(self):
        """Whether there are sessions for the server: it hears of a worker's end a moment later, and records that before it answers."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(HANG)
            try:
                s.connect(f"{self.unix}.status")
                s.sendall(b'{"command": "status"}\n')
                with s.makefile() as reply:
                    sessions = json.loads(reply.readline())["sessions"]
                s.shutdown(socket.SHUT_WR)
                return bool(sessions or s.recv(1))      # the server has closed its end, too
            except (OSError, ValueError):
                return False    # it has ended, or has no such socket

    def wait_idle(self, seconds=5):
        """Waits until no session is left."""
        wait_until(lambda: not self.workers(), seconds, f"workers {self.workers()} are gone")
        wait_until(lambda: not self.knows_sessions(), seconds, "the server has recorded their ends")

    def kill(self):
        """Ends server and workers at once, without a word: the server first, or it tells clients of its workers' ends."""
        children = children_of(self.process.pid)
        if self.process.poll() is None:
            self.process.kill()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def end(self):
        """For the end of a test: stops it, if the test has not, and leaves nothing behind."""
        if self.process.poll() is None:
            self.stop()
        self.kill()

    def stop(self):
        """Asks the server to end and sees that it does so cleanly, and its workers with it."""
        workers = children_of(self.process.pid)
        assert self.process.poll() is None, f"the server has died:\n{self.log()}"
        self.process.terminate()
        try:
            status = self.process.wait(timeout=10 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"the server does not end on SIGTERM:\n{self.log()}")
        assert status == 0, f"the server ended with {status}:\n{self.log()}"
        wait_until(lambda: not any(map(is_alive, workers)), 2, "workers go with their server")
        assert not self.pid_file.exists() and not self.unix.exists()
        findings = self.findings()
        assert "Sanitizer" not in findings and "runtime error" not in findings, findings


def in_turn(items):
    """Long tests first, so that others run beside them; last those that want to be alone.

    xdist begins by giving each worker a piece of the list, of a quarter of its share: each piece begins with
    some of the long ones, or one worker would have them all.
    """
    slow = [i for i in items if i.get_closest_marker("slow")]
    alone = [i for i in items if i.get_closest_marker("alone")]
    rest = [i for i in items if i not in slow and i not in alone]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    piece = max(2, len(items) // workers // 4)
    ordered = []
    for worker in range(workers):
        first = slow[worker::workers]
        more = max(0, piece - len(first))
        ordered += first + rest[:more]
        rest = rest[more:]
    return ordered + rest + alone


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: no other test runs at the same time")
    config.addinivalue_line("markers", "quick: a choice of tests that take seconds (make check-quick)")
    config.addinivalue_line("markers", "slow: takes long, and is begun first")
    config.addinivalue_line("markers", "threads: threads work together in client, server or program (make check TSAN=1)")


SKIPPED = set()


def function_of(nodeid):
    """A test without its parameters, which may depend on what is installed."""
    return nodeid.split("[", maxsplit=1)[0]


def pytest_runtest_logreport(report):
    if report.skipped:
        SKIPPED.add(function_of(report.nodeid))


def pytest_collectreport(report):
    pytest_runtest_logreport(report)    # a whole file: pytest.importorskip


def pytest_sessionfinish():
    """CRICKET_TEST_SKIPPED=FILE: appends the tests that were skipped; CI runs them where nothing is missing."""
    if "CRICKET_TEST_SKIPPED" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ["CRICKET_TEST_SKIPPED"], "a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in sorted(SKIPPED))


def chosen(items):
    """CRICKET_TEST_ONLY=FILE: of ITEMS, the tests and the files of tests that it names."""
    if "CRICKET_TEST_ONLY" not in os.environ:
        return items
    names = set(pathlib.Path(os.environ["CRICKET_TEST_ONLY"]).read_text(encoding="utf-8").splitlines())
    return [i for i in items if names & {function_of(i.nodeid), i.nodeid.split("::", maxsplit=1)[0]}]


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test that hangs fails, with the line where it waits."""
    def give_up(*_):
        pytest.fail(f"{pyfuncitem.name} has not ended in {LONGEST * SLOW} s")
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST * SLOW)
    yield
    signal.alarm(0)


@pytest.fixture(autouse=True)
def company(request):
    """Lets a test that is marked `alone` wait for all others of this tree, and the others for it: those with ASan and those with
    TSan may run at the same time."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    mode = fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT.parent / "turn.lock", "w") as turn, open(OUT.parent / "company.lock", "w") as lock:
        fcntl.flock(turn, fcntl.LOCK_EX)        # who waits to be alone lets nobody pass
        fcntl.flock(lock, mode)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield


def pytest_collection_modifyitems(items):
    """Without the products there is nothing to test: say so once, as a failure and not a skip."""
    items[:] = in_turn(chosen(items))
    missing = [str(p) for p in (SERVER, CLIENT, EMULATED) if not p.exists()]
    if items and missing:
        how = "make cpu" + (" SAN=1" if SAN else " TSAN=1" if TSAN else "")
        raise pytest.UsageError(f"not built: {', '.join(missing)} ({how})")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that all tests share which leave it as it was."""
    s = Server(tmp_path_factory.mktemp("server"))
    yield s
    s.stop()


@pytest.fixture
def own_server(tmp_path):
    """A server for one test, which may kill it."""
    s = Server(tmp_path / "server")
    yield s
    s.end()


@pytest.fixture
def direct_env():
    """The environment in which a program finds the emulated driver as its libcuda.so.1."""
    env = clean_env(LD_LIBRARY_PATH=str(PRODUCTS / "emu"))
    if runtime():
        env["LD_PRELOAD"] = runtime()
    return env


@pytest.fixture
def app():
    """The path of a test program; skips the test where it could not be built."""
    def path(name):
        program = APPS / name
        if not program.exists():
            pytest.skip(f"{name} is not built (no nvcc: make deps)")
        return program
    return path


@pytest.fixture
def run_app(server, app, direct_env):
    """run_app(NAME, TRANSPORT): runs a test program through the shared server, or on the
    emulated driver itself (TRANSPORT "direct")."""
    def go(name, transport, timeout=60, **env):
        if transport == "direct":
            return run([app(name)], dict(direct_env, **env), timeout)
        return run([app(name)], client_env(server.address(transport), **env), timeout)
    return go
