"""tests/e2e/test_server.py - the server as a program: options, files, signals, a second one."""
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from conftest import DRIVER, HANG, SERVER, Server, children_of, clean_env, client_env, ended, listens, run, start, wait_until
from ports import free_port
from test_command import Holder


def serve(*options, timeout=10):
    """Runs a server that is expected to end at once."""
    env = clean_env()
    env.pop("ASAN_OPTIONS", None)
    return run([SERVER, *options], env, timeout)


def test_help_names_every_option_and_variable():
    result = serve("--help")
    assert result.status == 0 and result.err == ""
    for word in ("--driver", "--listen", "--unix", "--pid-file"):
        assert word in result.out


@pytest.mark.parametrize("options", [("--no-such-option",), ("--listen",), ("stray",),
                                     ("--listen", "127.0.0.1:70000"),
                                     ("--listen", "256.0.0.1:1000")])
def test_wrong_options_are_refused(options, tmp_path):
    if len(options) == 2:
        options += ("--unix", str(tmp_path / "s"), "--driver", "emu")
    result = serve(*options)
    assert result.status not in (0, 124) and result.status < 128
    assert result.err != ""


def log_of(tmp_path, *options, **env):
    """What a server with these options logs."""
    server = Server(tmp_path / "server", *options, **env)
    server.end()
    return server.log()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_without_a_token_other_hosts_are_refused(address, tmp_path):
    result = serve("--driver", "emu", "--unix", tmp_path / "s", "--listen", "127.0.0.1:0", "--listen", address)
    assert result.status == 2
    assert "--token-file" in result.err and "--insecure" in result.err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.1.2.3:0", "[::1]:0", "[::ffff:127.0.0.1]:0"])
def test_this_hosts_own_addresses_need_no_token(address, tmp_path):
    assert "INSECURE" not in log_of(tmp_path, "--listen", address)


def test_other_hosts_are_served_with_a_token(tmp_path):
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    assert "INSECURE" not in log_of(tmp_path, "--listen", "0.0.0.0:0", "--token-file", tmp_path / "token")


def test_other_hosts_are_served_with_the_environments_token(tmp_path):
    assert "INSECURE" not in log_of(tmp_path, "--listen", "0.0.0.0:0", CRICKET_TOKEN="secret")


def test_an_insecure_server_says_so(tmp_path):
    assert "INSECURE" in log_of(tmp_path, "--listen", "0.0.0.0:0", "--insecure")


def test_a_driver_that_is_none_is_named(tmp_path):
    result = serve("--driver", tmp_path / "libnothing.so", "--unix", tmp_path / "s", "--listen",
                   f"127.0.0.1:{free_port()}")
    assert result.status not in (0, 124) and result.status < 128
    assert "libnothing.so" in result.err


@pytest.mark.skipif(DRIVER != "emu", reason="this machine has a driver")
def test_without_a_gpu_it_says_what_runs_the_kernels(tmp_path):
    here = ("--listen", "127.0.0.1:0", "--unix", tmp_path / "s")
    result = serve("--driver", "cuda", *here)
    assert result.status == 1 and "libcuda.so.1" in result.err and "use --driver emu" in result.err
    env = clean_env()
    env.pop("ASAN_OPTIONS", None)
    server = start([SERVER, *here], env)
    try:
        lines = iter(server.stderr.readline, "")
        assert "no GPU here, kernels run on the CPU" in next(line for line in lines if "driver" in line)
    finally:
        server.terminate()
        ended(server, 10)


@pytest.mark.parametrize("log", ["error", "warning"])
def test_a_driver_that_crashes_is_none(log, tmp_path):
    (tmp_path / "crash.c").write_text("void __attribute__((constructor)) f(void) "
                                      "{ __builtin_trap(); }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1",
                    tmp_path / "crash.c"], check=True)
    server = Server(tmp_path / "server", "--driver", "auto", "--log", log,
                    LD_LIBRARY_PATH=str(tmp_path))
    try:
        result = run([sys.executable, "-c", "import ctypes; "
                      "print(ctypes.CDLL('libcuda.so.1').cuInit(0))"],
                     client_env(server.address("unix")))
        assert result.out == "0\n", result.err
        assert ("crashed" in server.log()) == (log == "warning")
    finally:
        server.kill()


