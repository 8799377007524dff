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

from conftest import DRIVER as CHOSEN, EMULATED, SLOW, is_alive, state_and_parent, wait_until
from test_control import Asker
from test_suspend import DRIVER, begun, gpu_server, only, program, selectable, use  # noqa: F401
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


class Place:
    """A server whose driver has faults, with one session."""

    def __init__(self, gpu_server, folder, *options, transport="tcp"):
        self.fault = folder / "fault"
        shutil.copy(EMULATED, folder / "libcuda.so.1")
        library = folder / "fault.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, pathlib.Path(__file__).parent / "fault_driver.c", "-L", folder, "-Wl,--no-as-needed",
                        "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"], check=True)
        os.environ["FAULT"] = str(self.fault)
        try:
            self.server = gpu_server("--driver", library, *options)
        finally:
            del os.environ["FAULT"]
        self.asker = Asker(self.server)
        self.program = begun(program(self.server, PATTERN, PIECE, PIECES, transport=transport))
        self.before, self.pid = use(self.program), only(self.asker)["pid"]

    def prepare(self, command, helper):
        """So that COMMAND is possible."""
        if command == "resume":
            assert self.asker.ask("suspend" if helper else "park", session="s1")["ok"]

    def arm(self, call, number, what):
        new = self.fault.with_suffix(".new")
        new.write_text(f"{call} {number} {what}\n")
        new.rename(self.fault)

    def met(self):
        """The process that has met the fault."""
        path = pathlib.Path(f"{self.fault}.met")
        wait_until(path.exists, 10, "the fault")
        return int(path.read_text())

    def stop_at(self, command, call, number):
        """Begins with the command; the process that has stopped at the call."""
        self.prepare(command, call.startswith("cuCheckpoint"))
        self.arm(call, number, "stop")
        self.asker.say(b'{"command": "%s", "session": "s1"}\n' % command.encode())
        pid = self.met()
        wait_until(lambda: state_and_parent(pid)[0] == "T", 10, "it has stopped")
        return pid

    def is_lost(self):
        self.program.stdin.write("\n")
        self.program.stdin.close()
        assert self.program.wait(30 * SLOW) != 0 and "down" in self.program.stderr.read()
        wait_until(lambda: not self.server.workers(), 10, "its worker has ended")

    def is_same(self):
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        assert selectable(self.program.stdout, 60 * SLOW), self.server.log()
        assert self.program.stdout.readline().strip() == self.before
        self.program.stdin.close()
        assert self.program.wait(30 * SLOW) == 0, self.program.stderr.read()


@pytest.fixture(name="place")
def place_with_faults(gpu_server, tmp_path):  # noqa: F811
    places = []

    def go(*options, **transport):
        places.append(Place(gpu_server, tmp_path, *options, **transport))
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
    p.arm(call, number, result)
    reply = p.asker.ask(command, session="s1")
    p.met()
    if reply["ok"]:
        assert p.asker.ask("resume", session="s1")["ok"]
    p.is_same()


@pytest.mark.parametrize("command, call, number", RETURN[:-1])
@pytest.mark.parametrize("result", [2, 999])
def test_memory_that_does_not_return_is_tried_again_or_lost(place, result, command, call, number):
    """Out of memory (2): it stays parked, and a later try succeeds."""
    p = place()
    p.prepare(command, False)
    p.arm(call, number, result)
    reply = p.asker.ask(command, session="s1")
    p.met()
    if result == 2:
        assert reply["ok"] or p.asker.ask("resume", session="s1")["ok"]
        p.is_same()
    else:
        assert not reply["ok"]
        p.is_lost()


def test_a_session_goes_on_when_the_host_has_no_memory(place):
    p = place()
    resource.prlimit(p.pid, resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))      # less than it has mapped
    reply = p.asker.ask("park", session="s1")
    assert not reply["ok"] and only(p.asker)["state"] == "running", reply
    resource.prlimit(p.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert p.asker.ask("park", session="s1")["ok"] and p.asker.ask("resume", session="s1")["ok"]
    p.is_same()
