"""Sessions whose memory their worker moves itself: parked ones, whose contexts stay on the GPU, and suspended ones."""
import os
import pathlib
import signal
import textwrap
import time

import pytest

from conftest import EMULATED, HANG, SAN, SLOW, TSAN, wait_until
from test_control import Asker, ctl
from test_suspend import (DRIVER, HOLD, TRAIN, begun, finish, gpu_server, only, program, use, used)  # noqa: F401

# Memory of all kinds, filled with a pattern of its own; each line compares all of it with that, and says the result.
KINDS = DRIVER + textwrap.dedent("""
    import random
    class Location(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]
    class Prop(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("win32", ptr),
                    ("flags", ctypes.c_ubyte * 8)]
    class Access(ctypes.Structure):
        _fields_ = [("location", Location), ("flags", ctypes.c_int)]
    DEVICE = Location(1, 0)
    UNIT = 2 << 20
    def reserve(size):
        at = u64()
        ok(c.cuMemAddressReserve(ctypes.byref(at), size_t(size), size_t(0), u64(0), u64(0)), "reserve")
        return at.value
    def create(size):
        handle = u64()
        ok(c.cuMemCreate(ctypes.byref(handle), size_t(size), ctypes.byref(Prop(1, 0, DEVICE)), u64(0)), "create")
        return handle.value
    def map_(at, size, handle, offset=0):
        ok(c.cuMemMap(u64(at), size_t(size), size_t(offset), u64(handle), u64(0)), "map")
    def access(at, size, flags=3):
        ok(c.cuMemSetAccess(u64(at), size_t(size), ctypes.byref(Access(DEVICE, flags)), size_t(1)), "access")
    def flags(at):
        found = u64()
        ok(c.cuMemGetAccess(ctypes.byref(found), ctypes.byref(DEVICE), u64(at)), "get access")
        return found.value
    def fill(at, size, seed):
        data = random.Random(seed).randbytes(65536) * (size // 65536)
        ok(c.cuMemcpyHtoD_v2(u64(at), data, size_t(size)), "up")
        return at, size, hashlib.sha256(data).hexdigest()
    known = []
    for i, size in enumerate((65536, 3 << 20, 20 << 20, 65536)):      # in leases
        known.append(fill(alloc(size).value, size, i))
    adjacent = reserve(4 * UNIT)                    # four pieces side by side; the handle of one is released
    handles = [create(UNIT) for _ in range(4)]
    for i, handle in enumerate(handles):
        map_(adjacent + i * UNIT, UNIT, handle)
    access(adjacent, 4 * UNIT)
    known.append(fill(adjacent, 4 * UNIT, "adjacent"))
    ok(c.cuMemRelease(u64(handles.pop())), "release")
    access(adjacent, UNIT, 1)                       # and one is read-only
    twice, shown = reserve(2 * UNIT), create(UNIT)  # one piece at two addresses
    map_(twice, UNIT, shown); map_(twice + UNIT, UNIT, shown)
    access(twice, 2 * UNIT)
    known.append(fill(twice, UNIT, "twice"))
    part, large = reserve(UNIT), create(2 * UNIT)   # a part of one
    map_(part, UNIT, large, UNIT)
    access(part, UNIT)
    known.append(fill(part, UNIT, "part"))
    hidden = create(UNIT)                           # mapped only for a moment
    moment = reserve(UNIT)
    map_(moment, UNIT, hidden); access(moment, UNIT)
    known_hidden = fill(moment, UNIT, "hidden")
    ok(c.cuMemUnmap(u64(moment), size_t(UNIT)))
    again = u64()                                   # a handle that was retained
    kept, twin = reserve(UNIT), create(UNIT)
    map_(kept, UNIT, twin); access(kept, UNIT)
    known.append(fill(kept, UNIT, "kept"))
    ok(c.cuMemRetainAllocationHandle(ctypes.byref(again), ptr(kept)), "retain")
    def check():
        for at, size, digest in known:
            if hashlib.sha256(down(u64(at), size)).hexdigest() != digest:
                return f"other bytes at {at:#x}"
        if [flags(adjacent), flags(adjacent + UNIT)] != [1, 3]:
            return "other access"
        # the handles are those of the same memory
        ok(c.cuMemcpyHtoD_v2(u64(twice), b"both", size_t(4)))
        if down(u64(twice + UNIT), 4) != b"both":
            return "two pieces"
        fill(twice, UNIT, "twice")
        map_(moment, UNIT, hidden); access(moment, UNIT)
        same = hashlib.sha256(down(u64(moment), UNIT)).hexdigest() == known_hidden[2]
        ok(c.cuMemUnmap(u64(moment), size_t(UNIT)))
        map_(moment, UNIT, handles[1]); access(moment, UNIT)
        same &= down(u64(moment), UNIT) == down(u64(adjacent + UNIT), UNIT)
        ok(c.cuMemUnmap(u64(moment), size_t(UNIT)))
        return "the same" if same else "other memory behind a handle"
    say("ready")
    for line in sys.stdin:
        say(check())
    for handle in (*handles, shown, large, hidden, twin, again.value):
        ok(c.cuMemRelease(u64(handle)), "release")
    ok(c.cuMemUnmap(u64(adjacent), size_t(4 * UNIT)), "unmap")
""")