def test_a_second_server_on_the_same_addresses_says_so(own_server, tmp_path):
    for options in (("--listen", f"127.0.0.1:{own_server.port}", "--unix", tmp_path / "other"),
                    ("--listen", f"127.0.0.1:{free_port()}", "--unix", own_server.unix)):
        result = serve("--driver", "emu", *options)
        assert result.status == 1, result.err
        assert f"cricket-rpc-server (pid {own_server.process.pid}) uses the address already" in result.err
        assert "listening on" not in result.err
    assert own_server.answers()


@pytest.mark.parametrize("address, status, words", [
    ("127.0.0.1:80971", [2], "not HOST, HOST:PORT"), ("127.0.0.1:", [2], "not HOST, HOST:PORT"),
    ("nohost.invalid", [1, 2], "no host has this name|the name servers"), ("203.0.113.7:0", [1], "this host does not have the address"),
])
def test_an_address_where_it_cannot_listen_is_explained(address, status, words, tmp_path):
    result = serve("--driver", "emu", "--listen", address, "--unix", tmp_path / "s")
    assert result.status in status and re.search(f"--listen {re.escape(address)}: ({words})", result.err), result.err
    assert "listening on" not in result.err


def test_it_listens_only_when_all_is_right(tmp_path):
    (tmp_path / "cert.pem").write_text("no certificate\n")
    (tmp_path / "key.pem").write_text("no key\n")
    (tmp_path / "key.pem").chmod(0o600)
    result = serve("--driver", "emu", "--listen", "127.0.0.1:0", "--unix", tmp_path / "s", "--tls-cert", tmp_path / "cert.pem",
                   "--tls-key", tmp_path / "key.pem")
    assert result.status == 2 and f"certificate {tmp_path}/cert.pem: not in PEM form" in result.err
    assert "listening on" not in result.err


@pytest.mark.parametrize("option", ["--pid-file", "--audit"])
def test_a_link_in_place_of_a_file_is_refused(option, tmp_path):
    """In a folder that others can write, it could lead to any file of the server's user."""
    (tmp_path / "file").write_text("precious\n")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    result = serve("--driver", "emu", "--listen", "none", "--unix", tmp_path / "s", option, tmp_path / "link")
    assert result.status == 2 and f"{tmp_path}/link: it is a symbolic link" in result.err
    assert (tmp_path / "file").read_text() == "precious\n"


def test_other_signals_end_neither_server_nor_session(own_server, tmp_path):
    holder = Holder(own_server, clean_env(XDG_CONFIG_HOME=str(tmp_path)))
    children = children_of(own_server.process.pid)
    for number in (signal.SIGUSR1, signal.SIGQUIT, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR,
                   signal.SIGSTKFLT, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGRTMIN, signal.SIGRTMAX):
        for pid in (own_server.process.pid, *children):
            os.kill(pid, number)
        assert holder.call() == 0 and own_server.process.poll() is None, number
        assert children_of(own_server.process.pid) == children, number
    holder.end()


