"""Checkpoints of a running session, again and again: only device memory that has changed is copied and written."""
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from conftest import DRIVER, PRODUCTS, SLOW, clean_env, client_env, wait_until
from test_checkpoint_faults import criu_with_gates, kill_helper, parts  # noqa: F401
from test_checkpoint_memory import damage
from travel import ctl, servers_with_criu, session_of  # noqa: F401

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="only the emulated GPU")

PIECE, PIECES = 2 << 20, 16
# Holds PIECES pieces. A line "N" changes piece N; "?" asks whether the device has what it should have, and ">FILE" writes that there.
CHANGE = textwrap.dedent("""
    import ctypes, hashlib, os, sys
    cuda = ctypes.CDLL(None)
    def ok(result):
        assert result == 0, result
    piece, count = int(sys.argv[1]), int(sys.argv[2])
    context, at = ctypes.c_void_p(), ctypes.c_uint64()
    ok(cuda.cuInit(0)); ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(cuda.cuCtxSetCurrent(context))
    ok(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(piece * count)))
    data = [os.urandom(piece) for _ in range(count)]
    def put(i):
        ok(cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(at.value + i * piece), data[i], ctypes.c_size_t(piece)))
    for i in range(count):
        put(i)
    print("ready", flush=True)
    back = ctypes.create_string_buffer(piece * count)
    for line in sys.stdin:
        if line[0] == ">":
            open(line[1:-1], "wb").write(b"".join(data))
            print("written", flush=True)
            continue
        if line != "?\\n":
            data[int(line)] = os.urandom(piece)
            put(int(line))
            ok(cuda.cuCtxSynchronize())
            print("changed", flush=True)
            continue
        ok(cuda.cuMemcpyDtoH_v2(back, at, ctypes.c_size_t(piece * count)))
        print("same" if bytes(back[:piece * count]) == b"".join(data) else "OTHER", flush=True)
""")


