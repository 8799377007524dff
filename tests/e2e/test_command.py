"""The command `cricket`: every subcommand."""
import fcntl
import json
import os
import pty
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import threading

import pytest

from conftest import CLIENT, HANG, PRODUCTS, ROOT, SLOW, Server, clean_env, listens, run, wait_until
from ports import free_port

CRICKET = PRODUCTS / "cricket"

# Asks the driver for its devices and prints their number.
COUNT = """
import ctypes
c, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(c.cuInit(0), c.cuDeviceGetCount(ctypes.byref(n)), n.value)
"""


@pytest.fixture
def home(tmp_path):
    """The environment of a user with a configuration folder of their own."""
    (tmp_path / "cricket").mkdir()
    return clean_env(XDG_CONFIG_HOME=str(tmp_path))


def configure(home, text):
    with open(os.path.join(home["XDG_CONFIG_HOME"], "cricket", "config"), "w", encoding="utf-8") as f:
        f.write(text)


def cricket(env, *words, stdin="", timeout=60):
    return subprocess.run([CRICKET, *map(str, words)], env=env, capture_output=True, text=True, input=stdin,
                          timeout=timeout * SLOW)


def settings(env, *words):
    done = cricket(env, "env", "--format", "plain", *words)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


# --- run, env

@pytest.mark.quick
def test_run_finds_the_server_and_the_client(server, home):
    done = cricket(home, "run", "-s", server.address("tcp"), "--", sys.executable, "-c", COUNT)
    assert (done.returncode, done.stdout) == (0, "0 0 1\n"), done.stderr


def test_run_hides_gpus(server, home):
    done = cricket(home, "run", "-s", server.address("tcp"), "-d", "none", sys.executable, "-c", COUNT)
    assert done.stdout.split() == ["100", "3", "0"], done.stderr      # CUDA_ERROR_NO_DEVICE


def test_run_passes_on_arguments_and_the_exit_status(home):
    done = cricket(home, "run", "sh", "-c", 'echo "$1"; exit 7', "-", "--server")
    assert (done.returncode, done.stdout) == (7, "--server\n")
    done = cricket(home, "run", "sh", "-c", "kill -TERM $$")
    assert done.returncode == -15


def test_run_says_what_it_cannot_execute(home):
    done = cricket(home, "run", "no-such-program")
    assert (done.returncode, done.stderr) == (127, "cricket: no-such-program: No such file or directory\n")
    assert cricket(home, "run", "/etc").returncode == 126
    done = cricket(home, "run", "lab", "./program")
    assert (done.returncode, done.stderr) == (127, "cricket: lab: No such file or directory; a server is named with -s: cricket run -s SERVER PROGRAM\n")
    assert cricket(home, "run", "-s", "127.0.0.1", "lab", "x").stderr == "cricket: lab: No such file or directory\n"


def test_what_is_in_the_variables_stays_behind_the_client(home):
    found = settings(dict(home, LD_PRELOAD="/x/own.so", LD_LIBRARY_PATH="/x/lib"))
    assert found["LD_PRELOAD"] == f"{CLIENT}:/x/own.so"
    assert found["LD_LIBRARY_PATH"] == f"{PRODUCTS}/lib:/x/lib"
    again = settings(dict(home, LD_PRELOAD=found["LD_PRELOAD"], LD_LIBRARY_PATH=found["LD_LIBRARY_PATH"]))
    assert again == found


def test_an_option_comes_before_a_variable_and_that_before_the_file(home):
    configure(home, "server = lab\n[lab]\naddress = lab:1\ndevices = 1\n[own]\naddress = own:2\n")
    assert settings(home)["REMOTE_GPU_ADDRESS"] == "lab:1" and settings(home)["CUDA_VISIBLE_DEVICES"] == "1"
    variables = dict(home, REMOTE_GPU_ADDRESS="var:3", CUDA_VISIBLE_DEVICES="5")
    assert settings(variables)["REMOTE_GPU_ADDRESS"] == "var:3"
    chosen = settings(variables, "-s", "own", "--gpus", "3")
    assert (chosen["REMOTE_GPU_ADDRESS"], chosen["CUDA_VISIBLE_DEVICES"]) == ("own:2", "0,1,2")
    assert "CUDA_VISIBLE_DEVICES" not in settings(variables, "-s", "lab")
    assert settings(home, "-s", "else:4")["REMOTE_GPU_ADDRESS"] == "else:4"


