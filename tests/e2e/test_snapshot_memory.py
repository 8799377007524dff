"""tests/e2e/test_snapshot_memory.py - copies of a snapshot that start at the same time: their device memory is read once, and is in the
host's memory once.

The tests hold a lease of memory.bin (fcntl(2)): whoever opens it waits until the lease is given back.
"""
import contextlib
import fcntl
import os
import pathlib
import re
import signal

import pytest

from conftest import children_of, name_of, wait_until
from criu import criu
from test_park_faults import driver_with_faults  # noqa: F401
from test_snapshot import check_end, damage, sum_of, world_of_snapshots  # noqa: F401
from travel import servers_with_criu  # noqa: F401

READER = "cricket-memory"


@contextlib.contextmanager
def leased(path):
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)    # somebody waits
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(fd)
        signal.signal(signal.SIGIO, before)


def memory_of(world, name="one"):
    return world.path / "data" / "cricket" / "snapshots" / name / "session-0" / "memory.bin"


def restored(server):
    return server.log().count("is restored from")


def reads(server):
    return len(re.findall(r"memory of copies from .*: \d+ MiB", server.log()))


def reader_of(server):
    return next((pid for pid in children_of(server.process.pid) if name_of(pid) == READER), None)


def family(pid):
    return [pid, *(member for child in children_of(pid) for member in family(child))]


def pools(server):
    """By process: the file of device memory that it has."""
    found = {}
    for pid in family(server.process.pid):
        with contextlib.suppress(OSError):
            for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                if os.readlink(fd).startswith("/memfd:cricket-pool"):
                    found[pid] = fd.stat().st_ino
            for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
                if "/memfd:cricket-pool" in line:
                    found[pid] = int(line.split()[4])
    return found


def failure_of(copy):
    """The one line of a copy that was not made."""
    status, out, err = copy.end()
    assert (status, out, err.count("\n")) == (1, "", 1), err
    return err


def test_memory_is_read_once_for_all_copies_and_given_back(world):
    assert world.snapshot().status == 0
    with leased(memory_of(world)):
        copies = [world.copy() for _ in range(4)]
        wait_until(lambda: restored(world.server) == 4, 40, "all workers wait for their memory")
    for i, copy in enumerate(copies):
        assert copy.ask(i).split()[:2] == ["sum", str(sum_of(i))]
    assert reads(world.server) == 1
    assert not pools(world.server)
    for copy in copies:
        check_end(copy)


def test_workers_have_the_same_memory_until_they_return_to_the_gpu(world, servers, faults):
    """One stops on its way there, and the others wait for it."""
    server = servers("stops", *faults.options, CRICKET_EMU="socket")
    assert world.snapshot(server=server).status == 0
    faults.arm("cuMemCreate", 1, "stop")
    with leased(memory_of(world)):
        copies = [world.copy() for _ in range(3)]
        wait_until(lambda: restored(server) == 3, 40, "all workers wait for their memory")
    faults.met()
    wait_until(lambda: not reader_of(server) and len(pools(server)) == 3, 20, lambda: f"each has it: {pools(server)}")
    assert len(set(pools(server).values())) == 1
    for pid in pools(server):
        os.kill(pid, signal.SIGCONT)
    for i, copy in enumerate(copies):
        assert copy.ask(i).split()[:2] == ["sum", str(sum_of(i))]
    assert not pools(server)


def test_a_damaged_piece_is_an_error_for_all_copies_of_the_snapshot_and_no_others(world):
    """The other one has the same memory, but is another session."""
    assert world.snapshot().status == 0 and world.snapshot(name="two").status == 0
    damage(memory_of(world))
    copies, other = [world.copy() for _ in range(3)], world.copy(name="two")
    assert all("memory.bin: its content has changed" in failure_of(copy) for copy in copies)
    assert other.ask(5).split()[:2] == ["sum", str(sum_of(5))]
    check_end(other)
    wait_until(lambda: not world.sessions(), 20, "no session is left")
    assert not pools(world.server)


def test_all_copies_fail_if_the_process_that_reads_is_killed(world):
    assert world.snapshot().status == 0
    with leased(memory_of(world)):
        copies = [world.copy() for _ in range(2)]
        wait_until(lambda: restored(world.server) == 2, 40, "all workers wait for their memory")
        os.kill(reader_of(world.server), signal.SIGKILL)
        assert all("has ended without a reply" in failure_of(copy) for copy in copies)
    wait_until(lambda: not world.sessions() and not pools(world.server), 20, "nothing is left")
    copy = world.copy()
    assert copy.ask(6).split()[:2] == ["sum", str(sum_of(6))]
    check_end(copy)


@pytest.mark.parametrize("killed", [1, 2])
def test_copies_that_are_killed_while_they_start_leave_nothing(world, servers, killed):
    server = servers("keeps", "--keep", "1h")
    assert world.snapshot(server=server).status == 0
    with leased(memory_of(world)):
        copies = [world.copy() for _ in range(2)]
        wait_until(lambda: restored(server) == 2, 40, "all workers wait for their memory")
        for copy in copies[:killed]:
            copy.process.kill()
            copy.process.wait()
    for copy in copies[killed:]:
        assert copy.ask(8).split()[:2] == ["sum", str(sum_of(8))]
        check_end(copy)
    server.wait_idle(20)
    assert not pools(server)


def test_each_copy_reports_the_error_of_its_own_criu(world, servers):
    """Both are at work when the first one reports."""
    program = world.path / "failing"
    program.write_text(f"""#!/bin/sh
[ "$1" = restore ] || exec {criu()} "$@"
for word; do case $word in --log-file=*) log=${{word#*=}};; esac; done
echo "Error (a.c:1): process $(readlink /proc/self/ns/pid)" > $log
mktemp {world.path}/begun-XXXXXX
while [ "$(ls {world.path} | grep -c begun-)" -lt 2 ]; do sleep 0.1; done
exit 1
""")
    program.chmod(0o755)
    assert world.snapshot().status == 0
    world.server.kill()
    server = servers("fails", program=program)
    copies = [world.copy("-s", server.address("tcp")) for _ in range(2)]
    errors = {failure_of(copy) for copy in copies}
    assert len(errors) == 2 and all("CRIU: process pid:[" in error and "session-0/restore.log" in error for error in errors)
