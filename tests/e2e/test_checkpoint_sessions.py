"""tests/e2e/test_checkpoint_sessions.py - sessions of running programs into files and out of them: --ctl checkpoint, restore."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

from breaker import PIECE, Breaker
from conftest import DRIVER, HANG, PATIENCE, SERVER, SLOW, clean_env, client_env, wait_until
from criu import criu
from travel import (PROGRAM, STEPS, ctl, programs_that_end_with_the_test, result_without_a_checkpoint,  # noqa: F401
                    servers_with_criu, session_of)
from test_upgrade import restart

KEEP = f"{5 * PATIENCE}s"     # a program that is killed while its session is being written is waited for so long

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="a real GPU's driver is asked by another test")


def filters_of_worker(server):
    """How many filters of system calls the session's worker has."""
    worker = ctl(server, "sessions").stdout.splitlines()[1].split()[1]
    status = pathlib.Path(f"/proc/{worker}/status").read_text(encoding="utf-8")
    return next(line for line in status.splitlines() if line.startswith("Seccomp_filters:"))


def checkpoint(server, folder, *address):
    done = ctl(server, "checkpoint", session_of(server), folder, *address)
    assert done.returncode == 0, done.stderr + server.log()
    assert "compressed to" in done.stdout


def restore(server, folder):
    done = ctl(server, "restore", folder)
    assert done.returncode == 0, done.stderr + server.log()
    assert done.stdout == f"session {session_of(server)}\n"


def test_a_program_does_not_notice_that_its_session_was_in_files(servers, start_program, expected, tmp_path):
    server = servers("server")
    program = start_program(server.address("tcp"))
    program.go_on()
    filters = filters_of_worker(server)
    for i in range(4):
        program.go_on()
        checkpoint(server, tmp_path / f"saved{i}")
        assert session_of(server) is None
        wait_until(lambda: not server.workers(), 30, "the worker in files is gone here")
        restore(server, tmp_path / f"saved{i}")
        assert filters_of_worker(server) == filters
    program.go_on()
    assert program.end() == 0, program.errors
    assert program.result == expected
    server.wait_idle()


class Renumbered(Breaker):
    """A proxy behind which programs have process id PID, as the server hears."""

    def __init__(self, port, pid):
        host = os.uname().nodename.encode()
        named = struct.pack(">I", len(host)) + host + bytes(-len(host) % 4)
        self.pattern, self.replacement = re.compile(re.escape(named) + b"....", re.DOTALL), named + struct.pack(">I", pid)
        super().__init__(port)

    def pass_on(self, near):
        if near not in self.near:
            return super().pass_on(near)
        try:
            data = near.recv(PIECE)
            self.other[near].sendall(self.pattern.sub(lambda _: self.replacement, data, count=1))
        except OSError:
            return False
        return bool(data)


def process_with(pid):
    """A process with this id, which is free."""
    for _ in range(1000):
        pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1), encoding="ascii")
        process = subprocess.Popen(["sleep", "600"])
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    return pytest.fail("the process id is not free")


def test_a_session_that_was_there_before_its_program_sees_the_program_s_end(servers, start_program, tmp_path):
    """Another process plays the one that has the program, because that must come after the session, and with the same id."""
    server = servers("server")
    process = subprocess.Popen(["sleep", "600"])
    proxy = Renumbered(server.port, process.pid)
    try:
        program = start_program(proxy.address, 10 ** 9)
        program.go_on()
        checkpoint(server, tmp_path / "saved")
        proxy.dark()
        process.kill()
        process.wait()
        restore(server, tmp_path / "saved")
        process = process_with(process.pid)
        proxy.light()
        program.go_on()
        assert server.workers()
        process.kill()
        wait_until(lambda: not server.workers(), 10, "the session has ended")
    finally:
        process.kill()
        process.wait()
        proxy.stop()


