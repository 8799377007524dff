"""tests/e2e/test_overcommit.py - memory_overcommit: sessions whose memory exceeds the GPU's take turns in it."""
import json
import os
import pwd
import re
import signal
import textwrap
import time

import pytest

import test_mps
from conftest import EMULATED, HANG, SLOW, Server, wait_until
from test_control import Asker
from test_suspend import DRIVER, HOLD, begun, program, use

pytestmark = pytest.mark.skipif(not EMULATED.exists(), reason="needs the emulated GPU")

USER = pwd.getpwuid(os.getuid()).pw_name
TURNS = "default: { memory_overcommit = true; };"
SIZE = 40       # MiB of a program, on a GPU of 64

# Takes its memory in pieces, works on all of them for so many rounds, and compares them at last.
PIECES = DRIVER + textwrap.dedent("""
    count, rounds, size = int(sys.argv[1]) // 10, int(sys.argv[2]), 10 << 20
    salt = os.getpid() & 0xffff
    pieces = [alloc(size) for _ in range(count)]
    say("ready")
    for at in pieces:
        ok(c.cuMemsetD32_v2(at, salt, size_t(size // 4)))
    for i in range(rounds):
        for at in pieces:
            ok(c.cuMemsetD32_v2(u64(at.value + 4096), i ^ salt, size_t(1024)))
        ok(c.cuCtxSynchronize())
        time.sleep(0.02)
    word = salt.to_bytes(4, "little")
    for at in pieces:
        data = down(at, size)
        assert data[:4096] == word * 1024, "other bytes before"
        assert data[4096:8192] == (i ^ salt).to_bytes(4, "little") * 1024, "other bytes"
        assert data[8192:] == word * (size // 4 - 2048), "other bytes behind"
    say("right")
""")

# Works all the time, until it is killed or its stdin ends.
ENDLESS = DRIVER + textwrap.dedent("""
    at = alloc(int(sys.argv[1]) << 20)
    say("ready")
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    n = 0
    while not stop.is_set():
        n += 1
        ok(c.cuMemsetD32_v2(u64(at.value + 4096), n, size_t(1024)))
        assert down(u64(at.value + 4096), 4) == n.to_bytes(4, "little")
    say("right")
""")

# Shares its memory with other processes.
SHARE = DRIVER + textwrap.dedent("""
    at = alloc(int(sys.argv[1]) << 20)
    ok(c.cuIpcGetMemHandle(ctypes.create_string_buffer(64), at))
    say("ready")
    sys.stdin.readline()
""")

# What cuMemGetInfo reports, in MiB, before and after an allocation.
INFO = DRIVER + textwrap.dedent("""
    def info():
        free, total = size_t(), size_t()
        ok(c.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        return free.value >> 20, total.value >> 20
    before = info()
    at = u64()
    err = c.cuMemAlloc_v2(ctypes.byref(at), size_t(int(sys.argv[1]) << 20))
    say(*before, err, *info())
""")

