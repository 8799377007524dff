"""tests/e2e/test_words.py - what the user of a program reads: why a session ends, that it is about to, that it is suspended."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import DRIVER, HANG, SLOW, TRANSPORTS, Server, client_env, run, wait_until
from test_arena import HEAD
from test_control import Asker
from test_policy import MIB, MORE, serve  # pylint: disable=unused-import
from tls import Authority

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="needs a GPU of known size")

# Says what a call returns for each line of its stdin. The client's thread that listens needs a connection: the call has taken
# the one that a session begins with.
PROGRAM = HEAD + MORE + """
current()
p = alloc(MIB)
cuda.cuCtxSynchronize()
say("holds")
while line():
    say(cuda.cuCtxSynchronize())
"""
DRAIN = "3s" if SLOW == 1 else "15s"
WAYS = (*TRANSPORTS, "tls")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.files = authority.sign("server")
    return authority


@pytest.fixture
def begin(tmp_path, authority):
    """Begins a program over a transport, on a server of its own."""
    ends = []

    def go(way, *options, **env):
        if way == "tls":
            options += ("--tls-cert", authority.files[0], "--tls-key", authority.files[1])
            env["CRICKET_TLS_CA"] = str(authority.ca)
        server = Server(tmp_path / "server", *options)
        ends.append(server.kill)
        program = subprocess.Popen([sys.executable, "-c", PROGRAM], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=client_env(server.address("tcp" if way == "tls" else way), **env))
        ends.extend([program.kill, program.communicate])
        assert program.stdout.readline() == "holds\n", program.stderr.read()
        return server, program

    yield go
    for end in ends[1:] + ends[:1]:
        end()


def name_of(server):
    return Asker(server).ask("sessions")["sessions"][0]["session"]


def is_over(server, program, why):
    """The last line says @why, at once, and nothing follows."""
    assert re.fullmatch(rf"cricket: ERROR: the GPU server at \S+ is lost \({why}\): every CUDA call fails from now on\n",
                        line := program.stderr.readline()), line
    wait_until(lambda: not server.workers(), 5, "the worker has ended")
    out, err = program.communicate("x\n", timeout=HANG)
    assert (out, err) == ("46\n", "")


@pytest.mark.parametrize("way", WAYS)
def test_who_ended_the_session(begin, way):
    server, program = begin(way)
    assert Asker(server).ask("end", session=name_of(server))["ok"]
    is_over(server, program, "an administrator has ended the session")
    assert "a command has ended it" in server.log()
    server.stop()


@pytest.mark.parametrize("way", WAYS)
def test_that_the_server_stops(begin, way, tmp_path):
    audit = tmp_path / "audit"
    server, program = begin(way, "--audit", audit)
    server.stop()
    is_over(server, program, "the server stops")
    assert '"cause":"the server stops"' in audit.read_text().replace(": ", ":")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["signal", "command"])
def test_that_the_server_will_stop(begin, way, how, tmp_path):
    audit = tmp_path / "audit"
    server, program = begin(way, "--audit", audit, *(("--drain", DRAIN) if how == "signal" else ()))
    if how == "signal":
        server.process.terminate()
    else:
        assert Asker(server).ask("drain", time=DRAIN)["session_count"] == 1
    assert re.fullmatch(r"cricket: WARNING: the GPU server at \S+: the session ends in [0-9]+s at most: the server stops \(drain\)\n",
                        line := program.stderr.readline()), line
    print("x", file=program.stdin, flush=True)
    assert program.stdout.readline() == "0\n"
    is_over(server, program, r"the server stops \(drain\)")
    assert server.process.wait(timeout=HANG) == 0
    end = [event for event in map(json.loads, audit.read_text().splitlines()) if event["event"] == "session-end"]
    assert [event["cause"] for event in end] == ["the server stops (drain)"]


def test_a_program_that_just_began_reads_it_too(begin):
    """Its thread that listens is not there yet."""
    server, program = begin("unix")
    program.kill()
    program.communicate()
    server.wait_idle()
    for _ in range(3):
        program = subprocess.Popen([sys.executable, "-c", PROGRAM], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=client_env(server.address("unix")))
        wait_until(lambda pid=program.pid: [s for s in Asker(server).ask("sessions")["sessions"] if s["client_pid"] == pid], 20, "a session")
        assert Asker(server).ask("end", session=name_of(server))["ok"]
        line = program.stderr.readline()
        program.kill()
        program.communicate()
        assert "(an administrator has ended the session)" in line, line
        server.wait_idle()


@pytest.mark.parametrize("way", WAYS)
def test_that_the_session_stands_still_and_goes_on(begin, way):
    server, program = begin(way)
    name = name_of(server)
    began = time.monotonic()
    assert Asker(server).ask("suspend", session=name)["ok"]
    assert re.fullmatch(r"cricket: WARNING: the GPU server at \S+: the session is suspended: CUDA calls wait until it is resumed\n",
                        line := program.stderr.readline()), line
    assert time.monotonic() - began > 0.5
    print("x", file=program.stdin, flush=True)
    assert Asker(server).ask("resume", session=name)["ok"]
    assert re.fullmatch(r"cricket: WARNING: the GPU server at \S+: the session is resumed after \d+ s\n",
                        line := program.stderr.readline()), line
    assert program.stdout.readline() == "0\n"
    out, err = program.communicate("", timeout=HANG)
    assert (out, err, program.returncode) == ("", "", 0)
    server.stop()


def test_a_short_stop_and_one_that_the_program_does_not_notice_are_no_news(begin):
    """On a busy machine, a stop may take long enough to be news."""
    server, program = begin("unix")
    name = name_of(server)
    began = time.monotonic()
    assert Asker(server).ask("suspend", session=name)["ok"] and Asker(server).ask("resume", session=name)["ok"]
    stopped = time.monotonic() - began
    assert Asker(server).ask("suspend", session=name, until="use")["ok"]
    time.sleep(2)           # longer than until it would be told
    began = time.monotonic()
    out, err = program.communicate("x\n", timeout=HANG)
    stopped = max(stopped, time.monotonic() - began)
    assert out == "0\n" and (err == "" or stopped > 1), err
    server.stop()


def test_a_session_that_is_suspended_is_ended_with_its_reason(begin):
    server, program = begin("unix")
    name = name_of(server)
    assert Asker(server).ask("suspend", session=name)["ok"]
    assert Asker(server).ask("end", session=name)["ok"]
    is_over(server, program, "an administrator has ended the session")


def test_an_upgrade_tells_nothing_twice(begin):
    server, program = begin("unix")
    name = name_of(server)
    assert Asker(server).ask("suspend", session=name)["ok"]
    assert "is suspended" in program.stderr.readline()
    assert Asker(server).ask("upgrade")["ok"]
    wait_until(lambda: server.log().count("cricket-rpc-server ") > 1, 20, "the new program")
    assert Asker(server).ask("resume", session=name_of(server))["ok"]
    assert "is resumed after" in program.stderr.readline()
    assert program.communicate("x\n", timeout=HANG) == ("0\n", "")


def test_a_program_that_does_not_read_does_not_hold_up_the_end(begin):
    """It is stopped, as by Ctrl-Z: the server ends it in its time; and it reads why when it goes on."""
    server, program = begin("unix")
    name = name_of(server)
    os.kill(program.pid, signal.SIGSTOP)
    assert Asker(server).ask("end", session=name)["ok"]
    wait_until(lambda: not server.workers(), 5, "the worker has ended")
    os.kill(program.pid, signal.SIGCONT)
    assert "is lost" in program.stderr.readline()
    server.stop()


# --- limits

GREEDY = HEAD + MORE + """
current()
held, err = [], 0
while not err and len(held) < 64:
    p = ctypes.c_uint64()
    err = cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(8 * MIB))
    held.append(p)
