"""Sessions that leave the GPU for a while, and come back: by command, and by policy."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from breaker import Breaker
from conftest import HANG, PATIENCE, SERVER, SLOW, Server, clean_env, client_env, ended, start, wait_until
from test_control import Asker, ctl

# What programs of these tests have in common: the driver by ctypes.
DRIVER = textwrap.dedent("""
    import ctypes, hashlib, os, sys, threading, time
    c = ctypes.CDLL(None)
    u64, u32, ptr, size_t = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t
    def ok(err, what=""):
        assert err == 0, (err, what)
    context = ptr()
    ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
    def alloc(size):
        at = u64()
        ok(c.cuMemAlloc_v2(ctypes.byref(at), size_t(size)), "alloc")
        return at
    def down(at, size):
        data = ctypes.create_string_buffer(size)
        ok(c.cuMemcpyDtoH_v2(data, at, size_t(size)), "down")
        return data.raw
    def say(*words):
        print(*words, flush=True)
""")

# Trains: rounds of launches that depend on all that was before, copies down and up, events. One word for each round,
# at last a hash of all memory.
PTX = r"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 p, .param .u32 n, .param .u32 salt)
{
	.reg .pred %q;
	.reg .b32 %r<9>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	ld.param.u32 %r7, [n];
	ld.param.u32 %r8, [salt];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r1, %r1, %r2, %r3;
	setp.ge.u32 %q, %r1, %r7;
	@%q bra DONE;
	mul.wide.u32 %d2, %r1, 4;
	add.u64 %d2, %d1, %d2;
	ld.global.u32 %r4, [%d2];
	mul.lo.u32 %r4, %r4, 1664525;
	add.u32 %r4, %r4, %r8;
	xor.b32 %r4, %r4, %r1;
	st.global.u32 [%d2], %r4;
DONE:
	ret;
}
"""
TRAIN = DRIVER + "PTX = " + repr(PTX.encode()) + textwrap.dedent("""
    rounds = int(sys.argv[1])
    n = 65536
    module, step, stream, event = ptr(), ptr(), ptr(), ptr()
    ok(c.cuModuleLoadData(ctypes.byref(module), PTX)); ok(c.cuModuleGetFunction(ctypes.byref(step), module, b"step"))
    ok(c.cuStreamCreate(ctypes.byref(stream), 0)); ok(c.cuEventCreate(ctypes.byref(event), 2))
    a, b = alloc(4 * n), alloc(4 * n)
    ok(c.cuMemsetD32_v2(a, 7, size_t(n))); ok(c.cuMemsetD32_v2(b, 9, size_t(n)))
    pinned = ptr()
    ok(c.cuMemHostAlloc(ctypes.byref(pinned), size_t(4096), 0))
    def launch(at, salt):
        args = [u64(at.value), u32(n), u32(salt)]
        array = (ptr * 3)(*[ctypes.cast(ctypes.byref(x), ptr) for x in args])
        ok(c.cuLaunchKernel(step, n // 256, 1, 1, 256, 1, 1, 0, stream, array, None), "launch")
    say("ready")
    for i in range(rounds):
        launch(a, i); launch(b, 3 * i + 1)
        ok(c.cuMemcpyDtoDAsync_v2(u64(b.value), u64(a.value + 4 * (i % 1000)), size_t(400), stream))
        ok(c.cuMemcpyDtoHAsync_v2(pinned, u64(b.value), size_t(4096), stream))
        ok(c.cuEventRecord(event, stream))
        while c.cuEventQuery(event) == 600:
            pass
        ok(c.cuStreamSynchronize(stream), "synchronize")
        ok(c.cuMemcpyHtoD_v2(u64(a.value + 8192), pinned, size_t(4096)))
        spare = alloc(3 << 20); ok(c.cuMemFree_v2(spare))
        if i % 10 == 0:
            say(i, down(a, 4).hex())
    say("end", hashlib.sha256(down(a, 4 * n) + down(b, 4 * n)).hexdigest())
""")

# Holds memory, and uses it when it gets a line.
HOLD = DRIVER + textwrap.dedent("""
    size = int(sys.argv[1]) << 20
    at = alloc(size)
    ok(c.cuMemsetD32_v2(at, 0x12345678, size_t(size // 4))); ok(c.cuCtxSynchronize())
    say("ready")
    for line in sys.stdin:
        ends = down(at, 1 << 20) + down(u64(at.value + size - (1 << 20)), 1 << 20)
        say(hashlib.sha256(ends).hexdigest())
""")