def with_files(most):
    """Runs in a child: descriptors that it may have."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def test_a_server_that_may_open_few_files_does_not_start(tmp_path):
    result = subprocess.run([SERVER, "--driver", "emu", "--listen", "127.0.0.1:0", "--unix", tmp_path / "s"], env=clean_env(), text=True,
                            capture_output=True, timeout=HANG, preexec_fn=lambda: with_files(96), check=False)
    assert result.returncode == 1 and "may open only 96 files at a time, and needs 128" in result.stderr


def test_silent_connections_do_not_end_a_server_with_few_files(app, tmp_path):
    server = subprocess.Popen([SERVER, "--driver", "emu", "--listen", "127.0.0.1:0", "--unix", tmp_path / "s"], env=clean_env(), text=True,
                              stderr=subprocess.PIPE, preexec_fn=lambda: with_files(128))
    try:
        port = int(next(line for line in server.stderr if "listening on 127" in line).rpartition(":")[2])
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(150)]
        done = run([app("vector_add")], client_env(f"127.0.0.1:{port}"))
        assert done.status == 0 and server.poll() is None, done.err
        del silent
    finally:
        server.terminate()
        assert server.wait(timeout=HANG) == 0


def test_the_socket_of_a_dead_server_is_replaced(tmp_path):
    path = tmp_path / "server" / "s"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    Server(tmp_path / "server").stop()


def test_the_pid_file_holds_the_supervisors_pid(own_server):
    assert int(own_server.pid_file.read_text()) == own_server.process.pid


def test_what_has_taken_the_place_of_its_files_stays(own_server):
    files = own_server.unix, own_server.unix.with_name("s.m3"), own_server.pid_file
    wait_until(lambda: listens(f"{own_server.unix}.m3"), 10, "the broker has its socket")
    for path in files:
        path.unlink()
        path.write_text("another's")
    own_server.process.terminate()
    assert own_server.process.wait(timeout=HANG) == 0
    assert [path.name for path in files if not path.exists()] == []


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(tmp_path, signal_number):
    server = Server(tmp_path / "server")
    os.kill(server.process.pid, signal_number)
    try:
        assert server.process.wait(timeout=HANG) == 0, server.log()
        assert not server.pid_file.exists() and not server.unix.exists()
    finally:
        server.kill()


PROGRAM = """
import ctypes, threading
cuda = ctypes.CDLL(None)
context, at = ctypes.c_void_p(), (ctypes.c_size_t * 2)()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
def ask():
    assert cuda.cuCtxSetCurrent(context) == 0
    print(cuda.cuMemGetInfo_v2(ctypes.byref(at), ctypes.byref(at, 8)), flush=True)
