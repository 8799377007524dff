"""Faults on the way off the GPU and back: processes that are killed at a certain call of the driver, calls that fail, too
little memory. Afterwards the program finds the same bytes, or its session is lost; nothing hangs."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import textwrap

import pytest

from conftest import DRIVER as CHOSEN, EMULATED, HANG, SAN, is_alive, state_and_parent, wait_until
from test_control import Asker
from test_suspend import DRIVER, begun, gpu_server, only, program, selectable, use, used  # noqa: F401
from test_upgrade import restart, returned

pytestmark = pytest.mark.skipif(CHOSEN != "emu", reason="only the emulated GPU has these faults")

PIECE, PIECES = 16 << 20, 5
# Each piece of its memory has other bytes; for each line it says a hash of all.
PATTERN = DRIVER + textwrap.dedent("""
    size, pieces = int(sys.argv[1]), [alloc(int(sys.argv[1])) for _ in range(int(sys.argv[2]))]
    for i, at in enumerate(pieces):
        ok(c.cuMemcpyHtoD_v2(at, b"%08x" % (1 + i) * (size // 8), size_t(size)))
    say("ready")
    for line in sys.stdin:
        say(hashlib.sha256(b"".join(down(at, size) for at in pieces)).hexdigest())
""")

LEAVE = [("park", "cuStreamSynchronize", 1), ("park", "cuMemcpyDtoHAsync_v2", 1), ("park", "cuMemcpyDtoHAsync_v2", 2),
         ("park", "cuMemUnmap", 1), ("park", "cuMemRelease", 2)]
RETURN = [("resume", "cuMemCreate", 1), ("resume", "cuMemCreate", 2), ("resume", "cuMemMap", 2), ("resume", "cuMemSetAccess", 1),
          ("resume", "cuMemcpyHtoDAsync_v2", 1), ("resume", "cuMemcpyHtoDAsync_v2", 2), ("resume", "cuStreamSynchronize", 1)]
HELPER = [("suspend", "cuCheckpointProcessLock", 1), ("suspend", "cuCheckpointProcessCheckpoint", 1),
          ("resume", "cuCheckpointProcessRestore", 1), ("resume", "cuCheckpointProcessUnlock", 1)]


class Faults:
    """A driver library with faults, for servers that are started with it."""

    def __init__(self, folder):
        self.file, self.library = folder / "fault", folder / "fault.so"
        shutil.copy(EMULATED, folder / "libcuda.so.1")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", self.library, pathlib.Path(__file__).parent / "fault_driver.c", "-L", folder,
                        "-Wl,--no-as-needed", "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"], check=True)
        # a spare worker that gets ready would meet them, too
        self.options = ("--driver", self.library, "--warm", "0", "--standby", "0")

    def arm(self, call, number, what):
        new = self.file.with_suffix(".new")
        new.write_text(f"{call} {number} {what}\n")
        new.rename(self.file)

    def met(self):
        """The process that has met the fault."""
        path = pathlib.Path(f"{self.file}.met")
        wait_until(path.exists, 10, "the fault")
        return int(path.read_text())

    def stopped(self):
        """The same, when it stands still."""
        pid = self.met()
        wait_until(lambda: state_and_parent(pid)[0] == "T", 10, "it has stopped")
        return pid


@pytest.fixture(name="faults")
def driver_with_faults(tmp_path, monkeypatch):
    faults = Faults(tmp_path)
    monkeypatch.setenv("FAULT", str(faults.file))
    return faults


def ask(process):
    process.stdin.write("\n")
    process.stdin.flush()


def is_answer(process, before):
    """The session is there, with the same bytes."""
    assert selectable(process.stdout, HANG), "the program waits"
    assert process.stdout.readline().strip() == before


class Place:
    """A server whose driver has faults, with one session."""

    def __init__(self, gpu_server, faults, *options, transport="tcp"):
        self.faults = faults
        self.server = gpu_server(*faults.options, *options)
        self.asker = Asker(self.server)
        self.program = begun(program(self.server, PATTERN, PIECE, PIECES, transport=transport))
        self.before, self.pid = use(self.program), only(self.asker)["pid"]

    def prepare(self, command, helper):
        """So that COMMAND is possible."""
        if command == "resume":
            assert self.asker.ask("suspend" if helper else "park", session="s1")["ok"]

    def stop_at(self, command, call, number):
        """Begins with the command; the process that has stopped at the call."""
        self.prepare(command, call.startswith("cuCheckpoint"))
        self.faults.arm(call, number, "stop")
        self.asker.say(b'{"command": "%s", "session": "s1"}\n' % command.encode())
        return self.faults.stopped()

    def is_lost(self):
        self.program.stdin.write("\n")
        self.program.stdin.close()
        assert self.program.wait(HANG) != 0 and "down" in self.program.stderr.read()
        wait_until(lambda: not self.server.workers(), 10, "its worker has ended")

    def is_same(self):
        ask(self.program)
        is_answer(self.program, self.before)
        self.program.stdin.close()
        assert self.program.wait(HANG) == 0, self.program.stderr.read()


@pytest.fixture(name="place")
def place_with_faults(gpu_server, faults):  # noqa: F811
    places = []

    def go(*options, **transport):
        places.append(Place(gpu_server, faults, *options, **transport))
        return places[-1]
    yield go
    for p in places:
        p.program.kill()


@pytest.mark.parametrize("command, call, number", LEAVE + RETURN + HELPER)
def test_a_worker_that_is_killed_at_a_point_ends_its_session_alone(place, command, call, number):
    p = place()
    pid = p.stop_at(command, call, number)
    os.kill(p.pid, signal.SIGKILL)
    if pid != p.pid:
        os.kill(pid, signal.SIGCONT)
    assert not json.loads(p.asker.file.readline())["ok"]
    p.is_lost()
    other = begun(program(p.server, PATTERN, PIECE, 12))      # its memory is free
    assert use(other)
    other.kill()


@pytest.mark.parametrize("command, call, number", HELPER)
def test_a_session_goes_on_if_the_process_that_moves_it_is_killed_at_a_point(place, command, call, number):
    p = place()
    os.kill(p.stop_at(command, call, number), signal.SIGKILL)
    assert not json.loads(p.asker.file.readline())["ok"]
    if command == "resume":
        wait_until(lambda: only(Asker(p.server))["state"] == "suspended", 10, "it is suspended")
        assert Asker(p.server).ask("resume", session="s1")["ok"]
    p.is_same()


@pytest.mark.parametrize("command, call, number", LEAVE + RETURN + HELPER)
def test_a_session_goes_on_with_the_next_server_from_any_point(place, tmp_path, command, call, number):
    p = place("--state-dir", tmp_path / "state")
    pid = p.stop_at(command, call, number)
    restart(p.server)
    if is_alive(pid):
        os.kill(pid, signal.SIGCONT)
    returned(p.server, 1)
    p.is_same()


@pytest.mark.parametrize("command, call, number", [LEAVE[1], LEAVE[3], RETURN[1], RETURN[4], HELPER[1], HELPER[2]])
def test_without_a_next_server_the_session_ends_at_any_point(place, command, call, number):
    p = place(transport="unix")
    pid = p.stop_at(command, call, number)
    p.server.process.kill()
    p.server.process.wait()
    if is_alive(pid):
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not is_alive(p.pid), 10, "the worker ends")
    p.is_lost()


@pytest.mark.parametrize("command, call, number", LEAVE)
@pytest.mark.parametrize("result", [2, 999])
def test_a_session_whose_memory_does_not_leave_goes_on(place, result, command, call, number):
    p = place()
    p.faults.arm(call, number, result)
    reply = p.asker.ask(command, session="s1")
    p.faults.met()
    if reply["ok"]:
        assert p.asker.ask("resume", session="s1")["ok"]
    p.is_same()


@pytest.mark.parametrize("command, call, number", RETURN[:-1])
@pytest.mark.parametrize("result", [2, 999])
def test_memory_that_does_not_return_is_tried_again_or_lost(place, result, command, call, number):
    """Out of memory (2): it stays parked, and a later try succeeds."""
    p = place()
    p.prepare(command, False)
    p.faults.arm(call, number, result)
    reply = p.asker.ask(command, session="s1")
    p.faults.met()
    if result == 2:
        assert reply["ok"] or p.asker.ask("resume", session="s1")["ok"]
        p.is_same()
    else:
        assert not reply["ok"]
        p.is_lost()


@pytest.mark.skipif(SAN, reason="the sanitizer ends a process that has no memory")
def test_a_session_goes_on_when_the_host_has_no_memory(place):
    p = place()
    resource.prlimit(p.pid, resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))      # less than it has mapped
    reply = p.asker.ask("park", session="s1")
    assert not reply["ok"] and only(p.asker)["state"] == "running", reply
    resource.prlimit(p.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert p.asker.ask("park", session="s1")["ok"] and p.asker.ask("resume", session="s1")["ok"]
    p.is_same()


@pytest.fixture(name="exchange")
def two_sessions_that_exchange_their_places(gpu_server, faults):  # noqa: F811
    """One session returns, and the other one leaves for it: it has stopped in the middle of that."""
    server = gpu_server(*faults.options, "--suspend-for-others", memory="320M")
    programs = [begun(program(server, PATTERN, 64 << 20, 4)) for _ in range(2)]     # the second one makes the first one leave
    server.before = use(programs[1])
    pids = {s["client_pid"]: s["pid"] for s in Asker(server).ask("sessions")["sessions"]}
    faults.arm("cuMemcpyDtoHAsync_v2", 3, "stop")
    ask(programs[0])
    leaver = faults.stopped()
    assert leaver == pids[programs[1].pid]
    yield server, programs, pids[programs[0].pid], leaver
    for p in programs:
        p.kill()


def test_a_session_returns_while_the_other_one_leaves(exchange):
    server, (one, two), comer, leaver = exchange
    wait_until(lambda: used(comer, server.usage) >= 128 << 20 and used(leaver, server.usage) > 0, 10, "both are on the GPU in part")
    os.kill(leaver, signal.SIGCONT)
    is_answer(one, server.before)       # both have the same pattern
    ask(two)
    is_answer(two, server.before)


@pytest.mark.parametrize("which", [0, 1])
def test_a_session_that_is_killed_in_an_exchange_does_not_hurt_the_other(exchange, which):
    server, programs, comer, leaver = exchange
    wait_until(lambda: used(comer, server.usage) >= 128 << 20, 10, "it takes the place")
    os.kill((comer, leaver)[which], signal.SIGKILL)
    if which == 0:
        os.kill(leaver, signal.SIGCONT)
        ask(programs[1])
    is_answer(programs[1 - which], server.before)
    wait_until(lambda: len(server.workers()) == 1, 10, "the other one has ended")
