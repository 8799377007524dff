"""tests/e2e/test_move_memory.py - device memory of sessions that move: in chunks beside CRIU's files, and most of it while the program runs."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from conftest import DRIVER, SLOW, client_env, wait_until
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


# --- while the program runs

def test_a_program_runs_while_its_memory_is_sent(servers, changer, tmp_path):
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    with asking(first, "move", session_of(first), second.address("tcp"), bent(receiver(second, tmp_path), wait=gates_in(tmp_path)[:1])) as asker:
        wait_until((tmp_path / "rounds.reached").exists, 60, "some of the memory is sent")
        assert program.is_same() and session_of(first)
        program.change(3, 12)
        (tmp_path / "rounds").touch()
        out, error = asker.communicate(timeout=60 * SLOW)
    assert asker.returncode == 0, error + first.log()
    assert re.search(r", (\d+) MiB were sent, 1 rounds? beside the program; a pause of \d+ ms\n", out), out
    assert int(re.search(r"(\d+) MiB were sent", out)[1]) >= MEMORY + 4, out     # what has changed was sent again
    assert session_of(first) is None and program.is_same(), second.log()


# Changes one piece after the other of PIECES, STEP of them in all, without a break, and compares each with what it has written there before.
CHURN = textwrap.dedent("""
    import ctypes, os, sys, threading
    cuda = ctypes.CDLL(None)
    def ok(result):
        assert result == 0, result
    piece, count, step = 2 << 20, int(sys.argv[1]), int(sys.argv[2])
    context, at = ctypes.c_void_p(), ctypes.c_uint64()
    ok(cuda.cuInit(0)); ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(cuda.cuCtxSetCurrent(context))
    ok(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(piece * count)))
    base, back, ends = os.urandom(piece), ctypes.create_string_buffer(piece), threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    def put(i, turn):
        data[i] = (turn << 32 | i).to_bytes(8, "little") + base[8:]
        ok(cuda.cuMemcpyHtoD_v2(place(i), data[i], ctypes.c_size_t(piece)))
    def place(i):
        return ctypes.c_uint64(at.value + i * piece)
    def check(i):
        ok(cuda.cuMemcpyDtoH_v2(back, place(i), ctypes.c_size_t(piece)))
        assert back.raw == data[i], i
    data, turn = [b""] * count, 0
    for i in range(count):
        put(i, 0)
    print("ready", flush=True)
    while not ends.is_set():
        turn += 1
        for i in range(step):
            check(i)
            put(i, turn)
    for i in range(count):
        check(i)
    print("same", turn, flush=True)