ask()
input()
thread = threading.Thread(target=ask)     # with a connection of its own
thread.start()
thread.join()
input()
"""


@pytest.fixture(name="drained")
def drained_server(tmp_path):
    """A server that has been told to stop, and a program that runs on it."""
    ends = []

    def begin(time):
        server = Server(tmp_path / "server", "--drain", time)
        program = subprocess.Popen([sys.executable, "-c", PROGRAM], env=client_env(server.address("tcp")), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        ends.extend([program.kill, program.communicate, server.kill])
        assert program.stdout.readline() == "0\n"
        server.process.terminate()
        wait_until(lambda: "--drain" in server.log(), 10, "the server drains")
        return server, program

    yield begin
    for end in ends:
        end()


def test_a_server_that_drains_lets_running_programs_end(drained, app):
    server, program = drained("10m")
    result = run([app("vector_add")], client_env(server.address("unix")))
    assert result.status != 0 and "it is stopping" in result.err
    print(file=program.stdin, flush=True)
    assert program.stdout.readline() == "0\n"
    assert server.process.poll() is None
    program.communicate("\n", timeout=HANG)
    assert program.returncode == 0
    assert server.process.wait(timeout=HANG) == 0, server.log()


def test_a_server_drains_no_longer_than_it_should(drained):
    server, program = drained("1s")
    assert server.process.wait(timeout=HANG) == 0
    assert "1 programs that still run" in server.log()
    _, err = program.communicate("\n\n", timeout=HANG)
    assert "is lost" in err


def test_a_second_signal_ends_a_server_that_drains(drained):
    server, _ = drained("1h")
    server.process.terminate()
    assert server.process.wait(timeout=HANG) == 0


@pytest.mark.parametrize("time", ("10x", "m", "1mm", "-1s", "900h", ""))
def test_a_time_has_a_unit(time):
    result = run([SERVER, "--drain", time], clean_env())
    assert result.status == 2 and "--drain" in result.err


def test_each_line_of_its_log_has_a_date(own_server):
    for line in own_server.log().splitlines():
        assert re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (INFO|WARNING|ERROR): ", line), line


def test_connections_that_say_nothing_do_not_keep_others_out(own_server, app):
    idle = [socket.create_connection(("127.0.0.1", own_server.port)) for _ in range(50)]
    try:
        result = run([app("vector_add")], client_env(own_server.address("tcp")), 30)
        assert result.status == 0, result.err
    finally:
        for connection in idle:
            connection.close()


def test_a_hundred_sessions_leave_no_descriptor_behind(own_server, app):
    def descriptors():
        return len(os.listdir(f"/proc/{own_server.process.pid}/fd"))

    run([app("cuda_memset_async")], client_env(own_server.address("unix")), 30)
    own_server.wait_idle()
    before = descriptors()
    for _ in range(10):
        clients = [start([app("cuda_memset_async")], client_env(own_server.address("unix")))
                   for _ in range(10)]
        for client in clients:
            assert ended(client, 60).status == 0
    own_server.wait_idle()
    wait_until(lambda: descriptors() <= before, 2, f"{descriptors()} descriptors, {before} before")


@pytest.fixture
def rpcbind():
    """An rpcbind on this host, ours where none runs; rpcinfo's lines about program 99."""
    if not shutil.which("rpcbind") or not shutil.which("rpcinfo"):
        pytest.skip("rpcbind is not installed")

    def listed():
        out = subprocess.run(["rpcinfo", "-p", "127.0.0.1"], capture_output=True, text=True,
                             check=False, timeout=HANG)
        return (out.returncode == 0,
                [line.split() for line in out.stdout.splitlines() if line.split()[0] == "99"])

    process = None
    if not listed()[0]:
        if os.geteuid() != 0:
            pytest.skip("no rpcbind runs, and only root can start one")
        os.makedirs("/run/rpcbind", exist_ok=True)
        # Not with -h: Debian 12's rpcbind 1.2.6 frees twice then, and aborts.
        process = subprocess.Popen(["rpcbind", "-f"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(50):
            if process.poll() is not None or listed()[0]:
                break
            time.sleep(0.1)
        if not listed()[0]:
            process.kill()
            process.wait()
            pytest.skip("rpcbind cannot be started here")
    yield lambda: listed()[1]
    if process:
        process.terminate()
        process.wait()


@pytest.mark.alone
def test_rpcinfo_shows_program_99_while_the_server_runs(rpcbind, tmp_path):
    if rpcbind():
        pytest.skip("another server is registered on this host")
    server = Server(tmp_path / "server")
    try:
        wait_until(rpcbind, 5, "the server is registered")
        assert rpcbind() == [["99", "1", "tcp", str(server.port)]]
        # What rpcinfo -t sends, the null procedure, is answered without a session.
        ping = subprocess.run(["rpcinfo", "-t", "127.0.0.1", "99", "1"], capture_output=True,
                              text=True, check=False, timeout=HANG)
        assert ping.returncode == 0 and "ready" in ping.stdout, ping.stdout + ping.stderr
        server.stop()
        assert rpcbind() == []
    finally:
        server.kill()


def test_each_line_of_a_json_log_is_an_object(tmp_path, app):
    """Those of workers too."""
    server = Server(tmp_path / "server", "--log-format", "json", "--log", "debug")
    try:
        assert run([app("vector_add")], client_env(server.address("unix"))).status == 0
        server.wait_idle()
    finally:
        server.stop()
    lines = [json.loads(line) for line in server.log().splitlines()]
    assert all(set(line) == {"time", "level", "part", "pid", "message"} for line in lines)
    assert any("session of vector_add" in line["message"] and line["pid"] != server.process.pid for line in lines)
    assert any("listening on" in line["message"] and line["pid"] == server.process.pid for line in lines)


def test_an_unknown_log_format_is_refused():
    result = run([SERVER, "--log-format", "xml"], client_env(None, LD_PRELOAD=""))
    assert result.status == 2 and "--log-format xml: not a format of log lines: text or json" in result.err


@pytest.mark.parametrize("transport", ["unix", "shm"])
def test_a_program_that_executes_another_one_ends_its_session(own_server, transport):
    """Over tcp this looks like a cut connection; docs/sessions.md."""
    code = ("import ctypes, os; cuda = ctypes.CDLL('libcuda.so.1'); assert cuda.cuInit(0) == 0; "
            "assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0) == 0; os.execv('/bin/cat', ['cat'])")
    with subprocess.Popen([sys.executable, "-c", code], env=client_env(own_server.address(transport)), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as program:
        program.stdin.write("here\n")
        program.stdin.flush()
        assert program.stdout.readline() == "here\n"        # the other program runs
        wait_until(lambda: not own_server.workers(), 10, "the session has ended")
        assert program.poll() is None
        program.stdin.close()
