"""tests/e2e/test_discovery.py - servers from DNS, files and lists, and the choice among them (docs/pool.md)."""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest

from conftest import DRIVER, KIND, PRODUCTS, ROOT, SERVER, TRANSPORTS, Server, children_of, clean_env, client_env, ended, is_alive, \
    name_of, run, start, wait_until, with_words
from names import Names
from namespaces import LOOPBACK
from ports import free_port

COMMAND = PRODUCTS / "cricket"
PROGRAM = pathlib.Path(__file__).parent / "pool_program.py"
HOLD = """
import ctypes, sys
c, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
print("init", c.cuInit(0))
assert c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and c.cuCtxSetCurrent(context) == 0
assert c.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(int(sys.argv[1]) << 20)) == 0
print("ready", flush=True)
input()
"""

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="the number and the memory of devices are the emulated driver's")


@pytest.fixture(scope="module", name="shared")
def fixture_shared(tmp_path_factory):
    """Three servers with 1, 2 and 3 devices of 1, 2 and 3 GiB."""
    made = [Server(tmp_path_factory.mktemp("fleet") / str(n),
                   CRICKET_EMU=f"devices={n},memory={n}G,usage={usage(tmp_path_factory, n)}") for n in (1, 2, 3)]
    yield made
    for s in made:
        s.stop()


@pytest.fixture
def servers(shared, home):
    """The same, once nothing is left of the last test's sessions."""
    def free():
        return all(g["free"] == g["memory"] for s in states(home, lists(shared)) for g in s["gpus"])
    wait_until(lambda: not any(s.workers() for s in shared) and free(), 20, "all memory is free")
    return shared


def usage(factory, n):
    """Memory in use, of a server's own: its emulated GPUs are not those of the others."""
    return str(factory.mktemp("usage") / str(n))


@pytest.fixture(name="home")
def fixture_home(tmp_path):
    return clean_env(HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))


