"""Suspended sessions, and sessions from files, that continue on another GPU: of the same server, or of another one."""
import os
import pathlib
import pwd
import textwrap

import pytest

from conftest import DRIVER, HANG, PRODUCTS, SERVER, SLOW, Server, clean_env, run, wait_until
from criu import criu
from test_control import Asker, ctl
from test_suspend import DRIVER as PROGRAM
from test_suspend import HOLD, TRAIN, begun, program, selectable, use
from travel import programs_that_end_with_the_test, result_without_a_checkpoint  # noqa: F401

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="needs GPUs of known size; the stage othergpu of bench/gpu.sh is for real ones")

MIB = 1 << 20
USER = pwd.getpwuid(os.getuid()).pw_name

# Answers lines by what it can see of its GPU, and of the GPUs by NVML.
LOOK = PROGRAM + textwrap.dedent("""
    at = alloc(64 << 20)
    n = ctypes.CDLL("libnvidia-ml.so.1")
    def uuid_of(h):
        room = ctypes.create_string_buffer(96)
        ok(n.nvmlDeviceGetUUID(h, room, 96))
        return room.value.decode()
    def cuda_text(call):
        room = ctypes.create_string_buffer(96)
        ok(call(room, 96, 0))
        return room.value.decode()
    ok(n.nvmlInit_v2())
    handles = []
    for i in range(2):
        handles.append(ptr()); ok(n.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(handles[-1])))
    def board(h):
        index, count, memory = u32(), u32(8), (ctypes.c_ulonglong * 3)()
        found = (ctypes.c_char * (24 * 8))()
        ok(n.nvmlDeviceGetIndex(h, ctypes.byref(index)))
        ok(n.nvmlDeviceGetMemoryInfo(h, memory))
        ok(n.nvmlDeviceGetComputeRunningProcesses_v3(h, ctypes.byref(count), found))
        pids = [int.from_bytes(found.raw[24 * i:24 * i + 4], "little") for i in range(count.value)]
        return [index.value, uuid_of(h), memory[2] >> 20, os.getpid() in pids]
    say("ready")
    for line in sys.stdin:
        uuid = ctypes.create_string_buffer(16)
        ok(c.cuDeviceGetUuid_v2(uuid, 0))
        free, total = size_t(), size_t()
        ok(c.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        say([uuid.raw.hex(), cuda_text(c.cuDeviceGetName), cuda_text(c.cuDeviceGetPCIBusId), free.value >> 20,
             [board(h) for h in handles]])
""")

# A context on each of two GPUs, with memory there.
BOTH = PROGRAM + textwrap.dedent("""
    one, other = alloc(16 << 20), ptr()
    ok(c.cuMemsetD32_v2(one, 1, size_t(4 << 20)))
    ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(other), 1)); ok(c.cuCtxSetCurrent(other))
    two = alloc(32 << 20)
    ok(c.cuMemsetD32_v2(two, 2, size_t(8 << 20))); ok(c.cuCtxSynchronize())
    say("ready")
    for line in sys.stdin:
        say(hashlib.sha256(down(one, 1 << 20) + down(two, 1 << 20)).hexdigest())
""")


def used(pid, file, device):
    """Bytes that a process uses of an emulated GPU, as other processes see them (emu/core/usage.c)."""
    data = pathlib.Path(file).read_bytes()
    count = 8
    row = 8 * (1 + 2 * count)
    for at in range(0, len(data) - row + 1, row):
        if int.from_bytes(data[at + 4:at + 8], "little") == pid:
            return int.from_bytes(data[at + 8 + 8 * device:at + 16 + 8 * device], "little")
    return None


@pytest.fixture(name="serve")
def servers_with_two_gpus(tmp_path):
    """serve(OPTIONS...): a server with two emulated GPUs of 256 MiB that all its sessions share."""
    servers = []

    def go(*options, policy=None, devices=2, **env):
        number = len(servers)
        if policy:
            path = tmp_path / f"policy{number}"
            path.write_text(policy)
            options += ("--policy", path)
        s = Server(tmp_path / f"server{number}", *options,
                   CRICKET_EMU=f"devices={devices},memory=256M,shared,usage={tmp_path}/usage{number}", **env)
        s.usage = tmp_path / f"usage{number}"
        servers.append(s)
        return s
    yield go
    for s in servers:
        s.end()