def test_another_server_continues_and_the_first_says_where(servers, start_program, expected, tmp_path):
    first, second = servers("first"), servers("second")
    program = start_program(first.address("tcp"))
    program.go_on()
    checkpoint(first, tmp_path / "saved", second.address("tcp"))
    # the program is there first
    wait_until(lambda: "a connection to no session" in second.log(), 60, "the program asks the second server")
    restore(second, tmp_path / "saved")
    program.go_on()
    assert session_of(first) is None and session_of(second)
    # and back again
    checkpoint(second, tmp_path / "again", first.address("tcp"))
    restore(first, tmp_path / "again")
    assert program.end() == 0, program.errors
    assert program.result == expected
    # what its worker logs, the server has that it belongs to
    wait_until(lambda: " ended: " in first.log(), 60, "the session has ended")
    assert " ended: " not in second.log()


def test_a_file_says_where_when_the_first_server_has_gone(servers, start_program, expected, tmp_path):
    first, second = servers("first"), servers("second")
    where = tmp_path / "where"
    where.write_text(first.address("tcp") + "\n")
    program = start_program(f"file:{where}")
    program.go_on()
    checkpoint(first, tmp_path / "saved")
    first.kill()
    restore(second, tmp_path / "saved")
    where.write_text(second.address("tcp") + "\n")
    assert program.end() == 0, program.errors
    assert program.result == expected


def test_a_restored_session_goes_through_an_upgrade_and_into_files_again(servers, start_program, expected, tmp_path):
    server = servers("server")
    program = start_program(server.address("tcp"))
    program.go_on()
    for i in range(2):
        checkpoint(server, tmp_path / f"saved{i}")
        restore(server, tmp_path / f"saved{i}")
        program.go_on()
        before = server.log().count("continuing with 1 running")
        os.kill(server.process.pid, signal.SIGUSR2)
        wait_until(lambda b=before: server.log().count("continuing with 1 running") > b, 30, "the server is upgraded")
        assert session_of(server)
        program.go_on()
    assert program.end() == 0, program.errors
    assert program.result == expected
    server.wait_idle()


def dump_program(pid, images):
    """While its session is away, a program tries to connect now and then: CRIU dumps no program with a TCP socket."""
    images.mkdir()
    for _ in range(50):
        done = subprocess.run([criu(), "dump", "--tree", str(pid), "--images-dir", images, "--log-file", "dump.log"],
                              capture_output=True, text=True, timeout=60 * SLOW)
        if done.returncode == 0:
            return
        time.sleep(0.05)
    pytest.fail((images / "dump.log").read_text()[-2000:])


def test_program_and_session_are_written_one_after_the_other_and_go_on_together(servers, expected, tmp_path):
    """A checkpoint of the whole program: nothing of the first server and of the program is left in between."""
    first = servers("first")
    where, out = tmp_path / "where", tmp_path / "out"
    where.write_text(first.address("tcp"))
    with open(out, "wb") as file:
        program = subprocess.Popen([*map(str, PROGRAM), str(STEPS)], env=client_env(f"file:{where}"), stdout=file,
                                   stderr=file, stdin=subprocess.DEVNULL, start_new_session=True)
    pid = program.pid
    try:
        wait_until(lambda: "step 20\n" in out.read_text(), 60, "step 20")
        checkpoint(first, tmp_path / "session")
        dump_program(pid, tmp_path / "program")
        program.wait(HANG)
        first.kill()
        second = servers("second")
        where.write_text(second.address("tcp"))
        restore(second, tmp_path / "session")
        subprocess.run([criu(), "restore", "--restore-detached", "--images-dir", tmp_path / "program", "--log-file",
                        "restore.log"], check=True, capture_output=True, timeout=60 * SLOW)
        wait_until(lambda: "result " in out.read_text(), 120, "the program has ended")
        assert out.read_text().splitlines()[-1] + "\n" == expected
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        program.kill()
        program.wait()