@contextlib.contextmanager
def server(folder, *options, **env):
    made = Server(folder, *options, **with_words(env, "CRICKET_EMU", f"usage={folder}-usage"))
    try:
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def holding(address, mebibytes=1):
    """A program that has a session and so much memory."""
    program = subprocess.Popen([sys.executable, "-c", HOLD, str(mebibytes)], env=client_env(address), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert program.stdout.readline() == "init 0\n" and program.stdout.readline() == "ready\n", program.stderr.read()
        yield program
    finally:
        program.communicate("\n", timeout=60)


def lists(servers):
    return ",".join(s.address("tcp") for s in servers)


def chosen(home, source, *options):
    """REMOTE_GPU_ADDRESS, as the command chooses it, with servers in place of their ports."""
    result = run([COMMAND, "env", "-f", "plain", "-s", source, *options], home)
    assert result.status == 0, result.err
    return dict(line.split("=", 1) for line in result.out.splitlines())["REMOTE_GPU_ADDRESS"]


def sessions(s):
    """That have begun so far."""
    return json.loads(run([COMMAND, "status", "--json", s.address("unix")], clean_env()).out)["totals"]["sessions"]


def named(servers, text):
    for i, s in enumerate(servers):
        text = text.replace(s.address("tcp"), "abc"[i])
    return text


# --- what servers tell

def states(home, *words):
    result = run([COMMAND, "servers", "--json", *words], home)
    assert result.status == 0, result.err
    return json.loads(result.out)


@pytest.mark.parametrize("transport", ["tcp", "unix", "shm"])
def test_a_server_tells_its_memory_without_a_session(servers, home, transport):
    before = sessions(servers[1])
    found, = states(home, servers[1].address(transport))
    assert (found["ok"], found["ready"], found["sessions"], found["waiting"]) == (True, True, 0, 0)
    assert [(g["index"], g["memory"], g["free"]) for g in found["gpus"]] == [(0, 2 << 30, 2 << 30), (1, 2 << 30, 2 << 30)]
    assert sessions(servers[1]) == before


def test_the_memory_of_sessions_is_not_free(home, tmp_path):
    with server(tmp_path / "s", CRICKET_EMU="memory=1G") as s, holding(s.address("tcp"), 600):
        found, = states(home, s.address("tcp"))
        assert found["sessions"] == 1 and found["gpus"][0]["free"] < 424 << 20 and found["gpus"][0]["programs"] == 1


def test_the_table_has_a_line_for_each_server(servers, home):
    nowhere = f"127.0.0.1:{free_port()}"
    result = run([COMMAND, "servers", f"{lists(servers)},{nowhere}"], home)
    lines = [line.split() for line in result.out.splitlines()[1:]]
    assert [line[0] for line in lines] == [*lists(servers).split(","), nowhere]
    assert [line[1] for line in lines] == ["ready"] * 3 + ["missing"]
    assert lines[2][4:] == ["3.0"] * 3 and "refused" in result.out.splitlines()[4]


@pytest.mark.parametrize("words", [["typo.invalid"], ["-s", "typo.invalid"], ["--json", "typo.invalid"], ["127.0.0.1:1,typo.invalid"], ["--state", "typo.invalid"]])
def test_a_name_that_is_neither_a_section_nor_a_host_is_an_error(words, home):
    """As for the other commands: nothing on standard output looks like the state of a server."""
    result = run([COMMAND, "servers", *words], home)
    assert (result.status, result.out) == (1, ""), result
    assert f"-s {words[-1]}: no host has the name typo.invalid\n" in result.err and "no section [typo.invalid]" in result.err, result.err
    assert result.err.endswith("check the spelling of the name, or give an IP address\n"), result.err


def test_a_server_that_refuses_is_not_called_missing(home, tmp_path):
    """Nor is one whose key is not the expected one, or whose socket this user may not use."""
    def state(where, **env):
        found, = states({**home, **env}, where)
        line = run([COMMAND, "servers", where], {**home, **env}).out.splitlines()[1]
        assert line.split()[1] == found["state"] and line.endswith(found["why"])
        return found["state"], found["why"]
    assert state(f"127.0.0.1:{free_port()}")[0] == "missing"
    (tmp_path / "token").write_text("secret\n")
    tls = tmp_path / "tls"
    assert run([SERVER, "--new-cert", tls, "127.0.0.1"], clean_env()).status == 0
    with server(tmp_path / "s", "--token-file", tmp_path / "token", "--tls-cert", tls / "cert.pem", "--tls-key", tls / "key.pem",
                "--tls", "required") as s:
        word, why = state(s.address("tcp"), CRICKET_TLS="off", CRICKET_TOKEN="secret")
        assert word == "refused" and "TLS" in why
        word, why = state(s.address("unix"))
        assert word == "refused" and "token" in why
        word, why = state(s.address("tcp"), CRICKET_TLS_PIN="sha256:" + "0" * 64)
        assert word == "failed" and "key" in why
        os.chmod(s.unix, 0)
        if os.getuid():
            assert state(s.address("unix"))[0] == "refused"
    with server(tmp_path / "none", CRICKET_EMU="devices=0") as s:
        assert state(s.address("tcp"))[0] == "failed"


def test_the_state_of_configured_servers(servers, home, tmp_path):
    (tmp_path / "cricket").mkdir()
    (tmp_path / "cricket" / "config").write_text(f"[one]\naddress = {servers[0].address('tcp')}\n"
                                                 f"[all]\naddress = {lists(servers)}\n")
    found = states(home, "--state")
    assert [s["address"] for s in found] == [s.address("tcp") for s in (servers[0], *servers)] and all(s["ok"] for s in found)
    assert [s["name"] for s in found] == ["one", "all", "all", "all"]
    assert [s["name"] for s in states(home)] == ["one", "all"]      # without a question to anyone


def test_who_has_no_token_learns_nothing(home, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    with server(tmp_path / "s", "--token-file", tmp_path / "token") as s:
        found, = states(home, s.address("tcp"))
        assert not found["ok"] and "token" in found["why"] and "gpus" not in found and "sessions" not in found
        found, = states({**home, "CRICKET_TOKEN": "wrong"}, s.address("tcp"))
        assert not found["ok"]
        found, = states({**home, "CRICKET_TOKEN": "secret"}, s.address("tcp"))
        assert found["ok"] and len(found["gpus"]) == 1
        assert s.log().count("a request about the GPUs is refused") == 2
        report = json.loads(run([COMMAND, "status", "--json", s.address("unix")], home).out)
        assert report["totals"]["refused"]["token"] == 2


def test_the_policy_says_which_gpus_and_how_much(home, tmp_path):
    policy = tmp_path / "policy"
    policy.write_text('default: { gpus = "2,0"; memory = "512M"; };\n')
    with server(tmp_path / "s", "--policy", policy, CRICKET_EMU="devices=3,memory=2G") as s:
        found, = states(home, s.address("tcp"))
        assert [g["free"] for g in found["gpus"]] == [512 << 20] * 2
        with holding(s.address("tcp"), 200):
            wait_until(lambda: states(home, s.address("tcp"))[0]["gpus"][0]["free"] <= 312 << 20, 10, "the quota is used")


def scouts(s):
    return [p for p in children_of(s.process.pid) if name_of(p) == "cricket-scout"]


# The process that looks at the GPUs hangs, as it may in the driver.
HANGS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
ssize_t recv(int fd, void *to, size_t size, int flags)
{
	char name[16] = "";
	prctl(PR_GET_NAME, name);
	while (strcmp(name, "cricket-scout") == 0)
		pause();
	return ((ssize_t (*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv"))(fd, to, size, flags);
}
"""


@pytest.mark.skipif(KIND != "", reason="the sanitizer's library must be the first that is preloaded")
def test_a_server_whose_gpus_do_not_report_their_state_says_so(home, tmp_path):
    """Before its client gives up, and although another process looks meanwhile."""
    (tmp_path / "hangs.c").write_text(HANGS, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "hangs.so", tmp_path / "hangs.c", "-ldl"], check=True)
    with server(tmp_path / "s", LD_PRELOAD=tmp_path / "hangs.so") as s:
        found, = states(home, s.address("tcp"))
        assert not found["ok"] and "do not report their state" in found["why"] and "silent" not in s.log()
        hanging = scouts(s)
        s.stop()
        wait_until(lambda: not any(map(is_alive, hanging)), 5, "it ends with the server")


def test_the_process_that_looks_ends_by_itself_and_with_the_server(home, tmp_path):
    with server(tmp_path / "s") as s:
        assert states(home, s.address("tcp"))[0]["ok"]
        first, = scouts(s)
        assert states(home, s.address("tcp"))[0]["ok"] and scouts(s) == [first]     # one for all questions
        os.kill(first, 9)
        wait_until(lambda: not is_alive(first), 5, "it is gone")
        wait_until(lambda: states(home, s.address("tcp"))[0]["ok"], 10, "another one looks")
        second, = scouts(s)
        s.stop()
        wait_until(lambda: not is_alive(second), 5, "it ends with the server")


def test_an_older_server_is_said_to_be_one(home, tmp_path):
    """One that refuses the question's number."""
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse():
        with listener.accept()[0] as s:
            call = s.recv(4096)
            s.sendall(bytes.fromhex("80000018") + call[4:8] + bytes.fromhex("00000001 00000000 00000000 00000000 00000003"))
            s.recv(1)
    threading.Thread(target=refuse, daemon=True).start()
    found, = states(home, f"127.0.0.1:{listener.getsockname()[1]}")
    listener.close()
    assert not found["ok"] and "too old" in found["why"]


# --- the choice

@pytest.mark.parametrize("gpus, memory, choice", [
    (1, None, "c/0|b/0"),
    (1, "2500M", "c/0"),
    (2, "1500M", "c/0,1|b/0,1"),
    (3, None, "c/0,1,2|b/0,1,a/0"),
    (4, "1500M", "c/0,1,2,b/0"),
    (5, None, "c/0,1,2,b/0,1|a/0"),
    (6, "900M", "c/0,1,2,b/0,1,a/0"),
])
def test_the_most_free_memory_in_the_fewest_servers(servers, home, gpus, memory, choice):
    options = ["--gpus", str(gpus), *(["--mem", memory] if memory else [])]
    assert named(servers, chosen(home, lists(servers), *options)) == choice
    again = named(servers[::-1], chosen(home, lists(servers[::-1]), *options))
    assert again == choice.translate(str.maketrans("abc", "cba"))


def test_devices_of_the_list_are_the_only_ones(servers, home):
    source = f"{servers[2].address('tcp')}/1,2,{servers[1].address('tcp')}/1"
    assert named(servers, chosen(home, source, "--gpus", "2")) == "c/1,2|b/1"
    assert named(servers, chosen(home, source, "--gpus", "3")) == "c/1,2,b/1"
    assert run([COMMAND, "env", "-s", source, "--gpus", "4"], home).status == 1


def test_paths_keep_their_slashes(servers, home):
    source = f"{servers[0].address('unix')},{servers[1].address('shm')}"
    assert chosen(home, source, "--gpus", "3") == f"{servers[1].address('shm')}//0,1,{servers[0].address('unix')}//0"


def test_the_program_has_what_was_chosen(servers, home):
    result = run([COMMAND, "run", "-s", lists(servers), "--gpus", "4", "--mem", "1500M", "--", sys.executable, PROGRAM, "show"], home)
    assert result.status == 0 and [int(line.split()[1]) for line in result.out.splitlines()[:-1]] == [1500] * 4, result.err


def test_nothing_that_fits_is_said_for_each_server(servers, home):
    nowhere = f"127.0.0.1:{free_port()}"
    result = run([COMMAND, "run", "-s", f"{lists(servers)},{nowhere}", "--gpus", "2", "--mem", "40G", "--", "true"], home)
    assert (result.status, result.out) == (1, "")
    lines = result.err.splitlines()
    assert lines[0] == "cricket: no server of the list has 2 GPUs with so much memory free: 40G"
    assert [line.rsplit(": ", 1)[1] for line in lines[1:4]] == ["0 of 1 GPUs", "0 of 2 GPUs", "0 of 3 GPUs"]
    assert len(lines) == 5 and nowhere in lines[4]


@pytest.mark.parametrize("options", [("--gpus", "0"), ("--gpus", "x"), ("--gpus", "1", "--mem", "0"), ("--gpus", "1", "--wait", "y")])
def test_wrong_wishes_are_refused(servers, home, options):
    assert run([COMMAND, "env", "-s", lists(servers), *options], home).status == 2


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_single_server_has_enough_gpus_or_the_program_does_not_start(servers, home, transport):
    address = servers[2].address(transport)
    slashes = "/" if transport == "tcp" else "//"
    assert chosen(home, address, "--gpus", "2") == address
    assert chosen(home, address, "--gpus", "2", "--mem", "800M").startswith(f"{address}{slashes}")
    for options, line in ((("-g", "4"), "the server does not have 4 GPUs to give"),
                          (("-g", "3", "-m", "40G"), "the server does not have 3 GPUs with so much memory free: 40G")):
        result = run([COMMAND, "run", "-s", address, *options, "--", "echo", "started"], home)
        assert (result.status, result.out) == (1, ""), result.err
        assert result.err.splitlines()[0] == f"cricket: {line}" and "of 3 GPUs" in result.err.splitlines()[1]
    nowhere = f"127.0.0.1:{free_port()}"       # the program will say it
    assert chosen(home, nowhere, "--gpus", "2") == nowhere


def test_one_that_is_full_is_passed_over_and_its_reason_said(home, tmp_path):
    with server(tmp_path / "a", "--max-sessions", "1", CRICKET_EMU="memory=2G") as a, server(tmp_path / "b", CRICKET_EMU="memory=1G") as b:
        source = lists([a, b])
        assert named([a, b], chosen(home, source, "--gpus", "1")) == "a/0|b/0"
        with holding(a.address("tcp")):
            assert named([a, b], chosen(home, source, "--gpus", "1")) == "b/0"
            result = run([COMMAND, "env", "-s", source, "--gpus", "1", "--mem", "1500M"], home)
            assert "1 of 1 GPUs; the server has no free session" in result.err


def test_waiting_for_memory(home, tmp_path):
    with server(tmp_path / "a", CRICKET_EMU="memory=1G") as a, server(tmp_path / "b", CRICKET_EMU="memory=512M") as b:
        command = [COMMAND, "run", "-s", lists([a, b]), "--gpus", "1", "--mem", "800M", "--wait"]
        with holding(a.address("tcp"), 600):
            program = start([*command, "60s", "--", sys.executable, PROGRAM, "show"], home)
            time.sleep(1)
            assert program.poll() is None
        result = ended(program, 60)
        assert result.status == 0 and result.out.startswith("0 800 "), result.err
        assert len(result.lines_about("waiting for 60 s")) == 1
        with holding(a.address("tcp"), 600):
            wait_until(lambda: states(home, a.address("tcp"))[0]["gpus"][0]["free"] < 800 << 20, 10, "the server tells it")
            result = run([*command, "1s", "--", "true"], home)
            assert result.status == 1 and len(result.lines_about("the time of --wait is over")) == 1


def test_waiting_in_the_shortest_line(home, tmp_path):
    """Servers with memory and no session: the program stands in line, with its place."""
    with server(tmp_path / "a", "--max-sessions", "1") as a, server(tmp_path / "b", "--max-sessions", "1") as b, \
            holding(a.address("tcp")):
        waits = client_env(a.address("tcp"), CRICKET_WAIT="60s")
        with holding(b.address("tcp")):
            other = start([sys.executable, PROGRAM, "show"], waits)
            wait_until(lambda: states(home, a.address("tcp"))[0]["waiting"] == 1, 20, "another one waits")
            source = lists([a, b])
            assert named([a, b], chosen(home, source, "--gpus", "1", "--wait", "60s")) == "b/0"
            program = start([COMMAND, "run", "-s", source, "--gpus", "1", "--wait", "60s", "--", sys.executable, PROGRAM, "show"], home)
            wait_until(lambda: states(home, b.address("tcp"))[0]["waiting"] == 1, 20, "it waits")
        result = ended(program, 60)
        assert result.status == 0 and "show: right" in result.out, result.err
        other.kill()
        other.communicate()


# --- Python

CONNECT = """
import ctypes, subprocess, sys
import cricket_gpu
COUNT = "import ctypes; c, n = ctypes.CDLL('libcuda.so.1'), ctypes.c_int(); print(c.cuInit(0), c.cuDeviceGetCount(ctypes.byref(n)), n.value)"
try:
    print(cricket_gpu.connect(sys.argv[1], gpus=3, mem=sys.argv[2]))
except ConnectionError as e:
    sys.exit(f"ConnectionError: {e}")
exec(COUNT)
sys.stdout.flush()
subprocess.run([sys.executable, "-c", COUNT], check=True)
"""


def python(home, *words):
    env = {**home, "PYTHONPATH": str(ROOT / "python"), "PATH": f"{PRODUCTS}:{home['PATH']}"}
    return run([sys.executable, "-c", CONNECT, *words], env)


@pytest.mark.skipif(bool(KIND), reason="an interpreter without the sanitizer cannot load it later")
def test_a_python_program_connects_by_itself(servers, home):
    result = python(home, lists(servers[:2]), "500M")
    assert result.status == 0, result.err
    address, *counts = result.out.splitlines()
    assert named(servers, address) == "b/0,1,a/0" and counts == ["0 0 3"] * 2
    result = python(home, lists(servers[:2]), "40G")
    assert result.status == 1 and "ConnectionError: no server of the list has 3 GPUs" in result.err


# --- choices of the client

def test_the_next_choice_if_the_first_has_no_session(servers, tmp_path):
    with server(tmp_path / "a", "--max-sessions", "1") as a, holding(a.address("tcp")):
        result = run([sys.executable, PROGRAM, "show"], client_env(f"{a.address('tcp')}/0|{servers[1].address('tcp')}/1"))
        assert result.status == 0 and result.out.startswith("0 2048 "), result.err
        line, = result.err.splitlines()
        assert "has no free session (--max-sessions); trying the next choice" in line


def test_the_next_choice_if_a_pool_is_not_whole(servers):
    nowhere = f"127.0.0.1:{free_port()}"
    a, b, c = (s.address("tcp") for s in servers)
    result = run([sys.executable, PROGRAM, "show"], client_env(f"{a}/0,{nowhere}/0|{b}/1,{c}/0", CRICKET_RESUME="0"))
    assert result.status == 0 and [line.split()[1] for line in result.out.splitlines()[:-1]] == ["2048", "3072"], result.err
    line, = result.err.splitlines()
    assert nowhere in line and "trying the next choice" in line
    for s in servers:
        s.wait_idle()


def test_no_choice_is_left(servers, tmp_path):
    nowhere = f"127.0.0.1:{free_port()}"
    with server(tmp_path / "a", "--max-sessions", "1") as a, holding(a.address("tcp")):
        result = run([sys.executable, PROGRAM, "show"], client_env(f"{a.address('tcp')}/0|{nowhere}"))
        assert result.status != 0 and "cuInit returned 100" in result.err
        assert len(result.lines_about("trying the next choice")) == len(result.lines_about(nowhere)) == 1


def test_memory_that_was_taken_meanwhile(home, tmp_path):
    """Between the answer and the session: the server refuses, and the client goes to the second choice."""
    with server(tmp_path / "a", CRICKET_EMU="memory=2G") as a, server(tmp_path / "b", CRICKET_EMU="memory=1G") as b:
        result = run([COMMAND, "env", "-f", "plain", "-s", lists([a, b]), "--gpus", "1", "--mem", "800M"], home)
        variables = {**home, **dict(line.split("=", 1) for line in result.out.splitlines())}
        assert named([a, b], variables["REMOTE_GPU_ADDRESS"]) == "a/0|b/0" and variables["CRICKET_NEED"] == "800M"
        with holding(a.address("tcp"), 1500):
            result = run([sys.executable, PROGRAM, "show"], variables)
            assert result.status == 0 and result.out.startswith("0 800 "), result.err
            assert sessions(a) == 1 and sessions(b) == 1
            line, = result.err.splitlines()
            assert "its GPU 0 has " in line and "MiB free, and the program needs 800 MiB; trying the next choice" in line
            report = json.loads(run([COMMAND, "status", "--json", a.address("unix")], home).out)
            assert report["totals"]["refused"]["memory"] == 1
            alone = run([sys.executable, PROGRAM, "show"], {**variables, "REMOTE_GPU_ADDRESS": a.address("tcp")})
            assert alone.status != 0 and "the program needs 800 MiB" in alone.err


# --- files

def test_a_file_of_servers(servers, home, tmp_path):
    place = tmp_path / "servers"
    a, b, c = (s.address("tcp") for s in servers)
    place.write_text(f"# the lab\n\n  {a}   # the old one\n{b}\n")
    assert named(servers, chosen(home, f"file:{place}", "--gpus", "3")) == "b/0,1,a/0"
    with place.open("a") as f:
        f.write(f"{c}\n")
    assert named(servers, chosen(home, f"file:{place}", "--gpus", "3")) == "c/0,1,2|b/0,1,a/0"
    assert [s["address"] for s in states(home, f"file:{place}")] == [a, b, c]
    place.write_text("# nothing\n")
    for words in (["servers", f"file:{place}"], ["env", "-s", f"file:{place}", "--gpus", "1"]):
        result = run([COMMAND, *words], home)
        assert result.status == 1 and "no address in this file" in result.err


def test_the_client_takes_the_first_line_that_has_a_session(servers, tmp_path):
    place = tmp_path / "servers"
    nowhere = f"127.0.0.1:{free_port()}"
    with server(tmp_path / "a", "--max-sessions", "1") as a, holding(a.address("tcp")):
        place.write_text(f"# first\n{nowhere}\n{a.address('tcp')}\n{servers[1].address('tcp')}\n{servers[2].address('tcp')}\n")
        result = run([sys.executable, PROGRAM, "show"], client_env(f"file:{place}"))
        assert result.status == 0 and len(result.out.splitlines()) == 3, result.err
        line, = result.err.splitlines()
        assert "trying the next server" in line and a.address("tcp") in line
        place.write_text(f"{nowhere}\n{a.address('tcp')}\n")
        result = run([sys.executable, PROGRAM, "show"], client_env(f"file:{place}"))
        assert result.status != 0 and "cuInit returned 999" not in result.err and "has no free session" in result.err


def test_the_client_waits_at_the_first_that_is_full(servers, tmp_path):
    place = tmp_path / "servers"
    with server(tmp_path / "a", "--max-sessions", "1") as a:
        place.write_text(f"{a.address('tcp')}\n127.0.0.1:{free_port()}\n")
        with holding(a.address("tcp")):
            program = start([sys.executable, PROGRAM, "show"], client_env(f"file:{place}", CRICKET_WAIT="60s"))
            wait_until(lambda: states(clean_env(), a.address("tcp"))[0]["waiting"] == 1, 20, "it waits")
        result = ended(program, 60)
        assert result.status == 0 and "show: right" in result.out, result.err


# --- DNS

@pytest.fixture(name="dns")
def fixture_dns(servers):
    """gpu.test: b before a by priority, and c behind both; its neighbours are wrong in one way each."""
    made = Names({
        ("_cricket._tcp.gpu.test", "SRV"): [(10, 5, servers[0].port, "localhost"), (1, 0, servers[1].port, "localhost."),
                                            (20, 1, servers[2].port, "localhost")],
        ("_cricket._tcp.gone.test", "SRV"): [(0, 0, free_port(), "localhost"), (1, 0, servers[1].port, "localhost")],
        ("_cricket._tcp.off.test", "SRV"): [(0, 0, 1, ".")],
        ("_other._tcp.gpu.test", "SRV"): [(0, 0, servers[2].port, "localhost")],
        ("_cricket._tcp.empty.test", "A"): ["127.0.0.1"],
    })
    yield made
    made.close()


def test_srv_records_name_servers(servers, home, dns):
    found = states({**home, "CRICKET_DEBUG": f"resolver={dns.address}"}, "srv:gpu.test")
    assert [(s["address"], s["priority"]) for s in found] == \
        [(f"localhost:{servers[i].port}", p) for i, p in ((1, 1), (0, 10), (2, 20))]
    assert ("_cricket._tcp.gpu.test", 33) in dns.asked


@pytest.mark.parametrize("source, devices", [("srv:gpu.test", 2), ("srv:gpu.test/1", 1), ("srv:gone.test", 2),
                                             ("srv:_other._tcp.gpu.test", 3)])
def test_the_client_asks_dns(dns, source, devices):
    result = run([sys.executable, PROGRAM, "show"], client_env(source, CRICKET_DEBUG=f"resolver={dns.address}"))
    assert result.status == 0 and len(result.out.splitlines()) == devices + 1 and result.err == "", result.err


def test_a_choice_respects_priorities(servers, home, dns):
    home["CRICKET_DEBUG"] = f"resolver={dns.address}"
    local = {f"localhost:{s.port}": "abc"[i] for i, s in enumerate(servers)}

    def choice(*options):
        text = chosen(home, "srv:gpu.test", *options)
        for address, name in local.items():
            text = text.replace(address, name)
        return text
    assert choice("--gpus", "1") == "b/0|a/0"
    assert choice("--gpus", "1", "--mem", "2500M") == "c/0"
    assert choice("--gpus", "4") == "b/0,1,a/0,c/0"


@pytest.mark.parametrize("source, words", [
    ("srv:nowhere.test", "DNS knows no such name"),
    ("srv:empty.test", "it has no SRV records"),
    ("srv:off.test", "it has no SRV records"),
    ("srv:", "this is not a DNS name"),
])
def test_a_name_that_leads_nowhere_is_one_line(home, dns, source, words):
    result = run([sys.executable, PROGRAM, "show"], client_env(source, CRICKET_DEBUG=f"resolver={dns.address}"))
    assert result.status != 0 and "cuInit returned 100" in result.err
    assert len(result.lines_about("cricket: ")) == len(result.lines_about(words)) == 1, result.err
    shown = run([COMMAND, "servers", source], {**home, "CRICKET_DEBUG": f"resolver={dns.address}"})
    assert shown.status == 1 and words in shown.err


def test_a_wrong_resolver_is_said(home):
    for wrong in ("nonsense", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:x", "::1"):
        result = run([COMMAND, "servers", "srv:gpu.test"], {**home, "CRICKET_DEBUG": f"resolver={wrong}"})
        assert result.status == 1 and "the resolver in CRICKET_DEBUG is not ADDRESS" in result.err, wrong


def test_a_long_answer_comes_over_tcp(servers, home):
    names = Names({("_cricket._tcp.many.test", "SRV"): [(9, 0, servers[i % 3].port, "localhost") for i in range(40)]}, truncates=True)
    found = states({**home, "CRICKET_DEBUG": f"resolver={names.address}"}, "srv:many.test")
    names.close()
    assert len(found) == 40 and all(s["ok"] for s in found)


@pytest.mark.skipif(not shutil.which("unshare") or
                    subprocess.run(["unshare", "-rmn", "true"], capture_output=True, check=False).returncode != 0,
                    reason="namespaces are not for this user")
def test_the_systems_name_server_is_asked(home, tmp_path):
    """With an /etc/resolv.conf of its own, and a name server and a GPU server in a network of their own."""
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:5\n")
    script = tmp_path / "script.py"
    script.write_text(f"""
import pathlib, subprocess, sys
sys.path[:0] = [{str(ROOT / 'tests' / 'e2e')!r}]
from names import Names
from conftest import Server, client_env
{LOOPBACK}
subprocess.run(["mount", "--bind", {str(tmp_path / 'resolv.conf')!r}, "/etc/resolv.conf"], check=True)
s = Server(pathlib.Path({str(tmp_path / 'server')!r}))
n = Names({{("_cricket._tcp.gpu.test", "SRV"): [(0, 0, s.port, "gpuhost.test")], ("gpuhost.test", "A"): ["127.0.0.1"]}}, port=53)
done = subprocess.run([sys.executable, {str(PROGRAM)!r}, "show"], env=client_env("srv:gpu.test"), capture_output=True, text=True)
print(done.stdout + done.stderr)
s.stop()
sys.exit(done.returncode)
""")
    kind = {name: os.environ[name] for name in ("CRICKET_TEST_SAN", "CRICKET_TEST_TSAN") if name in os.environ}
    result = run(["unshare", "-rmn", sys.executable, script], {**home, **kind}, 90)
    assert result.status == 0 and "show: right" in result.out, result.out + result.err