def test_memory_waiting_and_a_prefix_are_options(home):
    found = settings(home, "--mem", "20G", "--sm", "25%", "--wait", "10m", "--worker-prefix", "nsys")
    names = ("CRICKET_MEMORY", "CRICKET_SM", "CRICKET_WAIT", "CRICKET_WORKER_PREFIX")
    assert [found[name] for name in names] == ["20G", "25%", "10m", "nsys"]
    assert not set(names) & set(settings(home))


@pytest.mark.parametrize("words", [
    ["run", "--profile", "", "true"], ["run", "-n", "", "true"], ["run", "-W", "", "true"], ["jupyter", "--prefix", ""], ["jupyter", "--python="],
    ["jupyter", "--mem", "20X"], ["jupyter", "-g", "-1"], ["jupyter", "-n", "x"], ["cdi", "--output", ""], ["restore", ""], ["end", ""],
    ["checkpoint", "s1", ""], ["move", "s1", ""], ["drain", ""]])
def test_an_empty_or_wrong_word_is_no_other_one(home, tmp_path, words):
    """As of a variable that a script has not set: not this folder, the root, or the default."""
    done = cricket({**home, "XDG_DATA_HOME": str(tmp_path / "data")}, *words)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1 and not (tmp_path / "data").exists(), done


def test_a_configuration_that_cannot_be_read_is_not_an_empty_one(home):
    os.mkdir(os.path.join(home["XDG_CONFIG_HOME"], "cricket", "config"))
    for words in (["servers"], ["env"], ["run", "true"]):
        done = cricket(home, *words)
        assert done.returncode == 1 and "cricket/config: Is a directory" in done.stderr, done


def test_devices_of_a_section_are_checked_as_those_of_an_option(home):
    configure(home, "[lab]\naddress = lab:1\ndevices = first\n")
    done = cricket(home, "run", "-s", "lab", "true")
    assert done.returncode == 2 and ":3: devices are numbers of GPUs, as in 0,2, or none: first" in done.stderr
    for value, devices in (("none", ""), ("0, 2", "0, 2")):
        configure(home, f"[lab]\naddress = lab:1\ndevices = {value}\n")
        assert settings(home, "-s", "lab")["CUDA_VISIBLE_DEVICES"] == devices


def test_help_may_stand_behind_options(home):
    for words in (["status", "--json", "--help"], ["token", "add", "--help"], ["jupyter", "-s", "x", "--help"]):
        done = cricket(home, *words)
        assert done.returncode == 0 and done.stdout.startswith(f"Usage: cricket {words[0]} "), done
    assert cricket(home, "run", "--", "printf", "%s", "--help").stdout == "--help"


@pytest.mark.parametrize("name", ["emu", "EMU"])
def test_the_emulated_gpu_is_found_in_any_case(home, name):
    assert "which start an emulated GPU" in cricket(home, "env", "-s", name).stderr


@pytest.mark.parametrize("shell", ["sh", "fish"])
def test_env_quotes_for_a_shell(home, shell):
    done = cricket(dict(home, CRICKET_TOKEN="a'b\\c $d"), "env", "-f", shell)
    line = [line for line in done.stdout.splitlines() if "CRICKET_TOKEN" in line][0]
    if shell == "fish":
        assert line == "set -gx CRICKET_TOKEN 'a\\'b\\\\c $d'"
        return
    shown = run(["sh", "-c", done.stdout + 'printf %s "$CRICKET_TOKEN"'], home)
    assert shown.out == "a'b\\c $d"


@pytest.mark.parametrize("words, status", [
    (["run"], 2), (["run", "-x", "true"], 2), (["run", "-g", "x", "true"], 2), (["run", "-g", "1", "-d", "0", "true"], 2),
    (["run", "-d", "x", "true"], 2), (["run", "-d", "0,", "true"], 2), (["run", "-d", "0;1", "true"], 2), (["run", "-d", "-1", "true"], 0),
    (["run", "-d", "0,GPU-12", "true"], 0), (["run", "-d", "none", "true"], 0), (["run", "-d", "", "true"], 0),
   
    (["run", "-m", "many", "true"], 2), (["run", "-m", "0", "true"], 2), (["run", "-m", "20", "true"], 2), (["run", "-w", "long", "true"], 2), (["run", "--sm", "0%", "true"], 2),
    (["env", "-f", "csh"], 2), (["env", "more"], 2), (["nothing"], 2), ([], 2), (["--help"], 0), (["--version"], 0),
    (["run", "--help"], 0), (["help"], 0), (["help", "run"], 0), (["help", "nothing"], 2), (["-V"], 0), (["-h"], 0), (["login"], 2), (["servers", "one", "more"], 2), (["servers", "--nothing"], 2)])
def test_wrong_arguments(home, words, status):
    assert cricket(home, *words).returncode == status