def test_a_session_that_cannot_leave_goes_on(servers, start_program, expected, tmp_path):
    server = servers("server")
    for address, env in ((server.address("unix"), {}), (server.address("tcp"), {"CRICKET_RESUME": "0"})):
        program = start_program(address, **env)
        program.go_on()
        done = ctl(server, "checkpoint", session_of(server), tmp_path / "saved")
        assert done.returncode == 1 and "CRICKET_RESUME" in done.stderr
        assert program.end() == 0, program.errors
        assert program.result == expected
        server.wait_idle()
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("why", ["no criu", "criu fails", "the folder exists", "no place"])
def test_a_checkpoint_that_fails_leaves_the_session(servers, start_program, expected, tmp_path, why):
    program = {"no criu": "/nowhere/criu", "criu fails": tmp_path / "criu"}.get(why)
    if why == "criu fails":
        program.write_text("#!/bin/sh\n[ $1 = --version ] && echo 'Version: 4.1' && exit\nexit 1\n")
        program.chmod(0o700)
    server = servers("server", program=program)
    folder = tmp_path / ("none/saved" if why == "no place" else "saved")
    if why == "the folder exists":
        folder.mkdir()
    program = start_program(server.address("tcp"))
    program.go_on()
    done = ctl(server, "checkpoint", session_of(server), folder)
    assert done.returncode == 1
    assert {"no criu": "was not found", "criu fails": "ended with status 1", "the folder exists": "File exists",
            "no place": "No such file"}[why] in done.stderr
    assert program.end() == 0, program.errors
    assert program.result == expected


def checks(server):
    """Whether the server has the check of a new program running."""
    pid = server.process.pid
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        with contextlib.suppress(OSError):
            if b"--check-continue" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                return True
    return False


def test_an_upgrade_waits_for_a_checkpoint_whose_command_has_gone(servers, start_program, expected, tmp_path):
    """The new program would know nothing of it, and the session would stay away."""
    program, go_on = tmp_path / "criu", tmp_path / "go_on"
    os.mkfifo(go_on)
    program.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo 'Version: 4.1' && exit\ntouch {tmp_path}/begun\nread word < {go_on}\nexit 1\n")
    program.chmod(0o700)
    server = servers("server", program=program)
    program = start_program(server.address("tcp"))
    program.go_on()
    words = [SERVER, "--unix", server.unix, "--ctl", "checkpoint", session_of(server), tmp_path / "saved"]
    with subprocess.Popen(words, env=clean_env(), stdout=subprocess.DEVNULL) as asker:
        wait_until((tmp_path / "begun").exists, 30, "CRIU runs")
        asker.kill()
    with subprocess.Popen([SERVER, "--unix", server.unix, "--ctl", "upgrade"], env=clean_env(), stdout=subprocess.PIPE) as upgrade:
        wait_until(lambda: "upgrade: checking" in server.log() and not checks(server), 30, "the new program is checked")
        go_on.write_text("go\n", encoding="utf-8")
        upgrade.communicate(timeout=60 * SLOW)
        assert upgrade.returncode == 0
    assert program.end() == 0, program.errors
    assert program.result == expected
    server.wait_idle()


def test_a_session_of_the_past_does_not_get_its_program_back(servers, start_program, tmp_path):
    """Its program has gone on meanwhile, so its knowledge no longer matches that state."""
    server = servers("server")
    program = start_program(server.address("tcp"))
    program.go_on()
    checkpoint(server, tmp_path / "saved")
    shutil.copytree(tmp_path / "saved", tmp_path / "old")
    restore(server, tmp_path / "saved")
    program.go_on()
    checkpoint(server, tmp_path / "new")
    done = ctl(server, "restore", tmp_path / "old")
    assert done.returncode == 0
    status = program.end()
    assert status != 0 and program.result is None, program.errors + server.log()
    assert "from a checkpoint" in program.errors