# Takes nearly all that is free and returns it, again and again, until its stdin ends.
GRAB = DRIVER + textwrap.dedent("""
    stop, rounds = threading.Event(), 0
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    say("ready")
    while not stop.is_set():
        taken = []
        for _ in range(6):
            at = u64()
            if c.cuMemAlloc_v2(ctypes.byref(at), size_t(32 << 20)) == 0:
                taken.append(at)
        for at in taken:
            ok(c.cuMemFree_v2(at))
        rounds += len(taken)
        time.sleep(0.02)
    say(rounds)
""")


def program(server, source, *arguments, transport="tcp", address=None, **env):
    """Starts it with its stdin open."""
    return subprocess.Popen([sys.executable, "-c", source, *map(str, arguments)],
                            env=client_env(address or server.address(transport), **env), text=True, start_new_session=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def begun(process):
    line = process.stdout.readline()
    assert line == "ready\n", line + process.stderr.read()
    return process


def use(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def used(pid, env_file):
    """Bytes that a process uses on the emulated GPU, as other processes see them (emu/core/usage.c)."""
    data = pathlib.Path(env_file).read_bytes()
    row = 8 * 17    # its owner; the memory of eight GPUs, and their time
    for at in range(0, len(data) - row + 1, row):
        words = [int.from_bytes(data[at + 8 * i:at + 8 * i + 8], "little") for i in range(9)]
        if words[0] >> 32 == pid:
            return sum(words[1:])
    return None


@pytest.fixture
def gpu_server(tmp_path):
    """gpu_server(OPTIONS...): a server with one emulated GPU of 256 MiB that all its sessions share."""
    servers = []

    def go(*options, memory="256M"):
        s = Server(tmp_path / f"server{len(servers)}", *options,
                   CRICKET_EMU=f"memory={memory},shared,usage={tmp_path}/usage{len(servers)}")
        s.usage = tmp_path / f"usage{len(servers)}"
        servers.append(s)
        return s
    yield go
    for s in servers:
        s.end()


def finish(server, process, left=1):
    """Lets a program end, and waits for its worker."""
    process.stdin.close()
    assert process.wait(HANG) == 0, process.stderr.read()
    wait_until(lambda: len(Asker(server).ask("sessions")["sessions"]) == left, 10, "its session has ended")


def only(asker):
    (one,) = asker.ask("sessions")["sessions"]
    return one


@pytest.mark.parametrize("transport", ["tcp", "unix", "shm"])
def test_a_session_leaves_the_gpu_and_comes_back(gpu_server, transport):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 64, transport=transport))
    before = use(one)
    name, pid = only(asker)["session"], only(asker)["pid"]
    assert used(pid, server.usage) >= 64 << 20
    reply = asker.ask("suspend", session=name)
    assert reply["ok"] and reply["memory"] >= 64 << 20, reply
    assert used(pid, server.usage) == 0
    listed = only(asker)
    assert listed["state"] == "suspended" and listed["memory"] == 0 and listed["host_memory"] >= 64 << 20
    # another program takes nearly the whole GPU meanwhile
    other = begun(program(server, HOLD, 220))
    assert use(other)
    finish(server, other)
    reply = asker.ask("resume", session=str(pid))       # the worker's process id names it too
    assert reply["ok"], reply
    assert only(asker)["state"] == "running" and used(pid, server.usage) >= 64 << 20
    assert use(one) == before
    one.stdin.close()
    assert one.wait(HANG) == 0


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_free_memory_does_not_leave_the_gpu_along(gpu_server, transport):
    server = gpu_server(memory="8G")
    asker = Asker(server)
    one = begun(program(server, HOLD, 128, transport=transport))
    # a thread of the client leases as much again, up to a part of the device, so that later allocations need not wait
    wait_until(lambda: only(asker)["memory"] >= 250 << 20, 10, "memory is leased in advance")
    before = use(one)
    reply = asker.ask("suspend", session="s1", until="use")
    assert reply["ok"] and reply["memory"] == 128 << 20, reply
    assert only(asker)["state"] == "suspended", "returned memory does not resume it"
    assert use(one) == before
    wait_until(lambda: only(asker)["state"] == "running", 5, "it runs")
    one.stdin.close()
    assert one.wait(HANG) == 0