def end(*programs):
    for p in programs:
        p.stdin.close()
        assert p.wait(HANG) == 0, p.stderr.read()


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_parked_session_keeps_its_context_only(gpu_server, transport):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 64, transport=transport))
    before, pid = use(one), only(asker)["pid"]
    reply = asker.ask("park", session="s1")
    assert reply["ok"] and reply["memory"] >= 64 << 20, reply
    listed = only(asker)
    assert listed["state"] == "parked" and listed["host_memory"] >= 64 << 20 and listed["memory"] == 0, listed
    assert used(pid, server.usage) == 0
    other = begun(program(server, HOLD, 220))       # which needs nearly all of the GPU
    assert use(other)
    finish(server, other)
    assert asker.ask("resume", session="s1")["ok"]
    assert only(asker)["state"] == "running" and used(pid, server.usage) >= 64 << 20
    assert use(one) == before
    end(one)


@pytest.mark.parametrize("command", ["park", "suspend"])
def test_memory_of_all_kinds_is_the_same(gpu_server, command):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, KINDS))
    assert use(one) == "the same"
    for _ in range(3):
        assert asker.ask(command, session="s1", until="use")["ok"]
        assert use(one) == "the same"
        wait_until(lambda: only(asker)["state"] == "running", 5, "it runs")
    end(one)


def test_a_parked_session_returns_when_its_program_wants_the_gpu(gpu_server):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 16))
    before = use(one)
    for _ in range(5):
        assert asker.ask("park", session="s1", until="use")["ok"]
        assert only(asker)["state"] == "parked"
        assert use(one) == before
        wait_until(lambda: only(asker)["state"] == "running", 5, "it runs")
    end(one)


def test_a_parked_session_can_leave_altogether(gpu_server):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 64))
    before = use(one)
    r = ctl(server, "park", "s1")
    assert r.returncode == 0 and r.stdout.startswith("s1: "), r.stderr
    assert "parked already" in asker.ask("park", session="s1")["error"]
    assert "suspend it first" in asker.ask("resume", session="s1", device="0")["error"]
    assert asker.ask("suspend", session="s1")["ok"]
    assert only(asker)["state"] == "suspended"
    assert "suspended already" in asker.ask("park", session="s1")["error"]
    assert asker.ask("resume", session="s1")["ok"]
    assert use(one) == before
    end(one)


def resources(pid):
    """KiB of resident memory, and the descriptors and threads of a process."""
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])


def test_a_hundred_parks_of_a_training_run(gpu_server):
    """The results are those of a run without, and the worker does not grow."""
    server = gpu_server()
    expected = begun(program(server, TRAIN, 500)).stdout.read()
    server.wait_idle()
    asker = Asker(server)
    wait_until(lambda: asker.ask("sessions")["sessions"] == [], 10, "the session before has ended")
    one = begun(program(server, TRAIN, 500))
    hold = begun(program(server, HOLD, 16))
    before = use(hold)
    (name, pid), = [(s["session"], s["pid"]) for s in asker.ask("sessions")["sessions"] if s["client_pid"] == hold.pid]
    (other,) = [s["session"] for s in asker.ask("sessions")["sessions"] if s["session"] != name]
    after_ten = None
    for i in range(100):
        if one.poll() is None:
            reply = asker.ask("park", session=other, until="use")
            assert reply["ok"] or any(w in reply["error"] for w in ("no session", "has ended", "is ending", "already")), reply
        assert asker.ask("park", session=name)["ok"]
        assert asker.ask("resume", session=name)["ok"]
        if i == 9:
            after_ten = resources(pid)
    # a thread may be about to end, and a lane to begin; a loss each time would add up to ninety
    most = (after_ten[0] + 8192, after_ten[1] + 9, after_ten[2] + 9)
    wait_until(lambda: all(n <= limit for n, limit in zip(resources(pid), most)), 10, f"it has at most {most}")
    assert use(hold) == before
    assert one.stdout.read() == expected, one.stderr.read()
    assert one.wait(60 * SLOW) == 0
    end(hold)