class Changer:
    def __init__(self, address, pieces=PIECES, **env):
        self.process = subprocess.Popen([sys.executable, "-c", CHANGE, str(PIECE), str(pieces)], env=client_env(address, **env),
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def change(self, *pieces):
        for piece in pieces:
            assert self.ask(piece) == "changed"

    def is_same(self):
        return self.ask("?") == "same"

    def is_in(self, folder):
        """Does a checkpoint have all of its memory, as it is now?"""
        file = folder.parent / "content"
        assert self.ask(f">{file}") == "written"
        content, saved = file.read_bytes(), contents(folder)
        return all(content[at:at + PIECE] in saved for at in range(0, len(content), PIECE))


@pytest.fixture(name="changer")
def programs_that_change_memory():
    started = []

    def start(address, *arguments, **env):
        started.append(Changer(address, *arguments, **env))
        return started[-1]
    yield start
    for program in started:
        program.process.kill()
        program.process.communicate()


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def memory_files(folder):
    """What a folder has of device memory: sizes by name."""
    return {path.name: path.stat().st_size for path in folder.glob("memory*.bin")}


def saves(server):
    """What the log says of the checkpoints so far: (MiB written, ms of pause)."""
    return [(int(line.split("MiB written")[0].split()[-1]), int(line.split("a pause of ")[1].split()[0]))
            for line in server.log().splitlines() if " is saved in " in line and "a pause of " in line]


def contents(folder):
    """The pieces of device memory in a checkpoint; each must have the hash that its manifest names."""
    memory, slots, found = manifest(folder)["file"], [], set()
    for number, count, _ in memory["parts"]:
        data = (folder / (f"memory-{number}.bin" if number else "memory.bin")).read_bytes()
        assert len(data) == count * PIECE
        slots += [data[at:at + PIECE] for at in range(0, len(data), PIECE)]
    for piece in memory["pieces"]:
        if len(piece) > 1:
            assert hashlib.blake2b(slots[piece[1]], digest_size=32).hexdigest() == piece[2]
            found.add(slots[piece[1]])
    return found


class Saver:
    """`cricket checkpoint --every` of a server's only session."""

    def __init__(self, server, folder, every="1s"):
        words = [PRODUCTS / "cricket", "checkpoint", "--server", f"unix:{server.unix}", "--every", every, session_of(server), folder]
        self.process = subprocess.Popen(list(map(str, words)), env=clean_env(), text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.lines = []

    def next(self):
        """Waits for a checkpoint that has begun and ended since: the MiB of it that were written, and its pause in ms."""
        self.read()     # it may have begun before
        return self.read()

    def read(self):
        line = self.process.stdout.readline()
        assert "MiB were written; a pause of " in line, line + self.process.stderr.read()
        return int(line.split(" of which ")[1].split()[0]), int(line.split("a pause of ")[1].split()[0])


@pytest.fixture(name="save_every")
def commands_that_save():
    started = []

    def start(*arguments):
        started.append(Saver(*arguments))
        return started[-1]
    yield start
    for saver in started:
        saver.process.kill()
        saver.process.communicate()


def test_only_changed_memory_is_written_and_all_of_it_comes_back(servers, changer, save_every, tmp_path):
    first, second, folder = servers("first"), servers("second"), tmp_path / "saved"
    program = changer(first.address("tcp"))
    saver = save_every(first, folder)
    whole = saver.read()[0]
    assert memory_files(folder) == {"memory.bin": PIECES * PIECE} and whole >= PIECES * 2
    for pieces in ((3,), (5, 6)):
        program.change(*pieces)
        saver.next()
        assert program.is_in(folder)
    files, parts = memory_files(folder), manifest(folder)["file"]["parts"]
    assert files.pop("memory.bin") == PIECES * PIECE    # linked: it was not written again
    assert sorted(files.values()) == [PIECE, 2 * PIECE] and len(parts) == 3 and manifest(folder)["format"] == 3
    written, _ = saver.next()
    assert written < whole - (PIECES - 1) * 2           # only what CRIU writes
    saver.process.kill()
    saver.process.wait()
    # another checkpoint of the session is made of the same files, whoever writes it
    for here, there, piece in ((first, second, 7), (second, second, 8)):
        program.change(piece)
        wait_until(lambda: ctl(here, "checkpoint", session_of(here), folder, there.address("tcp")).returncode == 0, 60, here.log)
        assert program.is_in(folder) and memory_files(folder)["memory.bin"] == PIECES * PIECE
        assert list(memory_files(folder).values()).count(PIECE) == {7: 2, 8: 3}[piece]
        done = ctl(there, "restore", folder)
        assert done.returncode == 0, done.stderr + there.log()
        assert program.is_same() and program.is_same(), there.log()


def copied(server):
    """MiB that the worker has copied off the GPU so far: beside the program, and while it had to wait."""
    log = server.log()
    return [sum(map(int, re.findall(pattern, log))) for pattern in (r"beside the program: (\d+) MiB copied", r" out: (\d+) MiB in ")]


def test_memory_that_has_not_changed_is_not_copied_and_most_is_copied_beside_the_program(servers, changer, save_every, tmp_path):
    server, folder = servers("server", CRICKET_LOG="server:debug"), tmp_path / "saved"
    program = changer(server.address("tcp"))
    save_every(server, folder, "1h").read()
    beside, out = copied(server)
    assert beside == PIECES * 2 and out == 0, server.log()
    program.change(3, 9)
    save_every(server, folder, "1h").read()
    assert copied(server) == [beside + 4, 0], server.log()
    assert program.is_in(folder) and program.is_same()
    # what leaves the GPU for another reason is not known to be the same
    for command in ("suspend", "resume"):
        assert ctl(server, command, session_of(server)).returncode == 0, server.log()
    beside, out = copied(server)
    program.change(4)
    save_every(server, folder, "1h").read()
    assert sum(copied(server)) - beside - out >= PIECES * 2, server.log()
    assert memory_files(folder)["memory.bin"] == PIECES * PIECE and program.is_in(folder) and program.is_same(), server.log()


def test_the_server_s_own_checkpoints_write_what_has_changed(servers, changer, tmp_path):
    folder = tmp_path / "saved"
    server = servers("server", "--checkpoint-every", "1", "--checkpoint-dir", folder)
    program = changer(server.address("tcp"))
    wait_until(lambda: saves(server), 60, server.log)
    before = len(saves(server))
    program.change(3)
    wait_until(lambda: len(saves(server)) > before, 60, server.log)
    written, pause = saves(server)[-1]
    assert pause > 0 and written > 0, server.log()
    program.change(3)       # it is saved once more; the folder of the last one has files of an earlier one
    before = len(saves(server))
    wait_until(lambda: len(saves(server)) > before, 60, server.log)
    (saved,) = [path for path in folder.iterdir() if ".part-" not in path.name]
    assert len(memory_files(saved)) > 1, server.log()
    assert program.is_same()


# --- faults: the earlier checkpoint is as it was, and the session goes on or its program gets an error

def state_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def is_restored(server, folder):
    """Can the session of FOLDER be made again? It has the memory that it had then."""
    done = ctl(server, "restore", folder, "resume")
    assert done.returncode == 0, done.stderr + server.log()
    return True


def save_once(server, folder, save_every, gates, program):
    """A checkpoint; then the program changes some pieces, and the next dump waits at the gates. Returns the state of the folder."""
    gates.open()
    saver = save_every(server, folder, "1h")
    saver.read()
    saver.process.kill()
    saver.process.wait()
    earlier = state_of(folder)
    gates.close()
    program.change(3)
    return earlier


@pytest.mark.parametrize("point", ["before", "dump", "after", "images"])
def test_the_earlier_checkpoint_stays_when_the_process_that_writes_is_killed(servers, changer, save_every, gates, tmp_path, point):
    server, folder = servers("server", program=gates.program), tmp_path / "saved"
    program = changer(server.address("tcp"))
    earlier = save_once(server, folder, save_every, gates, program)
    saver = save_every(server, folder, "1h")
    gates.reach(point, tmp_path)
    kill_helper(server)
    gates.open()
    error = saver.process.communicate(timeout=60 * SLOW)[1]
    assert saver.process.returncode == 1 and "has ended too early" in error, error + server.log()
    assert program.is_same(), server.log()
    assert state_of(folder) == earlier and not parts(tmp_path)
    program.change(5)
    saver = save_every(server, folder, "1h")        # and the next one succeeds
    saver.read()
    assert program.is_in(folder) and program.is_same(), server.log()
    assert memory_files(folder)["memory.bin"] == PIECES * PIECE and len(memory_files(folder)) == 2


@pytest.mark.parametrize("point", ["before", "after"])
def test_the_earlier_checkpoint_stays_when_the_worker_is_killed(servers, changer, save_every, gates, tmp_path, point):
    server, folder = servers("server", program=gates.program), tmp_path / "saved"
    program = changer(server.address("tcp"))
    earlier = save_once(server, folder, save_every, gates, program)
    (worker,) = server.workers()
    saver = save_every(server, folder, "1h")
    gates.wait(*["before"] * (point == "after"))
    os.kill(worker, signal.SIGKILL)
    gates.open()
    if saver.process.stdout.readline():     # CRIU had all of it
        assert point == "after"
    else:
        assert state_of(folder) == earlier
        assert saver.process.wait(60 * SLOW) == 1
    assert program.ask("?") == ""
    wait_until(lambda: not server.workers() and not parts(tmp_path), 30, server.log)
    assert is_restored(server, folder)


def test_a_full_disk_leaves_the_earlier_checkpoint_and_the_session(servers, changer, save_every, tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    # room for one checkpoint, and not for what all pieces have changed to
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=112m,mode=700", "none", place], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        server = servers("server")
        program = changer(server.address("tcp"))
        saver = save_every(server, place / "saved", "1h")
        saver.read()
        saver.process.kill()
        earlier = state_of(place / "saved")
        program.change(*range(PIECES))
        saver = save_every(server, place / "saved", "1h")
        error = saver.process.communicate(timeout=120 * SLOW)[1]
        assert saver.process.returncode == 1 and "No space left" in error, error + server.log()
        assert program.is_same() and state_of(place / "saved") == earlier and not parts(place)
    finally:
        subprocess.run(["umount", "-l", place], check=False)


@pytest.mark.parametrize("how", ["changed", "short", "missing"])
def test_a_damaged_earlier_file_is_not_used_again(servers, changer, save_every, tmp_path, how):
    server, folder = servers("server"), tmp_path / "saved"
    program = changer(server.address("tcp"))
    save_every(server, folder, "1h").read()
    damage(folder / "memory.bin", how)
    program.change(3)
    save_every(server, folder, "1h").read()
    assert memory_files(folder) == {"memory.bin": PIECES * PIECE} and program.is_in(folder), server.log()
    assert "all memory is written again" in server.log() and program.is_same()


def test_the_folder_of_another_session_is_refused(servers, changer, save_every, tmp_path):
    server, folder = servers("server"), tmp_path / "saved"
    program = changer(server.address("tcp"), 1)
    save_every(server, folder, "1h").read()
    program.process.kill()
    wait_until(lambda: not server.workers(), 90, server.log)
    other = changer(server.address("tcp"), 1)
    error = save_every(server, folder, "1h").process.communicate(timeout=60 * SLOW)[1]
    assert "File exists" in error and other.is_same()
    done = ctl(server, "checkpoint", session_of(server), folder)
    assert done.returncode == 1 and "File exists" in done.stderr and other.is_same()
