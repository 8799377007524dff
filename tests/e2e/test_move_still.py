"""tests/e2e/test_move_still.py - moves to a receiver that is alive and stands still: the session goes on where it was, and a slow receiver is not taken for one."""
import contextlib
import os
import signal

import pytest

from conftest import DRIVER, SLOW, wait_until
from test_checkpoint_changes import PIECES, programs_that_change_memory  # noqa: F401
from test_checkpoint_faults import asking  # noqa: F401
from test_move import bent, criu_that_waits, receiver
from test_move_memory import assert_goes_on, gates_in, stop_in
from travel import ctl, servers_with_criu, session_of  # noqa: F401

pytestmark = [pytest.mark.skipif(DRIVER != "emu", reason="only the emulated GPU"), pytest.mark.slow]

LIMIT = 3 * 60      # seconds: a minute, on a busy machine


class Move:
    """A move of a new program between two new servers, at a receiver's point where it stands still."""

    def __init__(self, servers, changer, folder, **how):
        folder.mkdir()
        self.folder = folder
        self.program_of_criu = criu_that_waits(folder / "gate") if "gate" in how else None
        self.first, self.second = servers(f"{folder.name}-first"), servers(f"{folder.name}-second", program=self.program_of_criu)
        self.program = changer(self.first.address("tcp"))
        via = receiver(self.second, folder, self.program_of_criu)
        self.via = bent(via, wait=how["wait"]) if "wait" in how else via

    def begin(self, stack):
        self.asker = stack.enter_context(asking(self.first, "move", session_of(self.first), self.second.address("tcp"), self.via))
        if self.program_of_criu:
            wait_until((self.folder / "gate" / "reached").exists, 60, "the other server restores it")
            assert self.asker.poll() is None
        return self

    def error(self):
        """Of the command, which has ended; its receiver may have the output still."""
        wait_until(lambda: self.asker.poll() is not None, LIMIT, lambda: f"{self.folder.name}: {self.first.log()}")
        assert self.asker.returncode == 1, self.asker.stdout.readline()
        return self.asker.stderr.readline()

    def go_on(self):
        for name in ("rounds", "rest", "pages", "gate/go"):
            if (self.folder / name).parent.exists():
                (self.folder / name).touch()


def test_a_receiver_that_stands_still_does_not_keep_a_session(servers, changer, tmp_path):
    """In the rounds, in the rest of the memory, in CRIU's pages, and while it restores. All wait at the same time, and a slow one moves meanwhile."""
    def folder(name):
        return tmp_path / name
    moves = {name: Move(servers, changer, folder(name), **how) for name, how in {
        "rounds": {"wait": [(8 << 20, folder("rounds") / "rounds")]},
        "rest": {"wait": gates_in(folder("rest"))},
        "pages": {"wait": [((PIECES * 2 << 20) + (6 << 20), folder("pages") / "pages")]},
        "restore": {"gate": True}, "slow": {"gate": True}}.items()}
    with contextlib.ExitStack() as stack:
        for move in moves.values():
            stack.callback(move.go_on)
        slow = moves.pop("slow").begin(stack)
        for name, move in moves.items():
            move.begin(stack)
            if name == "rest":
                stop_in("rest", move.program, move.asker, move.folder)
        stopped = moves["restore"].second.process.pid
        os.kill(stopped, signal.SIGSTOP)
        stack.callback(os.kill, stopped, signal.SIGCONT)
        for move in moves.values():
            error = move.error()
            assert "the other server has stood still for 60 s" in error, error + move.first.log()
            assert session_of(move.first) and move.program.is_same(), move.first.log()
        # it has taken longer than the limit by now
        assert slow.asker.poll() is None
        slow.go_on()
        assert slow.asker.wait(60 * SLOW) == 0, slow.first.log()
        assert slow.program.is_same() and session_of(slow.second)
    for move in moves.values():     # all go on, too late
        assert_goes_on(move.first, move.second, move.program, move.folder)