""")


@pytest.mark.parametrize("step", [4, 48])
def test_a_program_that_keeps_changing_its_memory_moves(servers, tmp_path, step):
    """Rounds shrink to what it changes meanwhile, or do not shrink: they end in any case."""
    first, second = servers("first"), servers("second")
    with subprocess.Popen([sys.executable, "-c", CHURN, "48", str(step)], env=client_env(first.address("tcp")), text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        try:
            assert program.stdout.readline() == "ready\n", program.stderr.read()
            for here, there in ((first, second), (second, first)):
                done = move(here, there.address("tcp"), receiver(there, tmp_path))
                assert sent(done) >= 96 and int(re.search(r"(\d+) rounds? beside", done.stdout)[1]) >= 2, done.stdout
            out, error = program.communicate("", timeout=120 * SLOW)
        finally:
            program.kill()
    assert out.startswith("same "), out + error + first.log() + second.log()


def test_a_session_that_leaves_the_gpu_while_its_memory_is_sent_moves_too(servers, changer, tmp_path):
    """What was sent does not count then: CRIU sends all."""
    first, second = servers("first", "--suspend-idle", "10"), servers("second")
    program = changer(first.address("tcp"))
    with asking(first, "move", session_of(first), second.address("tcp"), bent(receiver(second, tmp_path), wait=gates_in(tmp_path)[:1])) as asker:
        wait_until(lambda: program.is_same() and (tmp_path / "rounds.reached").exists(), 60, "some of the memory is sent")
        wait_until(lambda: " is suspended:" in first.log(), 60, first.log)
        (tmp_path / "rounds").touch()
        error = asker.communicate(timeout=60 * SLOW)[1]
    assert asker.returncode == 0, error + first.log()
    assert session_of(first) is None and program.is_same(), second.log()


def test_memory_that_cannot_be_copied_beside_the_program_moves_as_before(servers, changer, tmp_path):
    first, second = servers("first", "--park-memory", "0"), servers("second")
    program = changer(first.address("tcp"))
    done = move(first, second.address("tcp"), receiver(second, tmp_path))
    assert sent(done) == 0 and "rounds" not in done.stdout, done.stdout
    assert program.is_same(), second.log()


def test_a_session_for_other_gpus_is_refused_before_its_program_waits(servers, changer, tmp_path):
    first, second = servers("first", CRICKET_EMU="devices=2"), servers("second", CRICKET_EMU="devices=1")
    program = changer(first.address("tcp"))
    done = move(first, second.address("tcp"), receiver(second, tmp_path))
    assert done.returncode == 1 and "needs 2 GPUs; here are 1" in done.stderr, done.stdout + done.stderr
    assert "is suspended" not in first.log() and session_of(first) and program.is_same()
    wait_until(lambda: not list(tmp_path.glob("cricket-receive-*")), 60, second.log)


# --- further connections

def lanes_of(server):
    return "4 further connections to" in server.log()


def test_memory_is_sent_over_further_connections(servers, changer, tmp_path):
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    for here, there in ((first, second), (second, first)):
        assert sent(move(here, there.address("tcp"), receiver(there, tmp_path))) >= MEMORY and lanes_of(here), here.log()
        assert program.is_same(), there.log()
        program.change(3, 5)


@pytest.mark.parametrize("how", [{"key": True}, {"closed": True}, {"lane_cut": 100}])
def test_without_further_connections_memory_is_sent_over_the_first(servers, changer, tmp_path, how):
    """With another key, where none can be made, and where one is lost while they are made."""
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    assert sent(move(first, second.address("tcp"), bent(receiver(second, tmp_path), lanes=True, **how))) >= MEMORY, first.log()
    assert "no further connections to" in first.log() and not lanes_of(first)
    assert program.is_same(), second.log()


@pytest.mark.parametrize("phase", ["rounds", "rest"])
@pytest.mark.parametrize("how", ["cut", "flip"])
def test_a_further_connection_that_is_lost_ends_the_move(servers, changer, tmp_path, how, phase):
    """In the middle of a chunk: of the first ones, or of those that have changed meanwhile."""
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    place = {"rounds": 3 << 20, "rest": (MEMORY // 4 + 3) << 20}[phase]     # a quarter of each is on each connection
    via = bent(receiver(second, tmp_path), lanes=True, lane_wait=(2 << 20, tmp_path / "rounds"), **{f"lane_{how}": place})
    with asking(first, "move", session_of(first), second.address("tcp"), via) as asker:
        if phase == "rest":
            wait_until((tmp_path / "rounds.reached").exists, 60, "some of the memory is sent")
            program.change(*range(PIECES))
        (tmp_path / "rounds").touch()
        error = asker.communicate(timeout=60 * SLOW)[1]
        assert asker.returncode == 1 and "further connection" in error, error + first.log()
    assert lanes_of(first)
    assert_goes_on(first, second, program, tmp_path)


@pytest.mark.parametrize("killed", ["receiver", "sender"])
def test_processes_that_are_killed_while_memory_is_on_further_connections(servers, changer, tmp_path, killed):
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    via = bent(f"echo $$ > {tmp_path}/pid; exec {receiver(second, tmp_path)}", lanes=True, lane_wait=(2 << 20, tmp_path / "rounds"))
    with asking(first, "move", session_of(first), second.address("tcp"), via) as asker:
        wait_until((tmp_path / "rounds.reached").exists, 60, "some of the memory is sent")
        if killed == "sender":
            kill_helper(first)
        else:
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        (tmp_path / "rounds").touch()
        assert asker.communicate(timeout=60 * SLOW)[1] and asker.returncode == 1
    for folder in tmp_path.glob("cricket-receive-*"):
        if killed == "receiver":     # which nothing could remove
            folder.rename(tmp_path / "left")
    assert_goes_on(first, second, program, tmp_path)


def test_strangers_at_the_port_do_not_disturb_a_move(servers, changer, tmp_path):
    """One says nothing, one something else; and more than the move has."""
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    via = bent(receiver(second, tmp_path), lanes=True, strangers=True)
    assert sent(move(first, second.address("tcp"), via)) >= MEMORY and lanes_of(first), first.log()
    assert program.is_same(), second.log()


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


def stop_in(phase, program, asker, tmp_path):
    """Lets the move come to the rounds beside the program, or to the rest, which is all of the memory: meanwhile it has changed."""
    wait_until((tmp_path / "rounds.reached").exists, 60, "some of the memory is sent")
    if phase == "rest":
        program.change(*range(PIECES))
        (tmp_path / "rounds").touch()
        wait_until((tmp_path / "rest.reached").exists, 60, "some of the rest is sent")
    assert asker.poll() is None


def gates_in(tmp_path):
    return [(8 << 20, tmp_path / "rounds"), (48 << 20, tmp_path / "rest")]


@pytest.mark.parametrize("phase", ["rounds", "rest"])
@pytest.mark.parametrize("killed", ["receiver", "sender", "worker"])
def test_processes_that_are_killed_while_memory_is_sent(servers, changer, tmp_path, killed, phase):
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    via = bent(f"echo $$ > {tmp_path}/pid; exec {receiver(second, tmp_path)}", wait=gates_in(tmp_path))
    (worker,) = first.workers()
    with asking(first, "move", session_of(first), second.address("tcp"), via) as asker:
        stop_in(phase, program, asker, tmp_path)
        if killed == "sender":
            kill_helper(first)
        else:
            os.kill(worker if killed == "worker" else int((tmp_path / "pid").read_text()), signal.SIGKILL)
        for name in ("rounds", "rest"):
            (tmp_path / name).touch()
        error = asker.communicate(timeout=60 * SLOW)[1]
        assert asker.returncode == 1, error
    for folder in tmp_path.glob("cricket-receive-*"):
        if killed == "receiver":     # which nothing could remove
            folder.rename(tmp_path / "left")
    if killed == "worker":
        assert program.ask("?") == ""
        wait_until(lambda: session_of(first) is None and session_of(second) is None, 30, first.log)
    else:
        assert_goes_on(first, second, program, tmp_path)


@pytest.mark.parametrize("how", ["cut", "flip"])
def test_a_fault_in_the_rest_leaves_the_session_where_it_was(servers, changer, tmp_path, how):
    first, second = servers("first"), servers("second")
    program = changer(first.address("tcp"))
    via = bent(receiver(second, tmp_path), wait=gates_in(tmp_path), **{how: 50 << 20})
    with asking(first, "move", session_of(first), second.address("tcp"), via) as asker:
        stop_in("rest", program, asker, tmp_path)
        (tmp_path / "rest").touch()
        error = asker.communicate(timeout=60 * SLOW)[1]
        assert asker.returncode == 1 and ("has changed on the way" in error) == (how == "flip"), error
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
