"""Processes that are killed while a session is written into files, sent or restored: it goes on, or is in the files, as a whole."""
import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import DRIVER, SERVER, SLOW, clean_env, is_alive, wait_until
from criu import criu
from holder import programs_that_hold_memory, save  # noqa: F401
from test_checkpoint import world_of_a_test  # noqa: F401
from test_move import receiver
from test_upgrade import restart, returned
from travel import ctl, servers_with_criu, session_of  # noqa: F401

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="only the emulated GPU has these faults")

LARGE = 256 << 20   # takes a while to write


class Gates:
    """A CRIU that waits before and after its dump until the test opens the gate."""

    def __init__(self, path):
        self.path, self.program = path, path / "criu-with-gates"
        path.mkdir()
        self.program.write_text(f"""#!/bin/sh
            pass() {{ touch {path}/$1; while [ ! -e {path}/$1.open ]; do sleep 0.02; done; }}
            [ "$1" = dump ] || exec {criu()} "$@"
            pass before
            {criu()} "$@" & pid=$!
            [ -e {path}/kill_after ] && sleep $(cat {path}/kill_after) && kill -9 $pid
            wait $pid; status=$?
            pass after
            exit $status
            """)
        self.program.chmod(0o700)

    def wait(self, *passed):
        """Until CRIU is at the gate behind those that it has PASSED."""
        for name in passed:
            self.open(name)
        gate = "after" if passed else "before"
        wait_until((self.path / gate).exists, 60, f"CRIU is at the gate {gate}")

    def reach(self, point, folder):
        """Until the process that writes into FOLDER is there: before, in or after the dump, or when it compresses images."""
        if point == "before":
            self.wait()
        elif point == "dump":
            self.open("before")
            wait_for_file(folder, "saved.part-*/images/pages-*")
        else:
            self.wait("before")
        if point == "images":
            self.open()
            wait_for_file(folder, "saved.part-*/*.zst")

    def close(self):
        """For the next dump."""
        for name in ("before", "after", "before.open", "after.open"):
            (self.path / name).unlink(missing_ok=True)

    def open(self, *names):
        for name in names or ("before", "after"):
            (self.path / f"{name}.open").touch()


@pytest.fixture(name="gates")
def criu_with_gates(tmp_path):
    gates = Gates(tmp_path / "gates")
    yield gates
    gates.open()