def test_help_fits_into_a_terminal_of_80_columns(home):
    whole = cricket(home, "--help").stdout
    texts = [whole] + [cricket(home, "help", name).stdout for name in re.findall(r"^  ([a-z]+) +[A-Z]", whole, re.M)]
    assert len(texts) > 20
    assert [line for text in texts for line in text.splitlines() if len(line) > 80] == []


def test_help_and_errors_lead_on(home):
    whole = cricket(home, "--help").stdout
    assert [line for line in whole.splitlines() if line.endswith(":")] == [
        "Programs on the GPUs of a server:", "Connecting to a server:", "Sessions of a server on this host:", "The service:", "Files:"]
    assert cricket(home, "help").stdout == cricket(home, "-h").stdout == whole
    assert cricket(home, "help", "run").stdout == cricket(home, "run", "--help").stdout
    assert cricket(home, "-V").stdout == cricket(home, "--version").stdout
    for wrong, meant in (("rum", "run"), ("chekc", "check"), ("longin", "login"), ("stat", None), ("x", None)):
        done = cricket(home, wrong)
        assert done.returncode == 2 and "`cricket --help` lists all" in done.stderr
        assert (f"did you mean {meant}?" in done.stderr) if meant else "did you mean" not in done.stderr
    done = cricket(home, "-s", "lab", "run", "true")
    assert done.returncode == 2 and "options come behind a command" in done.stderr and done.stderr.count("\n") == 1
    done = cricket(home, "run", "-z")
    assert done.stderr.splitlines()[0] == "cricket: run: invalid option -- 'z'" and "see `cricket run --help`" in done.stderr
    for command in commands_of(home):
        done = cricket(home, command, "--no-such-option")
        assert done.returncode == 2 and f"`cricket {command} --help`" in done.stderr, done.stderr
        assert all(line.startswith("cricket: ") for line in done.stderr.splitlines())


# --- servers, login

def test_servers_lists_the_configuration(home):
    configure(home, "# mine\nserver = lab\n\n[lab]\naddress = lab:1   \n[own]\naddress = own:2\n")
    done = cricket(home, "servers")
    assert [line.split()[:3] for line in done.stdout.splitlines()[1:3]] == [["*", "lab", "lab:1"], ["own", "own:2", "all"]]
    assert "in use: lab (lab:1) (the configuration)" in done.stdout
    listed = json.loads(cricket(home, "servers", "--json").stdout)
    assert [(e["name"], e["used"]) for e in listed] == [("lab", True), ("own", False)]


@pytest.mark.parametrize("text, where", [("[lab]\n", ":1: no address for server: lab"), ("[lab\n", ":1: not a section"),
                                         ("x = y\n", ":1: no such setting: x"), ("[a]\nfoo\n", ":2: neither a")])
def test_a_wrong_configuration_is_refused_with_its_line(home, text, where):
    configure(home, text)
    done = cricket(home, "servers")
    assert done.returncode == 1 and where in done.stderr and done.stderr.startswith("cricket: ")


# --- check

@pytest.mark.quick
def test_check_goes_through_every_step(server, home):
    done = cricket(home, "check", server.address("tcp"))
    assert done.returncode == 0, done.stdout + done.stderr
    *steps, empty, following = done.stdout.splitlines()
    assert empty == "" and following == f"next: cricket run -s {server.address('tcp')} -- PROGRAM"
    assert [line.split()[:2] for line in steps] == [
        ["ok", "client"], ["ok", "connection"], ["ok", "route"], ["ok", "tls"], ["ok", "protocol"], ["ok", "mps"], ["ok", "session"],
        ["ok", "gpu"], ["ok", "copies"]]
    assert re.search(r"client +\S+/cricket-client.so, glibc \d+\.\d+\n", done.stdout)
    assert re.search(r"route +127\.0\.0\.1 to 127\.0\.0\.1 by lo, MTU \d+\n", done.stdout)
    assert re.search(r"protocol +round trip \d+\.\d{3} ms\n", done.stdout)
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if "client.so" not in line), done.stdout
    report = json.loads(cricket(home, "check", "--json", "-s", server.address("unix")).stdout)
    assert report["ok"] and report["round_trip_us"] > 0 and report["up_mb_s"] > 0 and report["down_mb_s"] > 0
    assert 0 < report["devices"][0]["free"] <= report["devices"][0]["memory"]


# --- trace

