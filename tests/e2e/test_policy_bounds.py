"""tests/e2e/test_policy_bounds.py - the policy file: bounds of sessions in time, in what they hold, and in what they see."""
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import DRIVER, HANG, SLOW, TRANSPORTS, client_env, wait_until
from stranger import Session, u32, u64
from test_arena import HEAD
from test_control import Asker
from test_limits import OUT_OF_MEMORY, PLACE, fetched, pinned_file, printing
from test_policy import MIB, MORE, REGIONS, program, serve  # pylint: disable=unused-import
from test_refusals import new_token

USER = pwd.getpwuid(os.getuid()).pw_name
pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="needs a GPU of known size")


def talk(server, code, transport="unix", **env):
    """A program that says something, also on stderr."""
    return subprocess.Popen([sys.executable, "-c", HEAD + MORE + code], env=client_env(server.address(transport), **env),
                            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


# --- time

SLEEPER = """
current()
p = alloc(MIB)
say("holds")
line()
say(cuda.cuCtxSynchronize())
"""


LASTS = 8 + 2 * SLOW    # seconds of a session: long enough for a program to begin on a busy machine, and to be warned at four fifths


def test_a_session_lasts_so_long_and_its_user_is_warned(serve, tmp_path):
    """Also if the program makes no call meanwhile."""
    audit = tmp_path / "audit"
    server = serve(f'default: {{ time = "{LASTS}s"; }};', "--audit", audit)
    begun = time.monotonic()
    sessions = [talk(server, SLEEPER, transport) for transport in TRANSPORTS]
    for session in sessions:
        assert session.stdout.readline() == "holds\n"
    for session in sessions:
        warning = session.stderr.readline()
        assert re.search(rf"the session ends in \ds: the policy ends sessions after {LASTS}s$", warning), warning
        end = session.stderr.readline()
        assert LASTS < time.monotonic() - begun
        assert re.search(rf"is lost \(the policy ends sessions after {LASTS}s\): every CUDA call fails from now on$", end), end
    server.wait_idle()
    for session in sessions:
        out, err = session.communicate("\n", timeout=HANG)
        assert out == "46\n" and err == ""
    ends = [json.loads(line) for line in audit.read_text().splitlines() if '"session-end"' in line]
    assert [e["cause"] for e in ends] == [f"the policy ends sessions after {LASTS}s"] * len(sessions)


def test_a_session_that_computes_ends_in_time_too(serve):
    server = serve(f'default: {{ time = "{LASTS}s"; }};')
    session = talk(server, "current()\nwhile not (err := cuda.cuCtxSynchronize()): pass\nsay(err)\n")
    out, err = session.communicate(timeout=HANG)
    assert out == "46\n"
    assert err.count("\n") == 2 and f"(the policy ends sessions after {LASTS}s)" in err, err


def test_an_idle_session_ends(serve):
    server = serve(f'default: {{ idle = "{LASTS}s"; }};')
    session = talk(server, SLEEPER)
    assert session.stdout.readline() == "holds\n"
    warning = session.stderr.readline()
    assert re.search(rf"the session ends in \ds: the policy ends sessions that are idle for {LASTS}s", warning), warning
    assert f"(the policy ends sessions that are idle for {LASTS}s)" in session.stderr.readline()
    session.communicate("\n", timeout=HANG)


def test_a_new_policy_changes_the_time_of_running_sessions(serve, tmp_path):
    server = serve('default: { time = "1h"; };')
    session = talk(server, SLEEPER)
    assert session.stdout.readline() == "holds\n"
    (tmp_path / "policy").write_text('default: { time = "1s"; };')
    os.kill(server.process.pid, signal.SIGHUP)
    assert any("(the policy ends sessions after 1s)" in line for line in session.stderr)    # after a warning, if it is younger
    session.kill()
    session.wait()


def test_status_says_how_long_a_session_lasts(serve):
    server = serve('default: { time = "1h"; idle = "2h"; };')
    session = talk(server, SLEEPER)
    assert session.stdout.readline() == "holds\n"
    row, = Asker(server).ask("status")["sessions"]
    assert 3500 < row["ends_in"] <= 3600
    session.kill()
    session.wait()


# --- what a session holds; the server's options say more

def bounded(serve, keys, *options):
    """A server on which this user has KEYS, and addresses have none."""
    return serve(f'identities: ( {{ user = "{USER}"; {keys} }} );', *options)


def test_lanes_of_an_identity(serve):
    server = bounded(serve, "lanes = 3;", "--max-lanes", "5")
    for transport, count in (("unix", 3), ("tcp", 5)):
        session = Session(server, transport)
        for _ in range(count - 1):      # and the one that the session began with
            session.join()
        with pytest.raises((EOFError, OSError)):
            session.join()
        session.end()


def test_host_memory_of_an_identity(serve):
    server = bounded(serve, 'host_memory = "32M";', "--pinned-memory", "64M")
    session = Session(server, "unix")
    fd = pinned_file(64 * MIB)
    assert session.ask("ck_pinned_file", u64(PLACE) + u64(64 * MIB), fd=fd)[0] == 0
    got = [session.ask("ck_pinned_map", u64(PLACE + at) + u64(16 * MIB) + u64(at) + u32(0))[0]
           for at in range(0, 48 * MIB, 16 * MIB)]
    assert got == [0, 0, OUT_OF_MEMORY]
    os.close(fd)
    session.end()


@pytest.mark.parametrize("warm", ["0", "1"])
def test_output_of_an_identity(serve, warm):
    """What kernels print beyond it is dropped, with a line that says so."""
    server = bounded(serve, 'output = "1M";', "--warm", warm)
    if warm == "1":
        wait_until(server.spares, 20, "a spare worker")
    session = Session(server, "unix")
    launch = printing(session)
    launch(200)     # 20 MB, more than the driver keeps to itself
    wait_until(lambda: "1048576 bytes of kernel output" in server.log(), 20, "the bound is found to be passed")
    assert session.ask("cuCtxSynchronize") == (0, b"")
    launch(100)
    assert session.ask("cuCtxSynchronize") == (0, b"")
    assert b"output of kernels is missing here" in fetched(session)
    session.end()


def test_cache_of_an_identity(serve):
    server = bounded(serve, 'cache = "4M";', "--cache-size", "64M")
    sizes = {}
    for transport in ("unix", "tcp"):
        session = Session(server, transport)
        for _ in range(12):
            session.upload(os.urandom(MIB))
        assert session.error() == 0
        session.end()
        cache = server.log_file.parent / "cache"
        sizes[transport] = sum(p.stat().st_size for p in cache.iterdir() if p.is_file())
    assert sizes["unix"] <= 5 * MIB and sizes["tcp"] - sizes["unix"] >= 11 * MIB


COPIES = """
current()
host, p = ctypes.create_string_buffer(os.urandom(8 * MIB), 8 * MIB), alloc(8 * MIB)
def timed(copy, *args):
    begun = time.monotonic()
    for _ in range(2):
        check(copy(*args))
        check(cuda.cuCtxSynchronize())
        host.raw = os.urandom(8 * MIB)      # others are compressed, or known from before, where the link seems slow
    say(time.monotonic() - begun)
timed(cuda.cuMemcpyHtoD_v2, ctypes.c_uint64(p), host, ctypes.c_size_t(8 * MIB))
timed(cuda.cuMemcpyDtoH_v2, host, ctypes.c_uint64(p), ctypes.c_size_t(8 * MIB))
"""


def test_bandwidth_of_a_session(serve):
    """In each direction, a second's worth of bytes is free, and 12 MiB take 3 s then."""
    result = program(serve('identities: ( { address = "127.0.0.1"; bandwidth = "4M"; } );'), COPIES, "tcp")
    assert result.status == 0, result.err
    up, down = map(float, result.out.split())
    assert up > 2 and down > 0.5, result.out


def test_other_identities_have_their_own_bandwidth(serve):
    """With that of the address, it would take eight minutes."""
    result = program(serve('identities: ( { address = "127.0.0.1"; bandwidth = "64K"; } );'), COPIES, "unix")
    assert result.status == 0, result.err


def test_all_gpus_together_have_a_quota(serve):
    """Beside that of each GPU."""
    server = serve('default: { memory = "48M"; memory_total = "64M"; };', CRICKET_EMU="devices=2")
    result = program(server, """
def on(device):
    c = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), device))
    check(cuda.cuCtxSetCurrent(c))
on(0)
assert total() == left() == 48 * MIB, (total(), left())
got = fill()
assert len(got) == 24, len(got)
on(1)
assert total() == 48 * MIB and left() == 16 * MIB, (total(), left())
assert len(fill()) == 8 and left() == 0
on(0)
free(got.pop())
assert alloc(4 * MIB) is None and alloc(2 * MIB)
""", CRICKET_DEBUG="no-arena")
    assert result.status == 0, result.err


# --- what a session sees

PROCESSES = """
nvml = ctypes.CDLL("libnvidia-ml.so.1")
check(nvml.nvmlInit_v2())
current()
p = alloc(4 * MIB)
def processes():
    device, n, infos = ctypes.c_void_p(), ctypes.c_uint(0), (ctypes.c_uint64 * 300)()
    check(nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)))
    call = nvml.nvmlDeviceGetComputeRunningProcesses_v3
    err = call(device, ctypes.byref(n), None)
    assert err == (7 if n.value else 0), err
    asked = n.value
    n.value = 100
    check(call(device, ctypes.byref(n), infos))
    assert n.value == asked, (n.value, asked)
    return [infos[3 * i] & 0xffffffff for i in range(n.value)]
def name(pid):
    return nvml.nvmlSystemGetProcessName(pid, ctypes.create_string_buffer(256), 256)
"""


def test_processes_of_others_are_hidden(serve):
    """An identity that sees its own sees all its sessions; one without the key sees all."""
    server = serve(f'identities: ( {{ user = "{USER}"; nvml_processes = "own"; }} );')
    stranger = talk(server, PROCESSES + "say(name(os.getpid()))\nline()\nsay(len(processes()))\n", "tcp")
    mine = talk(server, PROCESSES + "say('here')\nline()\n")
    assert stranger.stdout.readline() == "0\n" and mine.stdout.readline() == "here\n"
    workers = server.workers()
    assert len(workers) == 2
    result = program(server, PROCESSES + f"""
got = processes()
assert len(got) == 2 and os.getpid() in got, got
assert name(os.getpid()) == 0
assert sorted(name(pid) for pid in {workers}) == [0, 6]     # 6: NVML_ERROR_NOT_FOUND
device = ctypes.c_void_p()
check(nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)))
assert nvml.nvmlDeviceGetAccountingPids(device, ctypes.byref(ctypes.c_uint(9)), (ctypes.c_uint * 9)()) == 4
""")
    assert result.status == 0, result.err
    wait_until(lambda: len(Asker(server).ask("sessions")["sessions"]) == 2, 10, "the server knows that its worker has gone")
    print(file=stranger.stdin, flush=True)
    assert stranger.stdout.readline() == "2\n"
    for process in (stranger, mine):
        process.kill()
        process.wait()


NAMES = """
SEEN = []
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def each(info, data):
    SEEN.append(ctypes.string_at(info + 140).decode())     # mem_id of m3_info
    return 0
def names():
    SEEN.clear()
    check(m3.m3_list(client, None, each, None))
    return sorted(SEEN)
"""


def test_names_of_others_regions_are_hidden(serve, tmp_path):
    """Also those of identities that are one principal for the broker, as all behind TCP are."""
    (alice, hers), (bob, his) = new_token("alice"), new_token("bob")
    (tmp_path / "tokens").write_text(f"{hers}\n{his}\n")
    server = serve('identities: ( { token = "alice"; m3_names = "own"; }, { token = "bob"; m3_names = "all"; } );',
                   "--token-file", tmp_path / "tokens")
    code = REGIONS.replace("3, 0, 0, 0)", "3, 0o666, 0, 0)") + NAMES
    his = talk(server, code + 'r = region(b"his", 2)\nsay(names())\nline()\n', "tcp", CRICKET_TOKEN=bob.decode())
    assert his.stdout.readline() == "['his']\n"
    hers = program(server, code + 'assert names() == []\nr = region(b"hers", 2)\nassert names() == ["hers"], names()\n'
                   'say(names())', "tcp", CRICKET_TOKEN=alice.decode())
    assert hers.status == 0, hers.err
    his.stdin.close()
    assert his.wait(HANG) == 0