# Needs device memory when it gets a line: 20 MiB, or a context.
NEEDS = {
    "memory": "alloc(20 << 20)",
    "a pool's memory": """
        pool, prop = ptr(), ctypes.create_string_buffer(88)
        prop[0:12] = struct.pack("iii", 1, 0, 1)        # pinned, no handles, on a device
        ok(c.cuMemPoolCreate(ctypes.byref(pool), prop), "pool")
        ok(c.cuMemAllocFromPoolAsync(ctypes.byref(u64()), size_t(20 << 20), pool, None), "alloc")
        """,
    "physical memory": """
        prop = ctypes.create_string_buffer(32)
        prop[0:12] = struct.pack("iii", 1, 0, 1)
        ok(c.cuMemCreate(ctypes.byref(u64()), size_t(20 << 20), prop, u64(0)), "alloc")
        """,
    "an array": """
        shape = struct.pack("QQII", 5 << 10, 1 << 10, 0x20, 1)       # of float
        ok(c.cuArrayCreate_v2(ctypes.byref(ptr()), shape), "array")
        """,
    "a module": """
        module = ptr()
        ok(c.cuModuleLoadData(ctypes.byref(module), MODULE), "module"); ok(c.cuCtxSynchronize(), "module")
        ok(c.cuModuleGetGlobal_v2(ctypes.byref(u64()), None, module, b"big"), "global")
        """,
    "a graph": """
        stream, graph, run, end = ptr(), ptr(), ptr(), ptr()
        at = u64()
        ok(c.cuStreamCreate(ctypes.byref(stream), 0)); ok(c.cuStreamBeginCapture_v2(stream, 1))
        ok(c.cuMemAllocAsync(ctypes.byref(at), size_t(20 << 20), stream))
        ok(c.cuMemsetD8Async(at, 7, size_t(20 << 20), stream)); ok(c.cuMemcpyDtoDAsync_v2(out, at, size_t(4), stream))
        ok(c.cuMemFreeAsync(at, stream))
        ok(c.cuStreamEndCapture(stream, ctypes.byref(graph)))
        ok(c.cuGraphInstantiateWithFlags(ctypes.byref(run), graph, u64(0)), "graph")
        ok(c.cuGraphLaunch(run, stream), "launch"); ok(c.cuStreamSynchronize(stream), "launch")
        assert down(out, 4) == bytes([7] * 4), "the graph did not run"
        """,
    "a second context": 'ok(c.cuCtxCreate_v2(ctypes.byref(ptr()), 0, 0), "context")',
    "the primary context again": """
        ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "context"); ok(c.cuCtxSetCurrent(context))
        ok(c.cuCtxSynchronize(), "context")
        """,
}


def need(what):
    before = {"the primary context again": "ok(c.cuDevicePrimaryCtxRelease_v2(0))\n", "a graph": "out = alloc(4)\n"}.get(what, "")
    return DRIVER + textwrap.dedent("""
        import struct
        MODULE = b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .global .align 4 .b8 big[20971520];"
        """) + before + 'say("ready")\nsys.stdin.readline()\n' + textwrap.dedent(NEEDS[what]).strip() + '\nsay("right")\nsys.stdin.readline()\n'


@pytest.fixture
def server(tmp_path):
    """server(OPTIONS..., policy=TEXT, context=SIZE): one emulated GPU of 64 MiB that all its sessions share."""
    servers = []

    def go(*options, policy=TURNS, context="0"):
        (tmp_path / "policy").write_text(policy)
        s = Server(tmp_path / f"server{len(servers)}", "--policy", tmp_path / "policy", *options,
                   CRICKET_EMU=f"memory=64M,context={context},shared,usage={tmp_path}/usage{len(servers)}")
        servers.append(s)
        return s
    yield go
    for s in servers:
        s.end()


def leaves(server):
    """Who left for whom, and after how many milliseconds."""
    return [(who, whom, int(ms)) for who, whom, ms in
            re.findall(r"session (s\d+) leaves the GPU for (s\d+) after (\d+) ms", server.log())]


def is_known(server):
    """The server learns of a session's memory once a second."""
    wait_until(lambda: Asker(server).ask("sessions")["sessions"][0]["memory"] >= SIZE << 20, 10, "the memory of s1 is known")


def end(*programs):
    for p in programs:
        p.stdin.close()
        assert p.wait(60 * SLOW) == 0, p.stderr.read()


@pytest.mark.parametrize("options", [(), ("--park-memory", "0")], ids=["parked", "suspended"])
def test_four_programs_of_three_fifths_finish(server, tmp_path, options):
    """Without host memory for the worker, the driver moves what it can."""
    s = server("--gpu-time", "--audit", tmp_path / "audit", *options)
    programs = [program(s, PIECES, SIZE, 150) for _ in range(4)]
    outputs = [p.communicate(timeout=240 * SLOW) for p in programs]
    assert [(p.returncode, out) for p, (out, _) in zip(programs, outputs)] == [(0, "ready\nright\n")] * 4, \
        str([err for _, err in outputs]) + s.log()

    def ends():
        return [e for e in map(json.loads, (tmp_path / "audit").read_text().splitlines()) if e["event"] == "session-end"]
    wait_until(lambda: len(ends()) == 4, 20, "the sessions have ended")
    # each had its part of the GPU, and is charged for that alone
    assert all(0 <= e.get("gpu_seconds", 0) <= e["seconds"] for e in ends()), ends()


def test_without_the_key_there_is_no_memory(server):
    s = server(policy="default: { };")
    one = begun(program(s, HOLD, SIZE))
    two = program(s, HOLD, SIZE)
    assert two.wait(HANG) != 0 and "(2, 'alloc')" in two.stderr.read()
    end(one)
    assert leaves(s) == []


