"""tests/e2e/test_overcommit.py - memory_overcommit: sessions whose memory exceeds the GPU's take turns in it."""
import json
import os
import pwd
import re
import textwrap
import time

import pytest

import test_mps
from conftest import EMULATED, SLOW, Server, wait_until
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


@pytest.fixture
def server(tmp_path):
    """server(OPTIONS..., policy=TEXT): one emulated GPU of 64 MiB that all its sessions share."""
    servers = []

    def go(*options, policy=TURNS):
        (tmp_path / "policy").write_text(policy)
        s = Server(tmp_path / f"server{len(servers)}", "--policy", tmp_path / "policy", *options,
                   CRICKET_EMU=f"memory=64M,shared,usage={tmp_path}/usage{len(servers)}")
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
    assert two.wait(30 * SLOW) != 0 and "(2, 'alloc')" in two.stderr.read()
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