def test_a_held_session_waits_for_its_command(gpu_server):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 16))
    before = use(one)
    assert asker.ask("suspend", session="s1")["ok"]
    one.stdin.write("\n")
    one.stdin.flush()
    assert not selectable(one.stdout, 7)        # a client reports a server that does not respond after 5 s
    assert only(asker)["state"] == "suspended"
    assert asker.ask("resume", session="s1")["ok"]
    assert one.stdout.readline().strip() == before
    one.stdin.close()
    assert one.wait(HANG) == 0
    assert "does not respond" not in one.stderr.read()


def selectable(stream, seconds):
    import select
    return bool(select.select([stream], [], [], seconds)[0])


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_session_resumes_when_its_client_wants_the_gpu(gpu_server, transport):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 16, transport=transport))
    before = use(one)
    for _ in range(5):
        assert asker.ask("suspend", session="s1", until="use")["ok"]
        assert only(asker)["state"] == "suspended"
        assert use(one) == before
        wait_until(lambda: only(asker)["state"] == "running", 5, "it runs")
    one.stdin.close()
    assert one.wait(HANG) == 0


def test_the_client_s_own_messages_resume_no_session(gpu_server):
    """A second after the first allocation, it has the server tell it when another session needs memory."""
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 16, transport="tcp"))
    assert use(one)         # its commands are over: "ready" may come before
    assert asker.ask("suspend", session="s1", until="use")["ok"]
    assert not selectable(one.stdout, 2)
    assert only(asker)["state"] == "suspended"
    one.stdin.close()
    assert one.wait(HANG) == 0


def test_a_client_that_is_late_to_return_memory_resumes_no_session(gpu_server):
    """The server does not wait long for free memory. What the client returns later ends when the session is back."""
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 16, transport="tcp"))
    assert not selectable(one.stdout, 1.5)          # it can be asked for memory now
    before = only(asker)["memory"]
    os.kill(one.pid, signal.SIGSTOP)
    assert asker.ask("suspend", session="s1", until="use")["ok"]
    os.kill(one.pid, signal.SIGCONT)
    assert not selectable(one.stdout, 2)
    assert only(asker)["state"] == "suspended"
    assert asker.ask("resume", session="s1")["ok"]
    wait_until(lambda: only(asker)["memory"] < before, 10, f"less than {before} bytes are leased")
    one.stdin.close()
    assert one.wait(HANG) == 0


def suspend_until_it_ends(server, asker, one, most):
    """Suspends and resumes the session of a running program, at most so many times; returns how many."""
    (session,) = asker.ask("sessions")["sessions"]
    count = 0
    while count < most and one.poll() is None:
        reply = asker.ask("suspend", session=session["session"])
        if reply["ok"]:
            count += 1
            assert used(session["pid"], server.usage) in (0, None)
            reply = asker.ask("resume", session=session["session"])
        if not reply["ok"]:     # the program has come to its end
            assert any(words in reply["error"] for words in ("no session", "has ended", "is ending")), reply
            break
    return count


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_hundred_suspends_of_a_training_run(gpu_server, transport):
    """Of one run, or of several where suspends take long."""
    server = gpu_server()
    plain = begun(program(server, TRAIN, 500, transport=transport))
    expected = plain.stdout.read()
    assert plain.wait(60 * SLOW) == 0 and "end " in expected
    asker = Asker(server)
    left = 100
    while left > 0:
        server.wait_idle()
        wait_until(lambda: asker.ask("sessions")["sessions"] == [], 10, "the session before has ended")
        one = begun(program(server, TRAIN, 500, transport=transport))
        count = suspend_until_it_ends(server, asker, one, left)
        assert count > 0
        left -= count
        out = one.stdout.read()
        assert one.wait(60 * SLOW) == 0, one.stderr.read()
        assert out == expected