def test_sessions_of_other_identities_stay(server):
    """One without the key keeps its memory, and the other one's message says why."""
    s = server(policy=f'identities: ( {{ user = "{USER}"; }}, {{ address = "127.0.0.1"; memory_overcommit = true; }} );')
    one = begun(program(s, ENDLESS, SIZE, transport="unix"))
    is_known(s)
    two = program(s, HOLD, SIZE)
    assert two.wait(60 * SLOW) != 0
    error = two.stderr.read()
    assert "(2, 'alloc')" in error and "no GPU memory: a session cannot be parked: it takes no turns (memory_overcommit)" in error
    end(one)
    assert leaves(s) == []


def test_an_interactive_program_has_the_next_turn(server):
    """Beside two that always work: the next one that leaves makes room for it."""
    s = server()
    heavy = [begun(program(s, ENDLESS, SIZE)) for _ in range(2)]
    light = begun(program(s, HOLD, SIZE))
    before = use(light)
    for _ in range(3):
        count = len(leaves(s))
        # it is idle, leaves, and the others have a turn each
        wait_until(lambda: len({who for who, _, _ in leaves(s)[count:]} & {"s1", "s2"}) == 2, 120 * SLOW, "the others have turns")
        count = len(leaves(s))
        assert use(light) == before
        # an exchange may have been on its way
        assert len([x for x in leaves(s)[count:] if x[1] != "s3"]) <= 1, leaves(s)[count:]
    end(light, *heavy)


def test_a_turn_becomes_as_long_as_its_session_is_dear(server):
    """Six times as long as its session was on its way, once that is known."""
    s = server()
    heavy = [begun(program(s, ENDLESS, SIZE)) for _ in range(2)]

    def adapted():
        out, back, turns = {}, {}, []
        for line in s.log().splitlines():
            if found := re.search(r"session (s\d+) is parked: .* in (\d+) ms", line):
                out[found[1]] = int(found[2])
            elif found := re.search(r"session (s\d+) goes on: .* in (\d+) ms", line):
                back[found[1]] = int(found[2])
            elif (found := re.search(r"session (s\d+) leaves the GPU for s\d+ after (\d+) ms", line)) and found[1] in back:
                turns.append((int(found[2]), out[found[1]] + back[found[1]]))
        assert all(ms >= 2000 for ms, _ in turns), turns
        return any(ms >= 6 * cost for ms, cost in turns)
    wait_until(adapted, 120 * SLOW, "a session has returned and left again")
    end(*heavy)


def test_the_quantum_is_the_least_turn(server):
    s = server("--quantum", "1h")
    one = begun(program(s, ENDLESS, SIZE))
    two = program(s, HOLD, SIZE)
    wait_until(lambda: len(Asker(s).ask("sessions")["sessions"]) == 2, 30, "both are there")
    time.sleep(3)       # longer than without the option
    assert leaves(s) == []
    # the end of one frees the way
    one.kill()
    begun(two)
    assert use(two)
    end(two)


def test_a_killed_program_frees_the_way_for_one_that_resumes(server):
    s = server()
    one = begun(program(s, HOLD, SIZE))
    before = use(one)
    two = begun(program(s, ENDLESS, SIZE))     # which comes when the other one is idle
    assert leaves(s)[0][:2] == ("s1", "s2")
    two.kill()
    assert use(one) == before
    end(one)


def test_what_cannot_be_parked_is_the_reason(server):
    s = server()
    one = begun(program(s, SHARE, SIZE))
    is_known(s)
    two = program(s, HOLD, SIZE)
    assert two.wait(60 * SLOW) != 0
    error = two.stderr.read()
    assert "(2, 'alloc')" in error and "no GPU memory: a session cannot be parked: it shares GPU memory or events with" in error
    end(one)


def test_beyond_the_host_memory_there_is_no_memory(server):
    s = server("--suspend-memory", "20M")
    one = begun(program(s, ENDLESS, SIZE))
    is_known(s)
    two = program(s, HOLD, SIZE)
    assert two.wait(60 * SLOW) != 0
    error = two.stderr.read()
    assert "(2, 'alloc')" in error and "not enough host memory (--suspend-memory)" in error
    end(one)


