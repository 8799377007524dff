"""tests/e2e/test_move.py - sessions of running programs from one server to another: --ctl move, receive."""
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import DRIVER, HANG, PRODUCTS, SERVER, SLOW, clean_env, wait_until
from criu import criu
from test_command import Terminal
from travel import (ctl, programs_that_end_with_the_test, result_without_a_checkpoint, servers_with_criu,  # noqa: F401
                    session_of)

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="a real GPU's driver is asked by another test")


def receiver(server, folder, program=None):
    """The command that --ctl move runs: here it leads to another server of this machine."""
    words = [SERVER, "--unix", server.unix, "--criu", program or criu(), "--ctl", "receive", folder]
    return " ".join(shlex.quote(str(word)) for word in words)


def move(server, address, via):
    return ctl(server, "move", session_of(server), address, via)


def ids_of(server):
    return [session_of(server), [len(server.workers())]]


@pytest.mark.parametrize("option", ["", "socket"])      # each worker binds an abstract socket, as with NVIDIA's driver
def test_a_program_does_not_notice_that_its_session_moves(servers, start_program, expected, tmp_path, option):
    first, second = (servers(name, CRICKET_EMU=option) for name in ("first", "second"))
    program = start_program(first.address("tcp"))
    for here, there in ((first, second), (second, first), (first, second)):
        program.go_on()
        done = move(here, there.address("tcp"), receiver(there, tmp_path))
        assert done.returncode == 0, done.stderr + here.log() + there.log()
        assert re.fullmatch(r"\d+ MiB of GPU memory have moved, \d+ MiB were sent, 1 round beside the program; a pause of \d+ ms\n", done.stdout), done.stdout
        assert session_of(here) is None and session_of(there)
        program.go_on()
    assert program.end() == 0, program.errors
    assert program.result == expected
    first.wait_idle()
    second.wait_idle()
    assert not list(tmp_path.glob("cricket-receive-*"))     # nothing of it stays on the disk
    assert "has moved to" in first.log()


def test_the_command_moves_a_session_and_shows_that_on_a_terminal(servers, start_program, expected, tmp_path):
    first, second = servers("first"), servers("second")
    program = start_program(first.address("tcp"))
    program.go_on()
    go = tmp_path / "go"
    os.mkfifo(go)
    via = f"read word < {go}; {receiver(second, tmp_path)}"
    words = [PRODUCTS / "cricket", "move", "-s", first.address("unix"), session_of(first), second.address("tcp"), via]
    terminal = Terminal(words, clean_env())
    try:
        wait_until(lambda: terminal.has(" s "), 20, "the time is shown")
        assert re.search(r"\rcricket: move s\d+ \(\d+ MiB\): \d+ s ", terminal.shown), terminal.shown
        go.write_text("go\n", encoding="utf-8")
        wait_until(lambda: terminal.has("MiB of GPU memory have moved"), 60, "the result is shown")
        assert terminal.process.wait(HANG) == 0
    finally:
        terminal.end()
    assert session_of(first) is None and session_of(second)
    assert program.end() == 0 and program.result == expected, program.errors


def test_the_command_says_why_a_session_does_not_move(servers, start_program, tmp_path):
    first = servers("first")
    start_program(first.address("tcp")).go_on()

    def command(*words):
        return subprocess.run([PRODUCTS / "cricket", "move", *words], env=clean_env(), capture_output=True, text=True, timeout=60)
    done = command("-s", first.address("unix"), session_of(first), "127.0.0.1:1", "exit 3")
    assert (done.returncode, done.stdout) == (1, "") and "no receiver on the other machine" in done.stderr
    done = command("-s", first.address("unix"), "s99", "127.0.0.1:1", receiver(first, tmp_path))
    assert done.returncode == 1 and "there is no session s99" in done.stderr
    assert command("-s", first.address("unix"), "s1").returncode == 2
    assert command("-s", "gpuhost", "s1", "there").returncode == 1


def criu_that_waits(folder):
    """A CRIU that restores only when FOLDER/go is there; FOLDER/reached: it would."""
    folder.mkdir()
    program = folder / "criu"
    program.write_text(f"""#!/bin/sh
        if [ "$1" = restore ]; then touch {folder}/reached; while [ ! -e {folder}/go ]; do sleep 0.05; done; fi
        exec {criu()} "$@"
        """)
    program.chmod(0o700)
    return program


def test_a_program_waits_for_a_session_that_leaves_for_longer_than_for_a_connection(servers, start_program, expected, tmp_path):
    first = servers("first", "--keep", "10")
    second = servers("second", program=criu_that_waits(tmp_path / "gate"))
    program = start_program(first.address("tcp"))
    program.go_on()
    via = receiver(second, tmp_path, tmp_path / "gate" / "criu")
    with ThreadPoolExecutor() as pool:
        moving = pool.submit(move, first, second.address("tcp"), via)
        wait_until((tmp_path / "gate" / "reached").exists, 60, "the other server restores it")
        until = time.monotonic() + 14
        wait_until(lambda: time.monotonic() > until, 60, "its time is over")
        (tmp_path / "gate" / "go").touch()
        assert moving.result().returncode == 0, moving.result().stderr
    assert program.end() == 0 and program.result == expected, program.errors
    assert "is being moved or written: CUDA calls wait\n" in program.errors