def test_connections_are_cut_while_a_session_leaves_and_comes_back(gpu_server):
    """A cut before, in and after each suspend and resume: the results are those of a run without."""
    server = gpu_server()
    expected = begun(program(server, TRAIN, 1500)).stdout.read()
    server.wait_idle()
    proxy, asker = Breaker(server.port), Asker(server)
    try:
        wait_until(lambda: asker.ask("sessions")["sessions"] == [], 10, "the session before has ended")
        one = begun(program(server, TRAIN, 1500, address=proxy.address))
        (session,) = asker.ask("sessions")["sessions"]
        for command in ("suspend", "resume") * 10:
            cutter = threading.Thread(target=lambda: [proxy.do(lambda: proxy.drop_all("rst")) for _ in range(3)])
            cutter.start()
            reply = asker.ask(command, session=session["session"])
            cutter.join()
            if one.poll() is not None or reply.get("error") == "the session has ended":
                break
            assert reply["ok"], reply
        assert one.stdout.read() == expected, one.stderr.read() + server.log()
        assert one.wait(60 * SLOW) == 0
    finally:
        proxy.stop()


def test_a_session_may_end_while_it_is_suspended(gpu_server):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 16))
    assert asker.ask("suspend", session="s1")["ok"]
    one.kill()
    one.wait()
    server.wait_idle()
    wait_until(lambda: asker.ask("sessions")["sessions"] == [], 10, "its session has ended")
    # and while a command waits for it
    two = begun(program(server, HOLD, 16))
    asker.say(b'{"command": "suspend", "session": "s2"}\n')
    two.kill()
    two.wait()
    assert "ok" in json.loads(asker.file.readline())
    server.wait_idle()
    assert not asker.ask("suspend", session="s2")["ok"]


def test_a_session_that_returns_finds_its_room_beside_one_that_allocates(gpu_server):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 64))
    before = use(one)
    other = begun(program(server, GRAB, CRICKET_DEBUG="no-arena"))     # which returns memory at once

    def resumed():
        """The other one may have all memory at this moment."""
        reply = asker.ask("resume", session="s1")
        assert reply["ok"] or "stays suspended" in reply["error"], reply
        return reply["ok"]
    for _ in range(30):
        assert asker.ask("suspend", session="s1")["ok"]
        wait_until(resumed, 20, "it returns")
    assert use(one) == before
    assert "is lost" not in server.log()
    other.stdin.close()
    assert int(other.stdout.readline()) > 0
    assert other.wait(HANG) == 0
    one.stdin.close()
    assert one.wait(HANG) == 0


# Has nearly all memory at nearly any time, in three pieces that it returns and takes again in turns, until its stdin ends.
TURN_OVER = DRIVER + textwrap.dedent("""
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    pieces = [alloc(72 << 20) for _ in range(3)]
    say("ready")
    while not stop.is_set():
        for i, piece in enumerate(pieces):
            if piece:
                ok(c.cuMemFree_v2(piece))
            at = u64()
            pieces[i] = at if c.cuMemAlloc_v2(ctypes.byref(at), size_t(72 << 20)) == 0 else None
            time.sleep(0.03)
""")

# Had nearly all memory, and has returned it; its client keeps it for a while.
HAS_HAD = DRIVER + textwrap.dedent("""
    for at in [alloc(32 << 20) for _ in range(6)]:
        ok(c.cuMemFree_v2(at))
    say("ready")
    sys.stdin.read()
""")


def resume_within(asker, tries):
    """Gives the command so many times on a quiet machine. A parked session may be on its way out altogether."""
    tries *= PATIENCE
    while not (reply := asker.ask("resume", session="s1"))["ok"]:
        if "is suspending" in reply["error"]:
            continue
        assert "stays suspended" in reply["error"] or "stays parked" in reply["error"], reply
        tries -= 1
        assert tries > 0, reply


@pytest.mark.parametrize("leave", ["suspend", "park"])
def test_a_session_that_returns_gets_what_others_return_meanwhile(gpu_server, leave):
    """Although they would take it again at once."""
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 48))
    before = use(one)
    assert asker.ask(leave, session="s1")["ok"]
    other = begun(program(server, TURN_OVER, CRICKET_DEBUG="no-arena"))

    def is_full():
        return next(x for x in asker.ask("sessions")["sessions"] if x["session"] == "s2")["memory"] >= 216 << 20
    for _ in range(3):
        wait_until(is_full, 20, "the other one has taken all")
        resume_within(asker, 5)
        assert asker.ask(leave, session="s1")["ok"]
    resume_within(asker, 5)
    assert use(one) == before
    finish(server, other)
    finish(server, one, left=0)