def test_the_memory_of_others_counts_as_free(server):
    s = server()
    one = begun(program(s, ENDLESS, SIZE))
    two = program(s, INFO, SIZE)
    out, error = two.communicate(timeout=60 * SLOW)
    free, total, err, free_after, total_after = map(int, out.split())
    assert (total, total_after, err) == (64, 64, 0), error
    assert free == 64 and 0 < free_after <= 64 - SIZE
    end(one)


def test_a_quota_bounds_what_is_free(server):
    s = server(policy='default: { memory_overcommit = true; memory = "50M"; };')
    one = begun(program(s, HOLD, 20))
    out, error = program(s, INFO, 30).communicate(timeout=60 * SLOW)
    free, total, err, *_ = map(int, out.split())
    assert total == 50 and err == 0 and 50 - 20 - 10 <= free <= 50 - 20, (out, error)
    end(one)


def test_sessions_of_an_mps_take_turns(tmp_path, monkeypatch):
    """They are parked: the driver cannot move more of them."""
    monkeypatch.setattr(test_mps, "PROGRAM", PIECES.replace("sys.argv[1]", f"'{SIZE}'").replace("sys.argv[2]", "'100'"))
    mps = test_mps.Mps(tmp_path, policy='default: { share = "mps"; memory_overcommit = true; };',
                       CRICKET_EMU=f"memory=64M,shared,usage={tmp_path}/usage")
    try:
        programs = [mps.begin() for _ in range(3)]
        for p in programs:
            out, error = p.communicate(timeout=120 * SLOW)
            assert (p.returncode, out) == (0, "ready\nright\n"), error + mps.server.log()
    finally:
        mps.server.end()


def lines_of(program):
    """Its next line; a failure has what it says."""
    return program.stdout.readline() or program.stderr.read()


@pytest.mark.parametrize("what", NEEDS)
def test_whatever_needs_memory_waits_for_a_turn(server, what):
    """Beside one that always works and fills the GPU."""
    s = server("--warm", "0", context="8M")
    one = begun(program(s, need(what)))
    two = begun(program(s, ENDLESS, 50 if "primary" in what else 45))
    print(file=one.stdin, flush=True)
    assert lines_of(one) == "right\n", s.log()
    assert ("s2", "s1") in [x[:2] for x in leaves(s)]
    end(one, two)


@pytest.mark.parametrize("what", ["memory", "a module", "a graph", "a second context", "the primary context again"])
def test_where_none_can_leave_the_reason_is_told(server, what):
    s = server("--warm", "0", context="8M")
    one = begun(program(s, need(what)))
    two = begun(program(s, SHARE, 50 if "primary" in what else 45))
    print(file=one.stdin, flush=True)
    error = lines_of(one)
    assert "AssertionError: (2, " in error, error + s.log()
    assert error.count("no GPU memory: a session cannot be parked: it shares GPU memory or events with") == 1, error
    end(two)


@pytest.mark.parametrize("what", ["memory", "a second context", "the primary context again"])
def test_a_late_answer_of_the_server_is_no_lack_of_memory(server, what):
    s = server("--warm", "0", context="8M")
    one = begun(program(s, need(what)))
    two = begun(program(s, ENDLESS, 50 if "primary" in what else 45))
    os.kill(s.process.pid, signal.SIGSTOP)
    print(file=one.stdin, flush=True)
    time.sleep(2)
    os.kill(s.process.pid, signal.SIGCONT)
    assert lines_of(one) == "right\n", s.log()
    end(one, two)


@pytest.mark.parametrize("what", ["memory", "a second context", "the primary context again"])
def test_one_that_waits_for_memory_leaves_at_once(server, what):
    """It does not use the GPU: no call of it has to end before."""
    s = server("--quantum", "1h", "--warm", "0", "--suspend-wait", "1h", context="8M")
    one = begun(program(s, need(what)))
    two = begun(program(s, ENDLESS, 50 if "primary" in what else 45))
    print(file=one.stdin, flush=True)
    time.sleep(1)       # it waits by then
    reply = Asker(s).ask("park", session="s1", until="use")
    assert reply["ok"], (reply, s.log())
    two.kill()
    assert lines_of(one) == "right\n", s.log()
    end(one)