@pytest.mark.parametrize("limit", ["--sessions-per-address", "--sessions-per-identity"])
def test_a_restored_session_belongs_to_whom_it_did(servers, start_program, tmp_path, limit):
    first, second = servers("first"), servers("second", limit, "1")
    program = start_program(first.address("tcp"), 100000)
    program.go_on()
    owner = ctl(first, "sessions").stdout.splitlines()[1]
    assert "address 127.0.0.1" in owner
    checkpoint(first, tmp_path / "saved", second.address("tcp"))
    restore(second, tmp_path / "saved")
    program.go_on()
    assert "address 127.0.0.1" in ctl(second, "sessions").stdout.splitlines()[1]
    refused = start_program(second.address("tcp"))
    assert refused.end() != 0 and limit in refused.errors + second.log()
    program.kill()
    second.wait_idle()
    assert start_program(second.address("tcp")).end() == 0


def test_commands_say_what_is_wrong(servers, start_program, tmp_path):
    server = servers("server", "--max-sessions", "1")
    assert "there is no session s9" in ctl(server, "checkpoint", "s9", tmp_path / "x").stderr
    assert ctl(server, "checkpoint", "s9").returncode == 2 and ctl(server, "restore").returncode == 2
    assert "No such file" in ctl(server, "restore", tmp_path / "x").stderr
    program = start_program(server.address("tcp"), 100000)
    program.go_on()
    checkpoint(server, tmp_path / "saved")
    other = start_program(server.address("tcp"))
    other.go_on()
    assert "--max-sessions" in ctl(server, "restore", tmp_path / "saved").stderr
    assert other.end() == 0
    server.wait_idle()
    restore(server, tmp_path / "saved")
    program.go_on()
    assert program.process.poll() is None


def saved_in(folder):
    """Its complete checkpoints, and how many have been written: {folder: inode}."""
    return {path: path.stat().st_ino for path in folder.iterdir() if (path / "manifest.json").exists()
            and ".part-" not in path.name}


def test_sessions_are_saved_again_and_again_and_go_on(servers, start_program, expected, tmp_path):
    folder = tmp_path / "saved"
    server = servers("server", "--checkpoint-every", "1", "--checkpoint-dir", folder, "--keep", KEEP)
    programs = [start_program(server.address("tcp"), 100000) for _ in range(2)]
    local = start_program(server.address("unix"))
    wait_until(lambda: len(saved_in(folder)) == 2, 60, "two sessions are saved")
    before = saved_in(folder)
    wait_until(lambda: all(before[path] != ino for path, ino in saved_in(folder).items()), 60, "they are saved again")
    wait_until(lambda: set(saved_in(folder)) == set(before), 60, "there is one folder for each")
    assert folder.stat().st_mode & 0o777 == 0o700
    steps = [program.steps for program in programs]
    wait_until(lambda: all(p.steps > n + 10 for p, n in zip(programs, steps)), 60, "both programs go on")
    assert local.end() == 0 and local.result == expected
    exact = start_program(server.address("tcp"))
    assert exact.end() == 0, exact.errors
    assert exact.result == expected
    for program in programs:
        program.kill()
    server.wait_idle(60)
    wait_until(lambda: not list(folder.iterdir()), 60, lambda: f"ended sessions have no folder: {server.log()}")


def test_a_session_goes_on_before_its_checkpoint_is_compressed(servers, start_program, tmp_path):
    server = servers("server", "--checkpoint-every", "1", "--checkpoint-dir", tmp_path / "saved", "--keep", KEEP)
    program = start_program(server.address("tcp"), 100000)
    wait_until(lambda: " is saved in " in server.log(), 60, "it is saved")
    log = server.log()
    assert 0 < log.index("session s1 goes on") < log.index("session s1 is saved in")
    # its end may come before that is done
    goes_on = log.count("session s1 goes on")
    wait_until(lambda: server.log().count("session s1 goes on") > goes_on, 60, "it is saved again")
    program.kill()
    wait_until(lambda: not list((tmp_path / "saved").iterdir()), 60, "what has ended is removed")