@contextlib.contextmanager
def asking(server, *words):
    words = [str(word) for word in (SERVER, "--unix", server.unix, "--ctl", *words)]
    with subprocess.Popen(words, env=clean_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asker:
        try:
            yield asker
        finally:
            asker.kill()


def helpers(server, name="cricket-ckpt"):
    """The process ids of the server's helpers of this name."""
    found, pid = [], server.process.pid
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{child}/comm").read_text(encoding="ascii").strip() == name:
                found.append(int(child))
    return found


def kill_helper(server, name="cricket-ckpt"):
    wait_until(lambda: helpers(server, name), 30, f"{name} runs")
    for pid in helpers(server, name):
        os.kill(pid, signal.SIGKILL)


def wait_for_file(folder, pattern):
    wait_until(lambda: any(folder.glob(pattern)), 60, pattern)


def parts(folder):
    return [path for path in folder.iterdir() if ".part-" in path.name]


@pytest.mark.parametrize("point", ["memory", "before", "dump", "after", "images"])
def test_a_session_goes_on_when_the_process_that_writes_it_is_killed(servers, hold, tmp_path, gates, point):
    server, folder = servers("server", program=gates.program), tmp_path / "saved"
    program = hold(server, "random", LARGE if point == "memory" else 32 << 20)
    with asking(server, "checkpoint", session_of(server), folder) as asker:
        if point == "memory":
            wait_for_file(tmp_path, "saved.part-*/memory.bin")
        else:
            gates.reach(point, tmp_path)
        kill_helper(server)
        gates.open()
        error = asker.communicate(timeout=60 * SLOW)[1]
        assert asker.returncode == 1 and "has ended too early" in error, error + server.log()
    assert program.same() and program.same(), server.log()
    assert not folder.exists() and not parts(tmp_path)
    assert save(server, folder).returncode == 0, server.log()       # and it can be written
    assert ctl(server, "restore", folder).returncode == 0, server.log()
    assert program.same(), server.log()


def test_a_checkpoint_that_is_complete_ends_its_worker_in_any_case(world):
    """The process that wrote it is killed between the last two steps."""
    worker, _ = world.spare()
    assert world.checkpoint(worker.pid, keep=True)["ok"]
    undo = {"recover": str(world.path / "saved.part-gone"), "table": 0, "filed": False}
    assert "has ended too early" in world.checkpoint(worker.pid, "other", **undo)["error"]
    assert is_alive(worker.pid)
    assert world.checkpoint(worker.pid, **undo)["ok"]
    assert worker.wait(60) == -signal.SIGKILL
    assert (world.path / "saved" / "manifest.json").exists()


@pytest.mark.parametrize("killed", [2, 9])
def test_processes_that_undo_a_checkpoint_may_be_killed_too(servers, hold, tmp_path, gates, killed):
    server = servers("server", program=gates.program)
    program = hold(server, "random", LARGE)
    with asking(server, "checkpoint", session_of(server), tmp_path / "saved") as asker:
        gates.wait()
        seen = set()

        def kill_next():
            for pid in set(helpers(server)) - seen if len(seen) < killed else ():
                os.kill(pid, signal.SIGKILL)
                seen.add(pid)
            return asker.poll() is not None
        gates.open()
        wait_until(kill_next, 60, "the command has ended")
        error = asker.communicate()[1]
    assert asker.returncode == 1
    if killed == 2:
        assert len(seen) == 2 and "has ended too early" in error, error + server.log()
        assert program.same()
    else:
        assert len(seen) == 4 and "without a reply" in error, error + server.log()
        assert program.ask() == ""
        assert "is lost" in server.log()
        wait_until(lambda: not server.workers(), 30, "the session has ended")


@pytest.mark.parametrize("after", [0.05, 0.08, 0.11])
def test_a_killed_criu_ends_the_session_at_most(servers, hold, tmp_path, gates, after):
    """While its code is in the worker, that ends with it."""
    server, folder = servers("server", program=gates.program), tmp_path / "saved"
    program = hold(server, "random")
    (gates.path / "kill_after").write_text(str(after))
    gates.open()
    if save(server, folder).returncode == 0:    # it was too late
        assert ctl(server, "restore", folder).returncode == 0
    assert program.ask() == ("" if "is lost" in server.log() else program.hash), server.log()
    assert not parts(tmp_path)


def test_a_worker_that_is_killed_ends_its_checkpoint(servers, hold, tmp_path, gates):
    server = servers("server", program=gates.program)
    program = hold(server, "random")
    (worker,) = server.workers()
    with asking(server, "checkpoint", session_of(server), tmp_path / "saved") as asker:
        gates.wait()
        os.kill(worker, signal.SIGKILL)
        gates.open()
        asker.communicate(timeout=60 * SLOW)
        assert asker.returncode == 1
    assert program.ask() == ""
    assert not (tmp_path / "saved").exists() and not parts(tmp_path)


@pytest.mark.parametrize("point", ["memory", "before"])
def test_a_session_goes_on_with_the_next_server_when_its_server_is_killed(servers, hold, tmp_path, gates, point):
    """CRIU cannot restore a worker without a server. This one outlives its server (--state-dir)."""
    server, folder = servers("server", "--state-dir", tmp_path / "state", program=gates.program), tmp_path / "saved"
    program = hold(server, "random", LARGE if point == "memory" else 32 << 20)
    (worker,) = server.workers()
    with asking(server, "checkpoint", session_of(server), folder):
        if point == "memory":
            wait_for_file(tmp_path, "saved.part-*/memory.bin")
        else:
            gates.wait()
        restart(server)
        returned(server, 1)
        gates.open()
        assert program.same(), server.log()
    assert is_alive(worker)
    wait_until(lambda: not parts(tmp_path), 60, "half a checkpoint is removed")
    assert not folder.exists()


def test_a_checkpoint_is_completed_when_its_server_is_killed(servers, hold, tmp_path, gates):
    first, second = servers("first", "--state-dir", tmp_path / "state", program=gates.program), servers("second")
    where, folder = tmp_path / "where", tmp_path / "saved"
    where.write_text(first.address("tcp"))
    program = hold(f"file:{where}", "random")
    (worker,) = first.workers()
    with asking(first, "checkpoint", session_of(first), folder):
        gates.open()
        wait_for_file(tmp_path, "saved.part-*/*.zst")
        first.process.kill()
        wait_until(folder.exists, 60, "the checkpoint is complete")
    wait_until(lambda: not is_alive(worker), 30, "its worker has ended")
    done = ctl(second, "restore", folder)
    assert done.returncode == 0, done.stderr + second.log()
    where.write_text(second.address("tcp"))
    assert program.same(), second.log()


@pytest.mark.parametrize("what", ["restorer", "worker"])
def test_a_restore_that_is_killed_can_be_repeated(servers, hold, tmp_path, what):
    server, folder = servers("server"), tmp_path / "saved"
    program = hold(server, "random", LARGE)
    (worker,) = server.workers()        # it has the same process id again
    assert save(server, folder).returncode == 0
    with asking(server, "restore", folder) as asker:
        wait_for_file(folder, "restore-*")
        if what == "worker":
            log = folder / "restore.log"
            wait_until(lambda: log.exists() and "Restore finished successfully" in log.read_text(errors="replace"),
                       60, "CRIU is done")
            os.kill(worker, signal.SIGKILL)
        else:
            kill_helper(server, "cricket-restore")
        asker.communicate(timeout=60 * SLOW)
        assert asker.returncode == 1
    wait_until(lambda: not server.workers(), 30, "nothing of the session is left")
    done = ctl(server, "restore", folder)
    assert done.returncode == 0, done.stderr + server.log()
    assert program.same(), server.log()


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_session_goes_on_when_the_process_that_sends_it_is_killed(servers, hold, tmp_path, gates, point):
    first, second = servers("first", program=gates.program), servers("second")
    program = hold(first, "random")
    with asking(first, "move", session_of(first), second.address("tcp"), receiver(second, tmp_path)) as asker:
        gates.wait(*{"before": (), "after": ("before",)}[point])
        kill_helper(first)
        gates.open()
        asker.communicate(timeout=60 * SLOW)
        assert asker.returncode == 1
    assert program.same(), first.log()
    wait_until(lambda: session_of(second) is None, 30, "the second server has no copy")