@pytest.mark.parametrize("leave", ["suspend", "park"])
def test_a_session_that_returns_gets_what_others_do_not_use(gpu_server, leave):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 64))
    before = use(one)
    assert asker.ask(leave, session="s1")["ok"]
    other = begun(program(server, HAS_HAD))
    resume_within(asker, 10)    # a client listens for such requests a second after it has begun
    assert use(one) == before
    finish(server, other)
    finish(server, one, left=0)


def test_a_restore_without_room_can_be_repeated(gpu_server):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 100))
    before = use(one)
    assert asker.ask("suspend", session="s1")["ok"]
    other = begun(program(server, HOLD, 220))
    reply = asker.ask("resume", session="s1")
    assert not reply["ok"] and "OUT_OF_MEMORY" in reply["error"]
    assert [s["state"] for s in asker.ask("sessions")["sessions"] if s["session"] == "s1"] == ["suspended"]
    finish(server, other)
    assert asker.ask("resume", session="s1")["ok"]
    assert use(one) == before
    one.stdin.close()
    assert one.wait(HANG) == 0


# Starts a host function that ends when it gets a line.
BUSY = DRIVER + textwrap.dedent("""
    FUNCTION = ctypes.CFUNCTYPE(None, ptr)
    gone = threading.Event()
    began = threading.Event()
    hook = FUNCTION(lambda data: (began.set(), gone.wait(), None)[2])
    ok(c.cuLaunchHostFunc(None, hook, None))
    began.wait()
    say("ready")
    sys.stdin.readline()
    gone.set()
    ok(c.cuCtxSynchronize())
    at = alloc(4096)
    say("done")
    sys.stdin.readline()
""")
CAPTURE = DRIVER + textwrap.dedent("""
    stream, graph, status = ptr(), ptr(), ctypes.c_int()
    ok(c.cuStreamCreate(ctypes.byref(stream), 1))
    ok(c.cuStreamBeginCapture_v2(stream, 2))
    ok(c.cuStreamGetCaptureInfo_v2(stream, ctypes.byref(status), None, ctypes.byref(graph), None, None))  # it has begun there
    say("ready")
    sys.stdin.readline()
    ok(c.cuStreamEndCapture(stream, ctypes.byref(graph)))
    say("done")
    sys.stdin.readline()
""")
CAPTURES = DRIVER + textwrap.dedent("""
    import select, time
    stream, graph, status = ptr(), ptr(), ctypes.c_int()
    ok(c.cuStreamCreate(ctypes.byref(stream), 1))
    say("ready")
    while not select.select([sys.stdin], [], [], 0)[0]:
        ok(c.cuStreamBeginCapture_v2(stream, 2))
        ok(c.cuStreamGetCaptureInfo_v2(stream, ctypes.byref(status), None, ctypes.byref(graph), None, None))
        time.sleep(0.2)
        ok(c.cuStreamEndCapture(stream, ctypes.byref(graph)))
        ok(c.cuGraphDestroy(graph))
""")
SHARE = DRIVER + textwrap.dedent("""
    at = alloc(1 << 20)
    handle = ctypes.create_string_buffer(64)
    ok(c.cuIpcGetMemHandle(handle, at))
    say("ready")
    sys.stdin.readline()
    say("done" if len(down(at, 100)) == 100 else "wrong")
    sys.stdin.readline()
""")


def test_a_session_is_suspended_between_two_captures(gpu_server):
    server = gpu_server("--suspend-wait", "100")
    asker = Asker(server)
    one = begun(program(server, CAPTURES))
    for _ in range(3):
        assert asker.ask("suspend", session="s1")["ok"]
        assert asker.ask("resume", session="s1")["ok"]
    one.stdin.close()
    assert one.wait(HANG) == 0, one.stderr.read()


@pytest.mark.parametrize("source, reason", [(BUSY, "still running"), (CAPTURE, "captured"), (SHARE, "shares")],
                         ids=["busy", "capture", "share"])
def test_what_cannot_be_suspended_goes_on(gpu_server, source, reason):
    server = gpu_server("--suspend-wait", "1")
    asker = Asker(server)
    one = begun(program(server, source))
    for _ in range(2):
        reply = asker.ask("suspend", session="s1")
        assert not reply["ok"] and reason in reply["error"], reply
        assert only(asker)["state"] == "running"
    one.stdin.write("\n")
    one.stdin.flush()
    assert one.stdout.readline() == "done\n", one.stderr.read()
    if source is not SHARE:
        assert asker.ask("suspend", session="s1")["ok"]
        assert asker.ask("resume", session="s1")["ok"]
    one.stdin.write("\n")
    one.stdin.close()
    assert one.wait(HANG) == 0