def all_resources(server, pid):
    """What may grow with each park, of the worker PID and of the server."""
    found = {"device memory": used(pid, server.usage)}
    for name, process in (("worker", pid), ("server", server.process.pid)):
        memory, descriptors, threads = resources(process)
        # a sanitizer keeps freed memory for a while, and reports leaks itself
        found[f"{name}: KiB"] = 0 if SAN or TSAN else memory
        found[f"{name}: descriptors"], found[f"{name}: threads"] = descriptors, threads
    return found


@pytest.mark.parametrize("command, rounds", [("park", 1000 // SLOW), ("suspend", 240 // SLOW)])
def test_a_thousand_parks_in_a_row_let_nothing_grow(gpu_server, command, rounds):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 4))
    before, pid = use(one), only(asker)["pid"]
    for i in range(rounds):
        if i == rounds // 5:    # every part of it has its memory by then
            early = all_resources(server, pid)
        assert asker.ask(command, session="s1")["ok"]
        away = only(asker)["host_memory"]
        assert asker.ask("resume", session="s1")["ok"]
        assert away == 4 << 20
    # a thread may be about to end; two KiB lost each time are more than this
    limits = {what: count + {"KiB": 8 * rounds // 5, "threads": 3}.get(what.split()[-1], 0) for what, count in early.items()}
    wait_until(lambda: all(count <= limits[what] for what, count in all_resources(server, pid).items()), 10,
               f"what was {early} before is not more than {limits}")
    assert use(one) == before
    end(one)


def test_a_parked_session_without_room_on_the_gpu_waits(gpu_server):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, HOLD, 100))
    before = use(one)
    # its client asks for news of other sessions a second after its start: that needs the GPU too
    wait_until(lambda: asker.ask("status")["sessions"][0]["idle"] > 2, 30, "it rests")
    assert asker.ask("park", session="s1", until="use")["ok"]
    other = begun(program(server, HOLD, 220))
    reply = asker.ask("resume", session="s1")
    assert not reply["ok"] and "s1 stays parked" in reply["error"] and "OUT_OF_MEMORY" in reply["error"]
    one.stdin.write("\n")
    one.stdin.flush()
    wait_until(lambda: "stays parked" in server.log(), 10, "it has tried")
    finish(server, other)
    assert one.stdout.readline().strip() == before      # as soon as there is room
    end(one)


@pytest.mark.parametrize("most", ["0", "32M"])
@pytest.mark.parametrize("command", ["park", "suspend"])
def test_memory_for_which_the_host_has_no_room_is_moved_by_the_driver(gpu_server, command, most):
    """With room for some of it, a parked session keeps the rest on the GPU; with none it is suspended."""
    server = gpu_server("--park-memory", most)
    asker = Asker(server)
    one, two = begun(program(server, KINDS)), begun(program(server, HOLD, 64))
    before = use(two)
    for name in ("s1", "s2"):
        assert asker.ask(command, session=name)["ok"]
    states = {s["session"]: (s["state"], s["memory"]) for s in asker.ask("sessions")["sessions"]}
    if command == "park" and most == "32M":
        assert states["s1"][0] == "parked" and states["s1"][1] > 0
    else:
        assert states == {"s1": ("suspended", 0), "s2": ("suspended", 0)}
    for name in ("s1", "s2"):
        assert asker.ask("resume", session=name)["ok"]
    assert use(one) == "the same" and use(two) == before
    end(one, two)


@pytest.mark.parametrize("command", ["park", "resume"])
def test_a_worker_that_is_killed_on_its_way_ends_its_session_alone(gpu_server, command):
    server = gpu_server()
    asker = Asker(server)
    one, two = begun(program(server, HOLD, 100)), begun(program(server, HOLD, 16))
    before = use(two)
    (pid,) = [s["pid"] for s in asker.ask("sessions")["sessions"] if s["session"] == "s1"]
    if command == "resume":
        assert asker.ask("park", session="s1")["ok"]
    os.kill(pid, signal.SIGSTOP)        # so that it cannot answer before it is killed
    asker.say(b'{"command": "%s", "session": "s1"}\n' % command.encode())
    other = Asker(server)
    wait_until(lambda: {s["session"]: s["state"] for s in other.ask("sessions")["sessions"]}["s1"] in ("suspending", "resuming"),
               10, "the server has the command")
    os.kill(pid, signal.SIGKILL)
    assert "has ended" in asker.file.readline()
    one.stdin.write("\n")
    one.stdin.close()
    assert one.wait(HANG) != 0 and "down" in one.stderr.read()     # the program gets an error
    assert Asker(server).ask("park", session="s2")["ok"]
    assert Asker(server).ask("resume", session="s2")["ok"]
    assert use(two) == before
    third = begun(program(server, HOLD, 100))       # the killed one holds up no other
    assert use(third)
    end(two, third)


# Adds one to all its memory, by a graph that was made before, whenever it gets a line.
GRAPH = DRIVER + textwrap.dedent('''
    n = int(sys.argv[1]) << 18
    PTX = rb"""
    .version 7.0
    .target sm_70
    .address_size 64
    .visible .entry more(.param .u64 p)
    {
        .reg .b32 %r<5>;
        .reg .b64 %d<3>;
        ld.param.u64 %d1, [p];
        mov.u32 %r1, %ctaid.x;
        mov.u32 %r2, %tid.x;
        mad.lo.u32 %r1, %r1, 256, %r2;
        mul.wide.u32 %d2, %r1, 4;
        add.u64 %d1, %d1, %d2;
        ld.global.u32 %r3, [%d1];
        add.u32 %r3, %r3, 1;
        st.global.u32 [%d1], %r3;
        ret;
    }
    """
    module, more, stream, graph, run = ptr(), ptr(), ptr(), ptr(), ptr()
    ok(c.cuModuleLoadData(ctypes.byref(module), PTX)); ok(c.cuModuleGetFunction(ctypes.byref(more), module, b"more"))
    ok(c.cuStreamCreate(ctypes.byref(stream), 1))
    at, copy = alloc(4 * n), alloc(4 * n)
    ok(c.cuMemsetD32_v2(at, 5, size_t(n))); ok(c.cuCtxSynchronize())
    ok(c.cuStreamBeginCapture_v2(stream, 2))
    array = (ptr * 1)(ctypes.cast(ctypes.byref(at), ptr))
    ok(c.cuLaunchKernel(more, 4, 1, 1, 256, 1, 1, 0, stream, array, None), "launch")
    ok(c.cuMemcpyDtoDAsync_v2(copy, at, size_t(4 * n), stream))
    ok(c.cuStreamEndCapture(stream, ctypes.byref(graph)))
    ok(c.cuGraphInstantiateWithFlags(ctypes.byref(run), graph, u64(0)))
    say("ready")
    count = 0
    for line in sys.stdin:
        count += 1
        ok(c.cuGraphLaunch(run, stream), "graph"); ok(c.cuStreamSynchronize(stream), "synchronize")
        expected = (5 + count).to_bytes(4, "little") * 1024 + (5).to_bytes(4, "little") * (n - 1024)
        say("the same" if down(copy, 4 * n) == expected else "OTHER")
''')


@pytest.mark.parametrize("command", ["park", "suspend"])
def test_a_graph_goes_on_with_its_addresses(gpu_server, command):
    server = gpu_server()
    asker = Asker(server)
    one = begun(program(server, GRAPH, 16))
    for _ in range(4):
        assert use(one) == "the same"
        assert asker.ask(command, session="s1", until="use")["ok"]
    assert use(one) == "the same"
    end(one)


def test_two_sessions_exchange_their_places(gpu_server):
    """Each needs more than half of the GPU: one comes when the other leaves."""
    server = gpu_server("--suspend-for-others")
    one = begun(program(server, GRAPH, 80))
    two = begun(program(server, HOLD, 150))
    before = use(two)
    for _ in range(2):
        assert use(one) == "the same"
        assert use(two) == before
    end(one, two)


def test_a_parked_session_keeps_its_part_of_the_quota(gpu_server, tmp_path):
    policy = tmp_path / "policy"
    policy.write_text('default: { memory = "100M"; };\n')
    server = gpu_server("--policy", str(policy))
    asker = Asker(server)
    one = begun(program(server, HOLD, 64))
    before = use(one)
    for command in ("park", "suspend"):
        assert asker.ask(command, session="s1")["ok"]
        other = program(server, HOLD, 64)
        assert other.wait(HANG) != 0 and "(2, 'alloc')" in other.stderr.read()
        assert asker.ask("resume", session="s1")["ok"]
        assert use(one) == before
    end(one)


def test_memory_returns_if_the_driver_refuses_the_rest(gpu_server, tmp_path):
    """A driver without cuCheckpointProcess...: the worker has moved its memory by then. Parking needs no such driver."""
    old = tmp_path / "old-driver.so"
    old.write_bytes(EMULATED.read_bytes().replace(b"cuCheckpointProcessLock\0", b"cuCheckpointProcessNone\0"))
    server = gpu_server("--driver", str(old))
    asker = Asker(server)
    one = begun(program(server, HOLD, 64))
    before = use(one)
    for _ in range(2):
        reply = asker.ask("suspend", session="s1")
        assert not reply["ok"] and "too old" in reply["error"], reply
        assert use(one) == before
        wait_until(lambda: only(asker)["state"] == "running", 5, "it runs")
    assert asker.ask("park", session="s1")["ok"]
    reply = asker.ask("suspend", session="s1")
    assert not reply["ok"] and "too old" in reply["error"] and only(asker)["state"] == "parked"
    assert asker.ask("resume", session="s1")["ok"]
    assert use(one) == before
    end(one)


def test_workers_that_are_killed_at_any_moment(gpu_server):
    server = gpu_server(memory="1G")
    asker, bystander = Asker(server), begun(program(server, HOLD, 16))
    before = use(bystander)
    for i in range(12):
        one = begun(program(server, HOLD, 200))
        (session,) = [s for s in asker.ask("sessions")["sessions"] if s["client_pid"] == one.pid]
        command = ("park", "resume", "suspend")[i % 3]
        if command == "resume":
            assert asker.ask("park", session=session["session"])["ok"]
        asker.say(b'{"command": "%s", "session": "%s"}\n' % (command.encode(), session["session"].encode()))
        time.sleep(0.02 * (i // 3))
        os.kill(session["pid"], signal.SIGKILL)
        asker.file.readline()       # done, or ended
        one.stdin.write("\n")
        one.stdin.close()
        assert one.wait(HANG) != 0
        assert asker.ask("park", session="s1")["ok"] and asker.ask("resume", session="s1")["ok"]
    assert use(bystander) == before
    end(bystander)


# Holds an array, which the driver owns, beside memory that it does not use; each line compares it.
ARRAY = DRIVER + textwrap.dedent("""
    class Shape(ctypes.Structure):
        _fields_ = [("width", size_t), ("height", size_t), ("format", ctypes.c_int), ("channels", u32)]
    array, width = ptr(), 16384
    ok(c.cuArrayCreate_v2(ctypes.byref(array), ctypes.byref(Shape(width, 2048, 32, 1))), "array")
    data = os.urandom(4 * width)
    ok(c.cuMemcpyHtoA_v2(array, size_t(0), data, size_t(4 * width)), "up")
    at = alloc(16 << 20)
    say("ready")
    for line in sys.stdin:
        back = ctypes.create_string_buffer(4 * width)
        ok(c.cuMemcpyAtoH_v2(back, array, size_t(0), size_t(4 * width)), "down")
        say("the same" if back.raw == data else "OTHER")
""")


def test_what_the_driver_owns_stays_until_it_is_in_the_way(gpu_server):
    server = gpu_server("--suspend-for-others")
    asker = Asker(server)
    one = begun(program(server, ARRAY))
    assert use(one) == "the same"
    two = begun(program(server, HOLD, 150))     # parking leaves 128 MiB of 256 in the way
    before = use(two)
    states = {s["session"]: s["state"] for s in asker.ask("sessions")["sessions"]}
    assert states == {"s1": "suspended", "s2": "running"}
    assert server.log().index("session s1 is parked") < server.log().index("session s1 is suspended")
    assert use(one) == "the same" and use(two) == before
    end(one, two)