again = [cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(8 * MIB)) for _ in range(3)]
say(err, *again)
"""


@pytest.mark.parametrize("way", TRANSPORTS)
@pytest.mark.parametrize("policy, env, line", [
    ("", {"CRICKET_MEMORY": "32M"}, r"the session's limit is 32M of each GPU \(--mem, CRICKET_MEMORY\)"),
    ("", {"CRICKET_MEMORY": "32M", "CRICKET_DEBUG": "no-arena"}, r"the session's limit is 32M of each GPU \(--mem, CRICKET_MEMORY\)"),
    ('memory = "32M";', {}, "the policy gives your sessions 32M of each GPU"),
    ('memory_total = "32M";', {}, "the policy gives your sessions 32M on all GPUs together")])
def test_which_limit_refused_memory(serve, way, policy, env, line):
    """Once, however often it is reached, and before the call returns."""
    result = run([sys.executable, "-c", GREEDY], client_env(serve(f"default: {{ {policy} }};").address(way), **env))
    assert (result.status, result.out) == (0, "2 2 2 2\n")
    assert re.fullmatch(rf"cricket: WARNING: the GPU server at \S+: no more GPU memory: {line}\n", result.err), result.err


def test_which_limit_refused_a_context(serve):
    code = HEAD + "cuda.cuInit(0); c = ctypes.c_void_p(); say([cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0) for _ in range(3)])"
    result = run([sys.executable, "-c", code], client_env(serve("default: { contexts = 1; };").address("unix")))
    assert result.out == "[0, 2, 2]\n"
    assert len(result.lines_about("no more contexts: the policy gives your sessions 1")) == 1, result.err


def test_a_gpu_that_is_full_is_no_limit(serve):
    result = run([sys.executable, "-c", GREEDY], client_env(serve("default: { };").address("unix")))
    assert (result.out, result.err) == ("2 2 2 2\n", "")


# --- what the program is called, and variables

@pytest.fixture
def listed(tmp_path):
    """The names by which a server lists a program: in the sessions, the status, the audit log and ps."""
    audit = tmp_path / "audit"
    server = Server(tmp_path / "server", "--audit", audit)
    ends = [server.kill]

    def names(*command, **env):
        program = subprocess.Popen([str(c) for c in command], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=client_env(server.address("unix"), **env), cwd=tmp_path)
        ends.insert(0, program.kill)
        assert program.stdout.readline() == "holds\n"
        found = {Asker(server).ask("sessions")["sessions"][0]["program"],
                 Asker(server).ask("status")["sessions"][0]["program"],
                 re.findall(r'"program": *"([^"]*)"', audit.read_text())[-1]}
        title = pathlib.Path(f"/proc/{server.workers()[0]}/cmdline")
        wait_until(lambda: max(found).encode() in title.read_bytes(), 5, "ps shows it")
        program.communicate("\n", timeout=HANG)
        server.wait_idle()
        text = server.log() + audit.read_text()
        assert "secret" not in text
        return found

    yield names
    for end in ends:
        end()


def test_a_program_is_called_by_its_script(listed, tmp_path):
    code = PROGRAM.replace("while line():", "if line():")
    (tmp_path / "train.py").write_text(code)
    (tmp_path / "mod").mkdir()
    (tmp_path / "mod" / "__main__.py").write_text(code)
    python = sys.executable
    assert listed(python, "-u", tmp_path / "train.py", "--token", "secret") == {"train.py"}
    assert listed(python, "-um", "mod", "secret") == {"python -m mod"}
    kernel = tmp_path / "kernel-1.json"
    assert listed(python, tmp_path / "train.py", kernel, JPY_SESSION_NAME="/home/secret/analysis.ipynb") == {"analysis.ipynb"}
    assert listed(python, tmp_path / "train.py", JPY_SESSION_NAME="secret.ipynb") == {"train.py"}
    (tmp_path / "a\x9b\u202eb.py").write_text(code)
    assert listed(python, tmp_path / "a\x9b\u202eb.py") == {"a??b.py"}
    assert listed(python, "-c", code, "secret") == {os.path.basename(python)}
    (tmp_path / "spawn.py").write_text(f"""