@pytest.mark.parametrize("kind", ["no receiver", "not one", "no CRIU", "other program", "no room", "no folder"])
def test_a_session_that_cannot_move_goes_on(servers, start_program, expected, tmp_path, kind):
    first = servers("first")
    second = servers("second", *(("--max-sessions", "1") if kind == "no room" else ()))
    via = {"no receiver": "exit 3", "not one": "echo hello, hello; cat >/dev/null",
           "no CRIU": receiver(second, tmp_path, "/nowhere/criu"), "no folder": receiver(second, tmp_path / "nowhere"),
           "other program": f"{sys.executable} -c 'import sys; sys.exit(1)'"}.get(kind, receiver(second, tmp_path))
    if kind == "no room":
        start_program(second.address("tcp"), 100000).go_on()
    program = start_program(first.address("tcp"))
    program.go_on()
    done = move(first, second.address("tcp"), via)
    assert done.returncode == 1 and not done.stdout
    why = {"no receiver": "no receiver on the other machine", "not one": "no receiver on the other machine",
           "no CRIU": "checkpoints need CRIU", "no room": "--max-sessions", "no folder": "nowhere",
           "other program": "no receiver on the other machine"}[kind]
    assert why in done.stderr
    assert session_of(first)
    assert program.end() == 0, program.errors
    assert program.result == expected
    assert not list(tmp_path.glob("cricket-receive-*"))


def test_a_file_of_another_user_is_not_in_the_way(servers, start_program, tmp_path):
    """The receiver's folder is in one where others can make files, and its process id is easy to guess."""
    first, second = servers("first"), servers("second")
    program = start_program(first.address("tcp"))
    program.go_on()
    done = move(first, second.address("tcp"), f"touch {tmp_path}/cricket-receive-$$; exec {receiver(second, tmp_path)}")
    assert done.returncode == 0, done.stderr
    assert program.end() == 0, program.errors


def bent(via, **how):
    """VIA behind bend.py, with its options."""
    words = [sys.executable, pathlib.Path(__file__).parent / "bend.py", via]
    for name, value in how.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{name.replace('_', '-')}", *(one if isinstance(one, tuple) else [] if one is True else [one])]
    return " ".join(shlex.quote(str(word)) for word in words)


@pytest.mark.parametrize("count", [1, 30, 100000, 3000000])
def test_a_connection_that_is_cut_leaves_the_session_where_it_was(servers, start_program, expected, tmp_path, count):
    first, second = servers("first"), servers("second")
    program = start_program(first.address("tcp"))
    program.go_on()
    done = move(first, second.address("tcp"), bent(receiver(second, tmp_path), cut=count))
    assert done.returncode == 1
    assert session_of(first) and session_of(second) is None
    assert program.end() == 0, program.errors
    assert program.result == expected
    wait_until(lambda: not list(tmp_path.glob("cricket-receive-*")), 30, "the other server has cleaned up")


def test_a_server_that_was_not_believed_ends_its_copy(servers, start_program, expected, tmp_path):
    """The receiver has restored the session, but the sender does not hear of it. No program comes there."""
    first, second = servers("first"), servers("second", "--keep", "2")
    program = start_program(first.address("tcp"))
    program.go_on()
    done = move(first, second.address("tcp"), bent(receiver(second, tmp_path), until='"session"'))
    assert done.returncode == 1, done.stdout
    assert session_of(first)
    wait_until(lambda: session_of(second) is None, 30, "the second server ends its copy")
    assert program.end() == 0, program.errors
    assert program.result == expected


def test_a_session_is_at_the_receiver_when_only_the_last_word_of_the_sender_is_lost(servers, start_program, expected, tmp_path):
    """Its old worker has ended then."""
    first, second = servers("first"), servers("second")
    program = start_program(first.address("tcp"))
    program.go_on()
    done = move(first, second.address("tcp"), bent(receiver(second, tmp_path), last='{"ok":true}'))
    assert done.returncode == 0, done.stderr
    assert session_of(first) is None and session_of(second)
    program.go_on()
    assert program.end() == 0, program.errors
    assert program.result == expected


def test_the_words_of_the_commands(servers):
    server = servers("server")
    done = ctl(server, "move", "s1")
    assert done.returncode == 2 and "move session address [via]" in done.stderr
    done = ctl(server, "move", "s9", "nowhere:1", "echo")
    assert done.returncode == 1
    for address in ("unix:/run/cricket.sock", "ssh://gpu2", "local"):     # a program would not go there
        done = ctl(server, "checkpoint", "s9", "/nowhere", address)
        assert done.returncode == 1 and "must be HOST or HOST:PORT" in done.stderr, done.stderr
    with subprocess.Popen([SERVER, "--unix", server.unix, "--criu", criu(), "--ctl", "receive"], env=clean_env(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
        out, err = done.communicate(timeout=60)
    assert done.returncode == 1 and b'"ok":true' in out and b"the other server has ended the connection" in err
    assert not list(pathlib.Path("/var/tmp").glob(f"cricket-receive-{done.pid}*")) and os.path.exists(server.unix)


@pytest.mark.parametrize("processes", [0, 1])
def test_a_receiver_uses_a_socket_itself_and_pipes_through_a_second_process(servers, tmp_path, processes):
    server = servers("first")
    here, there = socket.socketpair()
    with here, there, subprocess.Popen(shlex.split(receiver(server, tmp_path)), stdin=there, stdout=subprocess.PIPE if processes else there) as process:
        there.close()
        ready = process.stdout if processes else here.makefile("rb")
        assert b'"ok":true' in ready.read(int.from_bytes(ready.read(4), "big"))
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == processes
        here.shutdown(socket.SHUT_RDWR)
        assert process.wait(60 * SLOW) == 1
    assert not list(tmp_path.glob("cricket-receive-*"))