def test_a_session_that_is_not_used_is_not_saved_again(servers, tmp_path):
    folder = tmp_path / "saved"
    server = servers("server", "--checkpoint-every", "1", "--checkpoint-dir", folder)
    source = ("import ctypes, time; c = ctypes.CDLL(None); p = ctypes.c_void_p(); m = ctypes.c_uint64()\n"
              "assert not c.cuInit(0) and not c.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0)\n"
              "assert not c.cuCtxSetCurrent(p) and not c.cuMemAlloc_v2(ctypes.byref(m), ctypes.c_size_t(1 << 20))\n"
              "print('ready', flush=True); time.sleep(600)")
    with subprocess.Popen([sys.executable, "-c", source], env=client_env(server.address("tcp")),
                          stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout.readline() == b"ready\n"
            wait_until(lambda: " is saved in " in server.log(), 60, "it is saved")
            seen = [(time.monotonic(), 1)]      # when so many had been saved: some while the program began

            def is_quiet():
                count = server.log().count(" is saved in ")
                if count != seen[-1][1]:
                    seen.append((time.monotonic(), count))
                return time.monotonic() - seen[-1][0] > 4
            wait_until(is_quiet, 60, "it is saved no more")
        finally:
            program.kill()


def test_after_a_crash_the_saved_session_of_a_program_that_has_gone_on_is_refused(servers, start_program, tmp_path):
    folder = tmp_path / "saved"
    first, second = servers("first", "--checkpoint-every", "2", "--checkpoint-dir", folder), servers("second")
    where = tmp_path / "where"
    where.write_text(first.address("tcp"))
    program = start_program(f"file:{where}", 100000)
    wait_until(lambda: "the client is back" in first.log() and " is saved in " in first.log(), 60, "it is saved, and goes on")
    program.go_on(50)
    (worker,) = first.workers()
    os.kill(worker, signal.SIGSTOP)     # a worker whose server ends says goodbye to its client; a crash does not
    first.kill()
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    (saved,) = saved_in(folder)
    restore(second, saved)
    where.write_text(second.address("tcp"))
    assert program.end() != 0 and program.result is None
    assert "from a checkpoint" in program.errors


def test_the_checkpoint_of_a_session_that_outlived_its_server_is_removed(servers, start_program, tmp_path):
    """The new server does not see how the worker ends, which is not its child: the worker says so."""
    folder = tmp_path / "saved"
    server = servers("server", "--state-dir", tmp_path / "state", "--checkpoint-every", "5", "--checkpoint-dir", folder,
                     "--keep", KEEP)
    programs = [start_program(server.address("tcp"), 100000) for _ in range(2)]
    wait_until(lambda: server.log().count(" is saved in ") >= 2, 60, "both are saved")
    restart(server)
    wait_until(lambda: len(ctl(server, "sessions").stdout.splitlines()) == 3, 30, "the sessions return")
    programs[0].kill()
    wait_until(lambda: len(saved_in(folder)) == 1, 60, lambda: f"the ended session has no folder: {server.log()}")
    worker = ctl(server, "sessions").stdout.splitlines()[1].split()[1]
    os.kill(int(worker), signal.SIGKILL)    # that is no end in order: the checkpoint is kept
    assert programs[1].end() != 0
    wait_until(lambda: session_of(server) is None, 30, "the other session has ended")
    assert len(saved_in(folder)) == 1


def test_checkpoints_by_time_need_a_folder_of_their_own(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    for options in (["--checkpoint-every", "1m"], ["--checkpoint-dir", shared],
                    ["--checkpoint-every", "1m", "--checkpoint-dir", "relative"],
                    ["--checkpoint-every", "1m", "--checkpoint-dir", shared]):
        done = subprocess.run([SERVER, "--driver", "emu", "--listen", "127.0.0.1:1", "--unix", tmp_path / "s", *options],
                              env=clean_env(), capture_output=True, text=True, timeout=60 * SLOW)
        assert done.returncode in (1, 2) and ("must be given together" in done.stderr or "absolute" in done.stderr
                                         or "server's user's alone" in done.stderr), done.stderr