def test_a_trace_becomes_events_for_perfetto(server, home, tmp_path):
    program = HOLDER.replace("for line in sys.stdin", "import threading\nfor line in range(5)") + """
thread = threading.Thread(target=lambda: print(c.cuCtxSetCurrent(context), c.cuMemFree_v2(memory), c.cuCtxSynchronize()))
thread.start()
thread.join()
"""
    traced = dict(home, CRICKET_TRACE=str(tmp_path / "trace"))
    done = cricket(traced, "run", "-s", server.address("tcp"), sys.executable, "-c", program)
    assert done.returncode == 0 and not done.stderr, done.stderr
    done = cricket(home, "trace", tmp_path / "trace")
    assert done.returncode == 0, done.stderr
    trace = json.loads(done.stdout)
    events = trace["traceEvents"]
    lines = (tmp_path / "trace").read_text().splitlines()
    assert set(trace) == {"traceEvents", "displayTimeUnit"} and len(events) == len(lines) > 7
    for e in events:    # what Chrome's trace event format demands of the two kinds
        assert {"name", "cat", "ph", "ts", "pid", "tid", "args"} <= set(e) and e["ph"] in "Xi" and isinstance(e["ts"], float)
        assert isinstance(e["pid"], int) and isinstance(e["tid"], int)
        assert e["dur"] >= 0 and "result" in e["args"] if e["ph"] == "X" else e["s"] == "t"
    waits = [e for e in events if e["ph"] == "X"]
    assert max(e["dur"] for e in waits) > 0 and len({e["tid"] for e in events}) == 2 and len({e["pid"] for e in events}) == 1
    # a thread waits for one reply at a time
    for tid in {e["tid"] for e in waits}:
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in waits if e["tid"] == tid)
        assert all(a[1] <= b[0] + 0.001 for a, b in zip(spans, spans[1:]))


def test_trace_says_what_is_wrong_with_a_file(home, tmp_path):
    (tmp_path / "other").write_bytes(b"nothing\n\xff{pid 1\ncricket: -> x {pid 1 thread 1 ns 1 took 1 bytes 1}\n")
    done = cricket(home, "trace", tmp_path / "other")
    assert done.returncode == 1 and "CRICKET_TRACE=FILE" in done.stderr and json.loads(done.stdout)["traceEvents"] == []
    assert cricket(home, "trace", tmp_path / "none").returncode == 1 and cricket(home, "trace").returncode == 2
    done = cricket(home, "trace", "-", stdin="cricket: -> f() = 700 {pid 1 thread 2 ns 3000 took 4000 bytes 5}\n")
    assert json.loads(done.stdout)["traceEvents"] == [
        {"name": "f", "cat": "wait", "ph": "X", "ts": 3.0, "dur": 4.0, "pid": 1, "tid": 2,
         "args": {"message": "() = 700 ", "bytes": 5, "result": 700}}]


# --- completion

COMPLETION = ROOT / "command" / "completion"


def commands_of(home):
    return re.findall(r"^  (\w+) ", cricket(home, "--help").stdout, re.M)


@pytest.mark.parametrize("shell", ["cricket.bash", "cricket.fish", "_cricket"])
def test_completion_knows_every_command_and_option(home, shell):
    text = (COMPLETION / shell).read_text(encoding="utf-8")
    commands = commands_of(home)
    assert len(commands) > 8 and not [c for c in commands if not re.search(rf"\b{c}\b", text)]
    options = {o for c in commands for o in re.findall(r"--([a-z]+)", cricket(home, c, "--help").stdout)}
    assert "watch" in options and not [o for o in options if not re.search(rf"(--|-l ){o}\b", text)]


@pytest.mark.parametrize("words, found", [
    ("ru", ["run"]), ("env -f f", ["fish"]), ("run -s l", ["lab"]), ("check o", ["own"]), ("status --w", ["--watch"])])
def test_bash_completes(home, words, found):
    configure(home, "[lab]\naddress = lab:1\n[own]\naddress = own:2\n")
    script = (f'. {COMPLETION}/cricket.bash; COMP_WORDS=(cricket {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
              '_cricket; echo "${COMPREPLY[@]}"')
    done = run(["bash", "-c", script], dict(home, PATH=f"{PRODUCTS}:{home['PATH']}"))
    assert done.out.split() == found, done.err


# --- status, and commands for sessions

# Holds 64 MiB of device memory, and calls the driver as often as lines come.
HOLDER = """
import ctypes, sys
c = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert c.cuCtxSetCurrent(context) == 0 and c.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64 << 20)) == 0
print("ready", flush=True)
for line in sys.stdin:
    word = ctypes.c_uint64()
    print(c.cuMemcpyDtoH_v2(ctypes.byref(word), memory, ctypes.c_size_t(8)), flush=True)
"""