import multiprocessing, sys
def work(end):
    exec({code.replace("if line():", "if end.recv():")!r}, {{"end": end}})
if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=work, args=(there,))
    process.start()
    here.send(sys.stdin.readline())
    process.join()
""")
    assert listed(python, tmp_path / "spawn.py", "secret") == {"spawn.py"}


@pytest.mark.parametrize("hidden", ["-1", "NoDevFiles", "none"])
def test_gpus_that_are_hidden_on_purpose_are_no_mistake(server, hidden):
    code = "import ctypes; c = ctypes.CDLL(None); n = ctypes.c_int(); c.cuInit(0); c.cuDeviceGetCount(ctypes.byref(n)); print(n.value)"
    result = run([sys.executable, "-c", code], client_env(server.address("unix"), CUDA_VISIBLE_DEVICES=hidden))
    assert (result.out, result.err) == ("0\n", "")


@pytest.mark.parametrize("shown, seen", [("1", "no GPU; the first one is 0"), ("0,1", "only those before this entry")])
def test_a_gpu_that_the_server_does_not_have_is_told(server, app, shown, seen):
    result = run([app("vector_add")], client_env(server.address("unix"), CUDA_VISIBLE_DEVICES=shown))
    assert f"CUDA_VISIBLE_DEVICES={shown}: an entry is not a GPU of the server, which has 1: the program sees {seen}\n" in result.err
    assert (result.status == 0) == (shown != "1")


def test_a_level_that_is_none_is_told(server, app):
    result = run([app("vector_add")], client_env(server.address("unix"), CRICKET_LOG="bogus"))
    assert result.status == 0 and result.err.count("\n") == 1
    assert "CRICKET_LOG=bogus: not a level (none, error, warning, info, debug, trace)" in result.err