def test_commands_that_make_no_sense_get_a_reason(gpu_server):
    server = gpu_server()
    asker = Asker(server)
    assert "no session s1" in asker.ask("suspend", session="s1")["error"]
    assert "needs a" in asker.ask("suspend")["error"]
    one = begun(program(server, HOLD, 16))
    assert "is running" in asker.ask("resume", session="s1")["error"]
    assert "until" in asker.ask("suspend", session="s1", until="dawn")["error"]
    r = ctl(server, "suspend", "s1")
    assert r.returncode == 0 and r.stdout.startswith("s1: "), r.stderr
    assert "suspended already" in asker.ask("suspend", session="s1")["error"]
    r = ctl(server, "suspend", "s1")
    assert r.returncode == 1 and "already" in r.stderr
    assert ctl(server, "resume", "s1").returncode == 0
    one.stdin.close()
    assert one.wait(HANG) == 0


# --- without a command

def test_an_idle_session_leaves_the_gpu_by_itself(gpu_server):
    server = gpu_server("--suspend-idle", "1")
    asker = Asker(server)
    one = begun(program(server, HOLD, 16))
    before = use(one)
    pid = only(asker)["pid"]
    wait_until(lambda: only(asker)["state"] == "suspended", 15, "the idle session leaves")
    assert used(pid, server.usage) == 0
    assert use(one) == before
    one.stdin.close()
    assert one.wait(HANG) == 0


def test_host_memory_for_suspended_sessions_is_bounded(gpu_server):
    server = gpu_server("--suspend-memory", "100M")
    asker = Asker(server)
    one, two = begun(program(server, HOLD, 64)), begun(program(server, HOLD, 64))
    wait_until(lambda: all(s["memory"] >= 64 << 20 for s in asker.ask("sessions")["sessions"]), 10, "both are known")
    assert asker.ask("suspend", session="s1")["ok"]
    reply = asker.ask("suspend", session="s2")
    assert not reply["ok"] and "--suspend-memory" in reply["error"]
    assert asker.ask("resume", session="s1")["ok"]
    assert asker.ask("suspend", session="s2")["ok"]
    assert asker.ask("resume", session="s2")["ok"]
    for p in (one, two):
        assert use(p)
        p.stdin.close()
        assert p.wait(HANG) == 0


def test_without_a_policy_there_is_no_memory(gpu_server):
    server = gpu_server()
    one = begun(program(server, HOLD, 200))
    two = program(server, HOLD, 200)
    assert two.wait(HANG) != 0
    assert "(2, 'alloc')" in two.stderr.read()
    assert use(one)
    one.stdin.close()
    assert one.wait(HANG) == 0


# Works all the time on memory that it holds, until its stdin ends; says how often it did.
WORK = DRIVER + textwrap.dedent("""
    size, stop = int(sys.argv[1]) << 20, threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    at = alloc(size)
    ok(c.cuMemsetD32_v2(at, 1, size_t(size // 4))); ok(c.cuCtxSynchronize())
    n = 0
    while not stop.is_set():
        n += 1
        ok(c.cuMemsetD32_v2(u64(at.value + 4096), n, size_t(1024)))
        assert down(u64(at.value + 4096), 4) == n.to_bytes(4, "little")
        assert down(at, 4) == (1).to_bytes(4, "little")
        if n == 1:
            say("ready")
    say(n)
""")


def test_active_sessions_take_turns(gpu_server):
    server = gpu_server("--quantum", "1")
    programs = [begun(program(server, WORK, 150))]
    programs += [program(server, WORK, 150) for _ in range(2)]      # they wait for a turn from the start
    for p in programs[1:]:
        begun(p)
    wait_until(lambda: all(f"session s{n} leaves the GPU for" in server.log() for n in (1, 2, 3)), 60, "turns of all")
    for p in programs:
        p.stdin.close()
    for p in programs:
        assert p.wait(60 * SLOW) == 0, p.stderr.read()
        assert int(p.stdout.read()) > 0