class Holder:
    def __init__(self, server, home, transport="unix"):
        self.process = subprocess.Popen(
            [CRICKET, "run", "-s", server.address(transport), sys.executable, "-c", HOLDER], env=home, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()

    def call(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def holder(own_server, home):
    wait_until(lambda: listens(f"{own_server.unix}.status"), 10, "the status socket is there")
    one = Holder(own_server, home)
    yield one
    one.end()


def status(server, env):
    done = cricket(env, "status", "--json", "-s", server.address("unix"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_status_lists_sessions_with_their_use(own_server, home, holder):
    assert holder.call() == 0
    wait_until(lambda: status(own_server, home)["sessions"][0]["memory"] >= 64 << 20, 10, "its memory is reported")
    report = status(own_server, home)
    (one,) = report["sessions"]
    assert (report["version"], report["all"], report["session_count"]) == (1, True, 1)
    assert one["client_pid"] == holder.process.pid and one["host"] == socket.gethostname() and one["own"]
    assert one["pid"] == own_server.workers()[0] and "python" in one["program"]

    def sent():
        assert holder.call() == 0
        return status(own_server, home)["sessions"][0]["sent"]
    wait_until(lambda: sent() > one["sent"], 10, "bytes are counted")
    wait_until(lambda: status(own_server, home)["sessions"][0]["state"] == "idle", 20, "it is idle")
    lines = cricket(home, "status", own_server.address("shm")).stdout.splitlines()
    assert lines[0].startswith(f"{socket.gethostname()}: 1 of 256 sessions; cricket-rpc-server") and report["host"] == socket.gethostname()
    assert lines[1].startswith("GPU 0 Cricket Emulated GPU ") and lines[1].endswith("MiB of 2.0 GiB") and len(lines) == 4
    assert lines[3].split()[0] == one["session"] and lines[3].endswith(f"{one['host']}:{one['client_pid']}")
    assert dict(zip(lines[2].split(), re.sub(r"(\d) ([KM]iB|B|k|M)|user (root)", r"\1\2\3", lines[3]).split()))["GPU"] == "0"
    assert one["gpus"][0]["index"] == 0 and report["gpus"][0]["used"] >= 64 << 20


def test_status_watch_goes_on_until_the_server_ends(own_server, home, holder):
    process = subprocess.Popen([CRICKET, "status", "--watch", own_server.address("unix")], env=home, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines = [process.stdout.readline() for _ in range(8)]
    assert "\033" not in "".join(lines)
    assert [line.split()[0] for line in lines] == [f"{socket.gethostname()}:", "GPU", "SESSION", lines[3].split()[0]] * 2
    own_server.stop()
    assert not os.path.exists(f"{own_server.unix}.status")
    out, err = process.communicate(timeout=HANG)
    assert process.returncode == 1 and "cricket: the server has ended" in err, out


def test_a_session_is_suspended_resumed_and_ended(own_server, home, holder):
    where = own_server.address("unix")
    name = status(own_server, home)["sessions"][0]["session"]
    done = cricket(home, "suspend", "-s", where, name)
    assert done.returncode == 0 and re.match(rf"{name}: \d+ MiB in \d+ ms\n$", done.stdout), done.stderr
    assert status(own_server, home)["sessions"][0]["state"] == "suspended"
    assert cricket(home, "suspend", "-s", where, name).returncode == 1
    assert cricket(home, "resume", "-s", where, name).returncode == 0 and holder.call() == 0
    assert cricket(home, "end", "-s", where, name).returncode == 0
    wait_until(lambda: not status(own_server, home)["sessions"], 10, "the session is gone")
    assert status(own_server, home)["totals"]["suspends"] == 1, "its end is counted too"
    assert holder.call() != 0
    assert "ended it" in own_server.log()
    done = cricket(home, "end", "-s", where, name)
    assert (done.returncode, done.stderr) == (1, f"cricket: there is no session {name}\n")


def test_a_command_that_takes_long_shows_its_time_on_a_terminal(home, tmp_path):
    """The answer comes when the terminal has the time."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.status"))
        listener.listen()
        process = Terminal([CRICKET, "suspend", "-s", f"unix:{tmp_path}/s", "s1"], home)
        try:
            peer, _ = listener.accept()
            with peer, peer.makefile("rb") as requests:
                assert requests.readline() == b'{"command":"status"}\n'
                peer.sendall(b'{"ok": true, "sessions": [{"session": "s1", "memory": 3145728, "host_memory": 0}]}\n')
                assert requests.readline() == b'{"command":"suspend","session":"s1"}\n'
                wait_until(lambda: process.has(" s") and re.search(r"\rcricket: suspend s1 \(3 MiB\): [1-9]\d* s", process.shown), 20,
                           "the time is shown")
                peer.sendall(b'{"ok": true, "session": "s1", "memory": 1048576, "ms": 2100}\n')
                wait_until(lambda: process.has("\r\033[Ks1: 1 MiB in 2100 ms"), 20, "the answer is shown")
            assert process.process.wait(HANG) == 0
        finally:
            process.end()


def test_a_checkpoint_shows_what_has_been_written(home, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.status"))
        listener.listen()
        process = Terminal([CRICKET, "checkpoint", "-s", f"unix:{tmp_path}/s", "s1", tmp_path / "to"], home)
        try:
            peer, _ = listener.accept()
            with peer, peer.makefile("rb") as requests:
                requests.readline()
                peer.sendall(b'{"ok": true, "sessions": []}\n')
                assert json.loads(requests.readline())["directory"] == f"{tmp_path}/to"
                (tmp_path / "to.part-a1b2c3").mkdir()
                (tmp_path / "to.part-a1b2c3" / "pages").write_bytes(bytes(5 << 20))
                wait_until(lambda: process.has(" s, 5 MiB written"), 20, "the bytes are shown")
                assert "\rcricket: checkpoint s1: " in process.shown
                peer.sendall(b'{"ok": true, "size": 8388608, "stored": 5242880}\n')
                wait_until(lambda: process.has("8 MiB, compressed to 5 MiB"), 20, "the answer is shown")
            assert process.process.wait(HANG) == 0
        finally:
            process.end()


# Connects often to a socket as one user, and says so; then asks it as another one.
CROWD = """
import contextlib, os, socket, sys
many = int(sys.argv[2])
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(sys.argv[1])
    return s
os.setgroups([])
os.setresuid(65534, 65534, 0)
crowd = [connect() for _ in range(many)]
for s in crowd:
    with contextlib.suppress(OSError):      # the server has closed the older ones already, or will
        s.sendall(b'{"command": "stat')
os.setresuid(0, 0, 0)
os.setresuid(65533, 65533, 65533)
one = connect()
one.sendall(b'{"command": "status"}\\n')
print(one.makefile().readline())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_a_user_keeps_no_other_from_the_status(own_server):
    folder = os.open(own_server.unix.parent, os.O_PATH)
    try:
        path = f"/proc/self/fd/{folder}/{os.path.basename(own_server.unix)}.status"
        done = subprocess.run([sys.executable, "-c", CROWD, path, "40"], pass_fds=[folder], capture_output=True, text=True,
                              timeout=60 * SLOW)
        assert done.returncode == 0 and json.loads(done.stdout)["ok"], done.stderr
    finally:
        os.close(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_a_user_sees_and_ends_only_their_own_sessions(own_server, home, holder):
    name = status(own_server, home)["sessions"][0]["session"]

    def ask(request):
        """As user 65534."""
        asker = ("import os, socket, sys; os.setgroups([]); os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
                 "s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode() + b'\\n'); print(s.makefile().readline())")
        path = f"/proc/self/fd/{folder}/{os.path.basename(own_server.unix)}.status"
        done = subprocess.run([sys.executable, "-c", asker, path, json.dumps(request)], pass_fds=[folder],
                              capture_output=True, text=True, timeout=60 * SLOW)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    # pytest's folders are root's alone: a descriptor leads past them
    folder = os.open(own_server.unix.parent, os.O_PATH)
    try:
        report = ask({"command": "status"})
        assert (report["all"], report["sessions"], report["session_count"]) == (False, [], 1)
        assert ask({"command": "end", "session": name}) == {"ok": False, "error": f"there is no session {name}"}
        for command in ("sessions", "upgrade", "checkpoint", "restore"):
            assert "root and the server's user only" in ask({"command": command, "session": name})["error"]
    finally:
        os.close(folder)
    assert holder.call() == 0


def test_status_survives_an_upgrade(own_server, home, holder):
    before = status(own_server, home)["sessions"][0]
    done = run([PRODUCTS / "cricket-rpc-server", "--unix", own_server.unix, "--ctl", "upgrade"], clean_env())
    assert done.status == 0, done.err
    after = status(own_server, home)["sessions"][0]
    assert (after["session"], after["host"]) == (before["session"], before["host"]) and after["age"] >= before["age"]


def test_status_of_another_machine_says_where_to_ask(home):
    done = cricket(home, "status", "192.0.2.1")
    assert done.returncode == 1 and "ssh HOST cricket status" in done.stderr


# --- top

class Terminal:
    """A program on a terminal of 80 columns; `shown` is all that it wrote."""

    def __init__(self, command, env, lines=24, kind="xterm"):
        self.own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", lines, 80, 0, 0))
        self.process = subprocess.Popen(command, env=dict(env, TERM=kind, LINES=str(lines), COLUMNS="80"), stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.set_blocking(self.own, False)
        self.shown = ""

    def has(self, text):
        try:
            self.shown += os.read(self.own, 65536).decode(errors="replace")
        except OSError:
            pass
        return text in self.shown

    def press(self, key, answer):
        self.shown = ""
        os.write(self.own, key.encode())
        wait_until(lambda: self.has(answer), 20, f"{answer!r} after {key!r}")

    def end(self):
        os.close(self.own)
        self.process.kill()
        self.process.wait()


def test_top_shows_sorts_suspends_and_ends(own_server, home, holder):
    name = status(own_server, home)["sessions"][0]["session"]
    top = Terminal([CRICKET, "top", own_server.address("unix")], home)
    try:
        wait_until(lambda: top.has("SESSION") and top.has(name) and top.has("sorted by calls"), 20, "the list is shown")
        top.press("m", "memory")
        top.press("s", "y or n")
        top.press("n", "sorted by")
        assert status(own_server, home)["sessions"][0]["state"] != "suspended"
        top.press("s", "y or n")
        os.write(top.own, b"y")
        wait_until(lambda: status(own_server, home)["sessions"][0]["state"] == "suspended", 20, "it is suspended")
        top.press("e", "y or n")
        os.write(top.own, b"y")
        wait_until(lambda: not status(own_server, home)["sessions"], 20, "the session is gone")
        os.write(top.own, b"q")
        assert top.process.wait(HANG) == 0
    finally:
        top.end()


def test_top_has_a_line_for_each_gpu_a_filter_and_help(tmp_path, home):
    server = Server(tmp_path / "server", CRICKET_EMU="devices=2,memory=3G")
    wait_until(lambda: listens(f"{server.unix}.status"), 10, "the status socket is there")
    holder = Holder(server, home)
    top = Terminal([CRICKET, "top", server.address("unix")], home)
    try:
        program = status(server, home)["sessions"][0]["program"][:17]
        wait_until(lambda: top.has(program) and top.has("? help"), 20, "the list is shown, with the program's name")
        assert re.search(r"GPU 0 .*of 3\.0 GiB", top.shown) and re.search(r"GPU 1 .*of 3\.0 GiB", top.shown)
        top.press("?", "sort by memory")
        top.press(" ", "sorted by calls")
        top.press("/", "show sessions with")
        for letter in "no-such":
            os.write(top.own, letter.encode())
        wait_until(lambda: top.has("No session contains"), 20, "no session is left")
        top.press("\n", "with no-such")
        top.press("\033", program)
        os.write(top.own, b"q")
        assert top.process.wait(HANG) == 0
    finally:
        top.end()
        holder.end()
        server.end()


def test_help_of_top_is_readable_on_a_low_terminal(own_server, home):
    top = Terminal([CRICKET, "top", own_server.address("unix")], home, lines=6)
    try:
        wait_until(lambda: top.has("sorted by calls"), 20, "the list is shown")
        top.press("?", "any key goes back to the sessions")
        assert "choose a session" in top.shown and "moves into host memory" not in top.shown, top.shown     # what the last line covers
    finally:
        top.end()


def test_status_fits_a_terminal_of_80_columns(tmp_path, home):
    server = Server(tmp_path / "server", "--max-sessions", "1")
    wait_until(lambda: listens(f"{server.unix}.status"), 10, "the status socket is there")
    holder = Holder(server, home)
    waiter = subprocess.Popen([CRICKET, "run", "-s", server.address("unix"), "--wait", "10m", sys.executable, "-c", HOLDER], env=home,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    terminal = None
    try:
        wait_until(lambda: status(server, home)["waiting"], 30, "it waits")
        terminal = Terminal([CRICKET, "status", server.address("unix")], home)
        wait_until(lambda: terminal.has("PLACE") and terminal.shown.endswith("\n") and terminal.process.poll() is not None, 20, "it ends")
        lines = terminal.shown.splitlines()
        assert max(map(len, lines)) <= 80 and ", 1 waiting" in lines[0], lines
        program = status(server, home)["sessions"][0]["program"]
        assert lines[2].split()[:3] == ["SESSION", "PROGRAM", "STATE"] and lines[3].split()[1] == program[:17]
    finally:
        if terminal:
            terminal.end()
        holder.end()
        waiter.kill()
        waiter.communicate()
        server.end()


def test_the_gpus_are_those_of_the_server_and_not_of_the_command(tmp_path, home):
    server = Server(tmp_path / "server", CRICKET_EMU="devices=2,memory=64M")
    try:
        wait_until(lambda: listens(f"{server.unix}.status"), 10, "the status socket is there")
        report = status(server, dict(home, CRICKET_EMU="devices=5"))
        assert report["emulated"] == {"devices": 2, "memory": 64 << 20, "machine": 0}
        assert [(g["index"], g["memory"]) for g in report["gpus"]] == [(0, 64 << 20), (1, 64 << 20)]
    finally:
        server.end()


@pytest.mark.parametrize("visible, gpus", [("2,0", [2, 0]), ("", []), ("7", []), (None, [0, 1, 2])])
def test_only_gpus_that_the_server_serves_are_shown(tmp_path, home, visible, gpus):
    """In its order and with its numbers, also after an upgrade, on the page and in the metrics."""
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    server = Server(tmp_path / "server", CRICKET_EMU="devices=3,machine=5", **env)
    try:
        wait_until(lambda: listens(f"{server.unix}.status"), 10, "the status socket is there")

        def found():
            report = status(server, home)
            assert [g["index"] for g in report["gpus"]] == list(range(len(gpus)))
            if visible is None:
                assert "served" not in report
                return True
            assert [int(uuid[-2:], 16) for uuid in report["served"]] == gpus
            return True
        assert found()
        shown = cricket(home, "status", server.address("unix")).stdout + cricket(home, "metrics", server.address("unix")).stdout
        assert len(re.findall(r"^GPU \d", shown, re.M)) == len(gpus)
        assert len(re.findall(r"^cricket_gpu_memory_bytes\{", shown, re.M)) == len(gpus)
        os.kill(server.process.pid, signal.SIGUSR2)
        wait_until(lambda: "continuing with" in server.log(), 20, "it goes on in its program")
        assert found()
    finally:
        server.end()


def test_a_session_is_shown_on_the_servers_number_of_its_gpu(tmp_path, home):
    server = Server(tmp_path / "server", CRICKET_EMU="devices=3", CUDA_VISIBLE_DEVICES="2")
    holder = Holder(server, home)
    try:
        wait_until(lambda: listens(f"{server.unix}.status"), 10, "the status socket is there")
        (session,) = status(server, home)["sessions"]
        assert [g["index"] for g in session["gpus"]] == [0] and session["gpus"][0]["memory"] >= 64 << 20
    finally:
        holder.end()
        server.end()


def test_a_gpu_that_only_the_policy_gives_is_shown_while_a_session_uses_it(tmp_path, home):
    policy = tmp_path / "policy"
    policy.write_text('default: { gpus = "2"; };\n')
    server = Server(tmp_path / "server", "--policy", policy, CRICKET_EMU="devices=4", CUDA_VISIBLE_DEVICES="1")
    holder = None
    try:
        wait_until(lambda: listens(f"{server.unix}.status"), 10, "the status socket is there")
        assert [g["index"] for g in status(server, home)["gpus"]] == [0]
        holder = Holder(server, home)
        report = status(server, home)
        assert [g["index"] for g in report["gpus"]] == [0, 2]       # 0 and 2 are the first two of those that it does not serve
        assert [g["index"] for g in report["sessions"][0]["gpus"]] == [2]
    finally:
        if holder:
            holder.end()
        server.end()


def test_top_without_a_terminal_says_what_to_use(own_server, home, holder):
    done = cricket(home, "top", own_server.address("unix"))
    assert done.returncode == 1 and "cricket status --watch" in done.stderr


def test_top_says_which_terminal_it_does_not_know(own_server, home):
    top = Terminal([CRICKET, "top", own_server.address("unix")], home, kind="xterm-unheard-of")
    try:
        wait_until(lambda: top.has("does not know the terminal TERM=xterm-unheard-of"), 20, "the reason is printed")
        assert top.process.wait(HANG) == 1
    finally:
        top.end()


def test_drain_lets_sessions_end_and_begins_none(own_server, home, holder):
    where = own_server.address("unix")
    assert cricket(home, "drain", "-s", where).returncode == 1          # the server was started without --drain
    late = cricket(home, "drain", "-s", where, "169h")                   # more than --drain takes
    assert late.returncode == 1 and "drain: 169h: not a time, as in 30s or 10m, from 0 to 604800" in late.stderr
    done = cricket(home, "drain", "-s", where, "10m")
    assert (done.returncode, done.stdout) == (0, "the server stops when its last session has ended (1 now)\n")
    assert cricket(home, "drain", "-s", where, "10m").returncode == 0
    late = cricket(home, "run", "-s", where, sys.executable, "-c", COUNT)
    assert late.stdout.split()[0] != "0" and holder.call() == 0
    holder.end()
    assert own_server.process.wait(HANG) == 0