def session(server, name="s1"):
    return next(s for s in Asker(server).ask("status")["sessions"] if s["session"] == name)


def places(server, name="s1"):
    """MiB that the session has on each GPU."""
    pid = session(server, name)["pid"]
    return [used(pid, server.usage, device) // MIB for device in range(2)]


def move(server, device, name="s1"):
    """Suspends the session and has it return on that GPU; the reply to the latter."""
    asker = Asker(server)
    reply = asker.ask("suspend", session=name)
    assert reply["ok"], reply
    return asker.ask("resume", session=name, device=str(device))


def suspend_until_use(server):
    """Once the client has nothing more to say by itself, as what it does with free memory."""
    wait_until(lambda: session(server)["idle"] > 2, 30, "the session is idle")
    assert Asker(server).ask("suspend", session="s1", until="use")["ok"]
    assert session(server)["state"] == "suspended"


def close(*processes):
    for p in processes:
        p.stdin.close()
        assert p.wait(HANG) == 0, p.stderr.read()


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_session_returns_on_another_gpu_of_the_server(serve, transport):
    server = serve()
    one = begun(program(server, HOLD, 64, transport=transport))
    before = use(one)
    assert places(server)[0] >= 64 and places(server)[1] == 0
    assert "device" not in session(server)
    for goal in (1, 0, 1, 1):
        assert ctl(server, "suspend", "s1").returncode == 0
        assert places(server) == [0, 0]
        done = ctl(server, "resume", "s1", str(goal))
        assert done.returncode == 0 and done.stdout.endswith(f", on GPU {goal}\n"), done.stderr + done.stdout
        assert use(one) == before
        assert places(server)[goal] >= 64 and places(server)[1 - goal] == 0
        assert session(server)["device"] == goal
    assert "session s1 is on GPU 1" in server.log()
    # without a word it returns to where it is
    asker = Asker(server)
    assert asker.ask("suspend", session="s1", until="use")["ok"]
    assert use(one) == before
    assert places(server)[1] >= 64 and places(server)[0] == 0
    close(one)


def test_the_users_command_does_the_same(serve):
    server = serve()
    one = begun(program(server, HOLD, 16))
    before = use(one)

    def cricket(*words):
        return run([PRODUCTS / "cricket", *words[:1], "-s", server.address("unix"), *words[1:]], clean_env())
    assert cricket("suspend", "s1").status == 0
    assert cricket("resume", "s1", "7").status == 1
    done = cricket("resume", "s1", "1")
    assert done.status == 0 and "on GPU 1" in done.out, done.err
    assert use(one) == before and places(server)[1] >= 16
    close(one)


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_training_alternates_twenty_times_between_two_gpus(serve, transport):
    """Its result is that of a run without."""
    server = serve()
    expected = begun(program(server, TRAIN, 500, transport=transport)).stdout.read()
    assert "end " in expected
    asker, left, name = Asker(server), 20, 1
    while left > 0:     # of one run, or of several where moves take long
        server.wait_idle()
        wait_until(lambda: asker.ask("sessions")["sessions"] == [], 10, "the session before has ended")
        one = begun(program(server, TRAIN, 500, transport=transport))
        first = one.stdout.readline()       # it has used its GPU
        name += 1
        count, at = 0, 0
        while count < left and one.poll() is None:
            reply = asker.ask("suspend", session=f"s{name}")
            if reply["ok"]:
                reply = asker.ask("resume", session=f"s{name}", device=str(1 - at))
            if not reply["ok"]:     # the program has come to its end
                assert "no session" in reply["error"] or "has ended" in reply["error"], reply
                break
            count, at = count + 1, 1 - at
            assert reply["device"] == at, reply
        assert count > 0
        left -= count
        out = first + one.stdout.read()
        assert one.wait(60 * SLOW) == 0, one.stderr.read()
        assert out == expected


def test_the_program_sees_the_same_gpu_and_its_own_memory_there(serve):
    """By CUDA and by NVML; another program sees by NVML where it really is."""
    server = serve()
    other = begun(program(server, HOLD, 100))       # on GPU 0
    assert use(other)
    one = begun(program(server, LOOK))
    before = eval(use(one))         # pylint: disable=eval-used
    assert before[4][0][1:] == [before[4][0][1], before[4][0][2], True] and before[4][0][2] >= 164
    assert move(server, 1, "s2")["ok"]
    after = eval(use(one))          # pylint: disable=eval-used
    assert after[:3] == before[:3]                  # UUID, name, PCI address
    assert after[3] == before[3] + (before[4][0][2] - after[4][0][2])       # more is free: the other is not there
    assert [b[:2] for b in after[4]] == [b[:2] for b in before[4]]          # index and UUID of NVML's devices
    assert 64 <= after[4][0][2] < 100 and after[4][0][3]                    # the first one: its own memory and itself
    assert after[4][1][2] >= 100 and not after[4][1][3]
    third = begun(program(server, LOOK))
    real = eval(use(third))[4]      # pylint: disable=eval-used
    assert [b[2] for b in real] == [after[4][1][2] + 64, after[4][0][2]] or real[0][2] > real[1][2]
    assert move(server, 0, "s2")["ok"]
    back = eval(use(one))           # pylint: disable=eval-used
    assert back[:3] == before[:3] and back[4][0][3] and not back[4][1][3]
    close(one, other, third)


def test_sessions_of_several_gpus_name_each(serve):
    server = serve()
    one = begun(program(server, BOTH))
    before, held = use(one), places(server)
    assert held[0] >= 16 and held[1] >= 32
    reply = move(server, 1)
    assert not reply["ok"] and "s1 stays suspended: it uses GPUs 0, 1: name each, as in 0=2,1=3" == reply["error"]
    asker = Asker(server)
    assert asker.ask("resume", session="s1", device="0=1,1=0")["ok"]
    assert places(server) == [32, 16]       # without the memory that was leased in advance
    assert use(one) == before
    assert asker.ask("suspend", session="s1")["ok"] and asker.ask("resume", session="s1")["ok"]
    assert places(server) == [32, 16] and use(one) == before
    close(one)


@pytest.mark.parametrize("device, why", [
    ("2", "the server has no GPU 2"), ("x", "a device is a number, or a list"), ("0=1,1=1", "a GPU is named twice"),
    ("1" * 200, "the list of devices is too long")])
def test_a_session_that_cannot_go_there_stays_suspended(serve, device, why):
    server = serve()
    one = begun(program(server, HOLD, 16))
    before = use(one)
    reply = move(server, device)
    assert not reply["ok"] and why in reply["error"], reply
    assert session(server)["state"] == "suspended" and places(server) == [0, 0]
    asker = Asker(server)
    assert asker.ask("resume", session="s1")["ok"] and use(one) == before
    reply = asker.ask("resume", session="s1", device="1")
    assert not reply["ok"] and reply["error"] == "s1 is running"
    close(one)


def test_a_gpu_without_room_is_refused_and_the_session_can_go_elsewhere(serve):
    server = serve()
    one = begun(program(server, HOLD, 100))
    before = use(one)
    assert move(server, 1)["ok"] and places(server)[1] >= 100
    other = begun(program(server, HOLD, 200))       # on GPU 0
    assert use(other)
    reply = move(server, 0)
    assert not reply["ok"] and "of GPU 0, where" in reply["error"], reply
    assert session(server)["state"] == "suspended"
    assert Asker(server).ask("resume", session="s1")["ok"]
    assert use(one) == before and places(server)[1] >= 100
    close(other)
    wait_until(lambda: len(Asker(server).ask("sessions")["sessions"]) == 1, 10, "the other one has ended")
    assert move(server, 0)["ok"] and use(one) == before and places(server)[0] >= 100
    close(one)


def test_the_policy_says_on_which_gpus_a_session_may_be(serve):
    server = serve(policy=f'default: {{ gpus = "2,0"; }};\nidentities: ( {{ user = "{USER}"; gpus = "1"; }} );', devices=3)
    one = begun(program(server, HOLD, 32, transport="unix"))        # on GPU 1 alone
    before = use(one)
    assert places(server)[1] >= 32
    for device in (0, 2):
        reply = move(server, device)
        assert not reply["ok"] and f"the policy does not allow it to use GPU {device}" in reply["error"], reply
        assert Asker(server).ask("resume", session="s1")["ok"]
    two = begun(program(server, HOLD, 48))                          # on GPU 2, its first
    assert use(two)
    pid = session(server, "s2")["pid"]
    assert used(pid, server.usage, 2) >= 48 * MIB
    assert not move(server, 1, "s2")["ok"]
    assert Asker(server).ask("resume", session="s2", device="0")["device"] == 0
    assert used(pid, server.usage, 0) >= 48 * MIB and used(pid, server.usage, 2) == 0
    assert use(one) == before and use(two)
    close(one, two)


FILL = PROGRAM + textwrap.dedent("""
    def most(device):
        context = ptr()
        ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)); ok(c.cuCtxSetCurrent(context))
        taken = []
        while True:
            at = u64()
            if c.cuMemAlloc_v2(ctypes.byref(at), size_t(2 << 20)):
                break
            taken.append(at)
        for at in taken:
            ok(c.cuMemFree_v2(at))
        ok(c.cuCtxSynchronize())    # freeing is one-way: until then the quota may count it
        return 2 * len(taken)
    say("ready")
    for line in sys.stdin:
        say(most(int(line)))
""")


def test_quotas_follow_the_session_to_its_gpu(serve):
    """The program has to be refused what its identity has elsewhere; CRICKET_DEBUG=no-arena, or leases keep memory."""
    server = serve(policy='default: { memory = "100M"; };')
    one = begun(program(server, HOLD, 64, CRICKET_DEBUG="no-arena"))
    before = use(one)
    probe = begun(program(server, FILL, CRICKET_DEBUG="no-arena"))

    def most(device):
        probe.stdin.write(f"{device}\n")
        probe.stdin.flush()
        return int(probe.stdout.readline())

    def leaves(first, second):
        """A session's use is counted where it is when its worker runs again."""
        wait_until(lambda: [most(0), most(1)] == [first, second], 10, f"the quota leaves {first} and {second} MiB")
    leaves(36, 100)
    reply = move(server, 1)
    assert reply["ok"], reply
    leaves(100, 36)
    two = begun(program(server, HOLD, 64, CRICKET_DEBUG="no-arena"))       # on GPU 0
    reply = move(server, 0)
    assert not reply["ok"] and "the policy allows 100 MiB on GPU 0, of which 64 MiB are in use, and it has 64 MiB" in reply["error"], reply
    assert Asker(server).ask("resume", session="s1")["ok"]
    leaves(36, 36)
    close(two)
    wait_until(lambda: len(Asker(server).ask("sessions")["sessions"]) == 2, 10, "the second has ended")
    reply = move(server, 0)
    assert reply["ok"], reply
    leaves(36, 100)
    assert use(one) == before
    close(one, probe)


def test_turns_are_of_the_gpu_where_the_sessions_are(serve):
    server = serve(policy=f'identities: ( {{ user = "{USER}"; weight = 3; }} );')
    programs = [begun(program(server, TRAIN, 100000, transport=transport)) for transport in ("unix", "tcp")]

    def held():
        return [session(server, name)["held"] for name in ("s1", "s2")]
    try:
        for device, both in ((1, False), (0, True), (1, False)):
            wait_until(lambda goal=not both: held() == [goal, goal], 30, "turns as the GPUs are shared")
            assert move(server, device, "s2")["ok"]
            wait_until(lambda goal=both: held() == [goal, goal], 30, f"turns after the move to GPU {device}")
    finally:
        for p in programs:
            p.kill()
            p.wait()


def test_a_session_without_room_returns_where_there_is_some(serve):
    server = serve("--resume-anywhere")
    one = begun(program(server, HOLD, 100))
    before = use(one)
    suspend_until_use(server)
    other = begun(program(server, HOLD, 220))       # takes GPU 0
    assert use(one) == before
    assert places(server)[1] >= 100 and session(server)["device"] == 1
    # there is room where it is: it stays
    suspend_until_use(server)
    assert use(one) == before and places(server)[1] >= 100
    close(other, one)


def test_without_the_option_or_the_right_it_waits_for_its_gpu(serve):
    for options, policy in (((), None), (("--resume-anywhere",), 'default: { gpus = "0"; };')):
        server = serve(*options, policy=policy)
        one = begun(program(server, HOLD, 100))
        before = use(one)
        suspend_until_use(server)
        other = program(server, HOLD, 220)
        assert other.stdout.readline() == "ready\n", server.log()
        one.stdin.write("\n")
        one.stdin.flush()
        wait_until(lambda: "where" in server.log() and "session s1 stays suspended" in server.log(), 20, "it finds no room")
        assert not selectable(one.stdout, 1)
        close(other)
        assert one.stdout.readline().strip() == before
        assert places(server)[0] >= 100
        close(one)


SHARE = PROGRAM + textwrap.dedent(f"""
    m3 = ctypes.CDLL({str(PRODUCTS / "libm3.so")!r})
    class Request(ctypes.Structure):
        _fields_ = [("mem_id", ctypes.c_char_p), ("bytes", u64), ("alignment", u64), ("device", ctypes.c_int), ("policy", ctypes.c_int),
                    ("access", ctypes.c_int), ("mode", ctypes.c_uint), ("flags", ctypes.c_uint), ("stripes", ctypes.c_uint)]
    at = alloc(4096)
    ok(c.cuMemsetD32_v2(at, 1, size_t(1024))); ok(c.cuCtxSynchronize())
    say("ready")
    for line in sys.stdin:
        client, region = ptr(), ptr()
        ok(m3.m3_connect(None, ctypes.byref(client)))
        ok(m3.m3_alloc(client, ctypes.byref(Request(b"here", 32 << 20, 0, 0, 0, 3, 0, 0, 0)), ctypes.byref(region)))
        m3.m3_region_ptr.restype = ctypes.c_uint64
        data = u64(m3.m3_region_ptr(region))
        ok(c.cuMemsetD32_v2(data, 77, size_t(8 << 20)))
        say(m3.m3_region_device(region, 0), int.from_bytes(down(data, 4), "little"))
""")


def test_regions_of_m3_are_on_the_gpu_where_the_session_is(serve):
    server = serve()
    one = begun(program(server, SHARE, transport="unix"))
    assert move(server, 1)["ok"]
    assert use(one) == "0 77"       # the program's own number
    broker = server.broker()
    assert used(broker, server.usage, 1) >= 32 * MIB and used(broker, server.usage, 0) == 0
    reply = Asker(server).ask("suspend", session="s1")
    assert not reply["ok"] and "shares GPU memory" in reply["error"]
    close(one)
    wait_until(lambda: used(broker, server.usage, 1) == 0, 20, "the region ends with its program")


def test_a_place_outlives_an_upgrade_of_the_server(serve):
    server = serve()
    one = begun(program(server, HOLD, 32))
    before = use(one)
    assert move(server, 1)["ok"]
    assert ctl(server, "suspend", "s1").returncode == 0
    assert ctl(server, "upgrade").returncode == 0
    done = ctl(server, "resume", "s1")
    assert done.returncode == 0, done.stderr
    assert use(one) == before and places(server)[1] >= 32 and session(server)["device"] == 1
    assert ctl(server, "suspend", "s1").returncode == 0
    assert ctl(server, "upgrade").returncode == 0
    assert ctl(server, "resume", "s1", "0").returncode == 0
    assert use(one) == before and places(server)[0] >= 32
    close(one)


# --- from files, and from another machine

@pytest.fixture(name="machine")
def machines_with_gpus(tmp_path):
    """machine(NUMBER, DEVICES): a server on an emulated machine of that number."""
    started = []

    def start(number, devices, *options, **env):
        server = Server(tmp_path / f"server{len(started)}", "--criu", criu(), *options,
                        CRICKET_EMU=f"machine={number},devices={devices}", **env)
        started.append(server)
        return server
    yield start
    for server in started:
        server.end()


def names(server):
    return [s["session"] for s in Asker(server).ask("sessions")["sessions"]]


def travel(here, there, folder):
    """Moves the only session from one server to another."""
    via = [SERVER, "--unix", there.unix, "--criu", criu(), "--ctl", "receive", folder]
    return ctl(here, "move", names(here)[0], there.address("tcp"), " ".join(str(w) for w in via))


def test_a_checkpoint_continues_on_a_gpu_of_another_uuid_and_number(machine, start_program, expected, tmp_path):
    first, second = machine(1, 2), machine(2, 3)
    running = start_program(first.address("tcp"))
    running.go_on()
    files = tmp_path / "files"
    (name,) = names(first)
    done = ctl(first, "checkpoint", name, str(files), second.address("tcp"))
    assert done.returncode == 0, done.stderr + first.log()
    done = ctl(second, "restore", str(files), "resume")
    assert done.returncode == 0, done.stderr + second.log()
    (name,) = names(second)
    done = ctl(second, "resume", name, "3")
    assert done.returncode == 1 and "the server has no GPU 3" in done.stderr
    done = ctl(second, "resume", name, "2")
    assert done.returncode == 0 and "on GPU 2" in done.stdout, done.stderr + second.log()
    running.go_on()
    # and it can move again, with the UUIDs that it has now
    done = ctl(second, "suspend", name)
    assert done.returncode == 0, done.stderr
    done = ctl(second, "resume", name, "0")
    assert done.returncode == 0 and "on GPU 0" in done.stdout, done.stderr + second.log()
    assert running.end() == 0, running.errors
    assert running.result == expected


def test_a_session_moves_to_a_server_whose_gpus_have_other_uuids(machine, start_program, expected, tmp_path):
    """From a GPU that is not the first one of its machine."""
    first, second = machine(1, 3, CUDA_VISIBLE_DEVICES="1"), machine(2, 3)
    running = start_program(first.address("tcp"))
    running.go_on()
    done = travel(first, second, tmp_path)
    assert done.returncode == 0, done.stderr + first.log() + second.log()
    (name,) = names(second)
    assert f"session {name} is on GPU 0" in second.log()
    running.go_on()
    # the first one shows fewer GPUs than this one
    done = travel(second, first, tmp_path)
    assert done.returncode == 1 and "the checkpoint needs 3 GPUs; here are 1" in done.stderr + first.log()
    assert running.end() == 0, running.errors
    assert running.result == expected


def test_a_session_moves_between_servers_of_one_machine(machine, start_program, expected, tmp_path):
    """Each server has a GPU of its own."""
    servers = [machine(1, 2, CUDA_VISIBLE_DEVICES=gpu) for gpu in "01"]
    running = start_program(servers[0].address("tcp"))
    for here, there in (servers, servers[::-1]):
        running.go_on()
        done = travel(here, there, tmp_path)
        assert done.returncode == 0, done.stderr + here.log() + there.log()
        assert not names(here)
        assert f"session {names(there)[0]} is on GPU 0" in there.log()
    assert running.end() == 0, running.errors
    assert running.result == expected


def test_a_session_from_files_goes_where_its_identity_may(machine, start_program, expected, tmp_path):
    policy = tmp_path / "policy"
    policy.write_text('default: { gpus = "1"; };')
    first, second = machine(1, 2), machine(2, 2, "--policy", policy)
    running = start_program(first.address("tcp"))
    running.go_on()
    files = tmp_path / "files"
    done = ctl(first, "checkpoint", names(first)[0], str(files), second.address("tcp"))
    assert done.returncode == 0, done.stderr + first.log()
    done = ctl(second, "restore", str(files))
    assert done.returncode == 0 and f"session {names(second)[0]} is on GPU 1" in second.log(), done.stderr + second.log()
    assert running.end() == 0, running.errors
    assert running.result == expected
