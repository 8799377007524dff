"""tests/e2e/test_move_memory.py - device memory of sessions that move: in chunks beside CRIU's files, each compared when it comes."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest

from conftest import DRIVER, SLOW, wait_until
from holder import programs_that_hold_memory  # noqa: F401
from test_checkpoint_changes import PIECES, programs_that_change_memory  # noqa: F401
from test_checkpoint_faults import asking, criu_with_gates, kill_helper  # noqa: F401
from test_move import bent, move, receiver
from travel import ctl, servers_with_criu, session_of  # noqa: F401

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="only the emulated GPU")

MEMORY = PIECES * 2     # MiB of a program


def sent(done):
    """MiB of device memory that a move has sent in chunks."""
    assert done.returncode == 0, done.stderr
    found = re.search(r"(\d+) MiB were sent", done.stdout)
    return int(found[1]) if found else 0


def test_memory_is_sent_in_chunks_and_returns(servers, changer, tmp_path):
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    for here, there, piece in ((first, second, 3), (second, first, 5), (first, second, 3)):
        assert sent(move(here, there.address("tcp"), receiver(there, tmp_path))) >= MEMORY, here.log()
        assert session_of(here) is None and program.is_same(), there.log()
        program.change(piece)
        assert program.is_same()
    # it can leave the GPU there, in each way
    for command in ("suspend", "resume", "park", "resume"):
        assert ctl(second, command, session_of(second)).returncode == 0, second.log()
    assert program.is_same(), second.log()


@pytest.mark.parametrize("kind,most", [("equal", 2), ("zero", 0)])
def test_equal_memory_is_sent_once_and_zeros_are_not(servers, hold, tmp_path, kind, most):
    first, second = servers("first"), servers("second")
    program = hold(first, kind)
    # beside it the program has memory of its own, of the client
    assert sent(move(first, second.address("tcp"), receiver(second, tmp_path))) <= most + 2
    assert program.same(), second.log()


def test_a_suspended_or_parked_session_moves_as_before(servers, changer, tmp_path):
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    for here, there, how in ((first, second, "suspend"), (second, first, "park")):
        assert ctl(here, how, session_of(here)).returncode == 0, here.log()
        done = move(here, there.address("tcp"), receiver(there, tmp_path))
        assert done.returncode == 0, done.stderr + here.log() + there.log()
        assert program.is_same(), there.log()


# --- servers of older releases

def test_a_receiver_of_an_older_release_gets_the_old_form(servers, changer, tmp_path):
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    assert sent(move(first, second.address("tcp"), bent(receiver(second, tmp_path), old=True))) == 0
    assert program.is_same(), second.log()


def test_a_sender_of_an_older_release_is_understood(servers, changer, tmp_path):
    """Its command names no format."""
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    here, there = socket.socketpair()
    with here, subprocess.Popen(receiver(second, tmp_path), shell=True, stdin=there, stdout=there) as process:
        there.close()
        size = int.from_bytes(here.recv(4, socket.MSG_WAITALL), "big")
        ready = json.loads(here.recv(size, socket.MSG_WAITALL))
        assert ready["ok"] and ready["format"] == 1
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(f"{first.unix}.ctl")
            socket.send_fds(control, [b" "], [here.fileno()])
            request = {"command": "move", "session": session_of(first), "address": second.address("tcp")}
            control.sendall(json.dumps(request).encode() + b"\n")
            reply = json.loads(control.makefile().readline())
        assert reply["ok"] and reply["sent"] == 0, reply
        assert process.wait(60 * SLOW) == 0
    assert session_of(first) is None and program.is_same(), second.log()


# --- faults: the session goes on where it was, and can move later

def assert_goes_on(first, second, program, tmp_path):
    assert session_of(first) and program.is_same(), first.log()
    wait_until(lambda: session_of(second) is None and not list(tmp_path.glob("cricket-receive-*")), 60, second.log)
    program.change(1)
    assert sent(move(first, second.address("tcp"), receiver(second, tmp_path))) >= MEMORY
    assert program.is_same(), second.log()


@pytest.mark.parametrize("place", [70, 200, 100000, 20 << 20])
def test_wrong_bytes_end_the_move(servers, changer, tmp_path, place):
    """In the announcement, in a head, or in a chunk."""
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    done = move(first, second.address("tcp"), bent(receiver(second, tmp_path), flip=place))
    assert done.returncode == 1 and "the other server" in done.stderr, done.stdout + done.stderr
    if place > 200:
        assert "of the memory has changed on the way" in done.stderr, done.stderr
    assert_goes_on(first, second, program, tmp_path)


@pytest.mark.parametrize("killed", ["receiver", "sender", "worker"])
def test_processes_that_are_killed_while_memory_is_sent(servers, changer, tmp_path, killed):
    first, second, gate = servers("first"), servers("second"), tmp_path / "gate"
    program = changer(first.address("tcp"))
    via = bent(f"echo $$ > {tmp_path}/pid; exec {receiver(second, tmp_path)}", wait=(8 << 20, gate))
    (worker,) = first.workers()
    with asking(first, "move", session_of(first), second.address("tcp"), via) as asker:
        wait_until((tmp_path / "gate.reached").exists, 60, "some of the memory is sent")
        if killed == "sender":
            kill_helper(first)
        else:
            os.kill(worker if killed == "worker" else int((tmp_path / "pid").read_text()), signal.SIGKILL)
        gate.touch()
        error = asker.communicate(timeout=60 * SLOW)[1]
        assert asker.returncode == 1, error
    for folder in tmp_path.glob("cricket-receive-*"):
        assert killed == "receiver"     # which nothing could remove
        folder.rename(tmp_path / "left")
    if killed == "worker":
        assert program.ask("?") == ""
        wait_until(lambda: session_of(first) is None and session_of(second) is None, 30, first.log)
    else:
        assert_goes_on(first, second, program, tmp_path)


def test_a_session_goes_on_when_its_pool_has_left_and_the_sender_is_killed(servers, changer, gates, tmp_path):
    """The worker has dropped its memory, and gets it back with the pool's file."""
    first, second = servers("first", program=gates.program), servers("second")
    program = changer(first.address("tcp"))
    with asking(first, "move", session_of(first), second.address("tcp"), receiver(second, tmp_path)) as asker:
        gates.wait("before")
        kill_helper(first)
        gates.open()
        assert "has ended too early" in asker.communicate(timeout=60 * SLOW)[1]
    assert program.is_same(), first.log()
    wait_until(lambda: session_of(second) is None, 30, "the second server has no copy")
