"""tests/e2e/test_checkpoint.py - a worker as files, and the worker again.

The tests play the supervisor: they start a spare worker and the processes that write and restore it, and give the
worker that was restored a client.
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

from conftest import APPS, DRIVER, EXPECTED, SERVER, client_env, clean_env, is_alive, wait_until
from criu import criu

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="a spare worker of the real driver holds the GPU")

STANDBY, SESSION = 0, 2     # kinds of struct cks_worker_note
SECONDS = 60


class Process:
    """A process of the server's program, which this one starts as the supervisor does. THIRD and FOURTH become its
    descriptors 3 and 4."""

    def __init__(self, arguments, third, fourth, log, **env):
        def arrange():
            # above both numbers first
            high = [os.dup2(fd, 100 + i) for i, fd in enumerate((third, fourth))]
            for fd, number in zip(high, (3, 4)):
                os.dup2(fd, number, inheritable=True)
        with open(log, "ab") as out:
            self.process = subprocess.Popen([str(a) for a in arguments], executable=SERVER, preexec_fn=arrange,
                                            close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=out, env=clean_env(**env))

    def end(self):
        self.process.kill()
        self.process.wait()


class World:
    """A folder, and all that has to end with the test."""

    def __init__(self, path, stack):
        self.path, self.stack = path, stack
        self.log = path / "log"
        self.criu = criu()
        self.device = os.open("/dev/null", os.O_RDWR)
        stack.callback(os.close, self.device)

    def start(self, arguments, third, fourth, log=None):
        process = Process(["cricket-rpc-server", *arguments], third, fourth, log or self.log)
        self.stack.callback(process.end)
        return process.process

    def pair(self):
        ends = socket.socketpair()
        ends[0].settimeout(SECONDS)
        for end in ends:
            self.stack.callback(end.close)
        return ends

    def spare(self):
        """A worker that waits for a client, and its control socket."""
        ours, theirs = self.pair()
        process = self.start(["--spare", "--driver", "emu", "--warm-devices", "0"], self.device, theirs.fileno())
        theirs.close()
        assert note_kind(ours) == STANDBY
        return process, ours

    def ask(self, argument, request, control=None, log=None):
        """Starts a helper process with a request; its reply and the process."""
        ours, theirs = self.pair()
        fourth = control.fileno() if control else self.device
        process = self.start([argument], theirs.fileno(), fourth, log)
        theirs.close()
        ours.sendall(json.dumps(request).encode() + b"\n")
        with ours.makefile("rb") as lines:
            reply = {}
            while "ok" not in reply:    # news come before it
                line = lines.readline()
                assert line.endswith(b"\n"), f"no reply: {self.log.read_text()}"
                reply = json.loads(line)
        return reply, process

    def checkpoint(self, pid, folder="saved", **more):
        request = {"criu": self.criu, "directory": str(self.path / folder), "driver": "emu", "pid": pid,
                   "session": "s1", "program": "a program", "memory": 0, "keep": False}
        reply, process = self.ask("--checkpointer", request | more)
        assert process.wait(SECONDS) == (0 if reply["ok"] else 1)
        return reply

    def restore(self, folder="saved", log=None, **more):
        """The reply, the process that follows the worker, and the worker's control socket."""
        ours, theirs = self.pair()
        request = {"criu": self.criu, "directory": str(self.path / folder), "driver": "emu"}
        reply, process = self.ask("--restorer", request | more, theirs, log)
        theirs.close()
        return reply, process, ours


@pytest.fixture(name="world")
def world_of_a_test(tmp_path):
    with contextlib.ExitStack() as stack:
        yield World(tmp_path, stack)


def note_kind(control):
    note = control.recv(1024)
    return int.from_bytes(note[:4], "little")


def serve(control, program):
    """Lets the worker behind CONTROL serve PROGRAM; what that prints."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        env = client_env("127.0.0.1:%d" % listener.getsockname()[1])
        client = subprocess.Popen([APPS / program], env=env, stdout=subprocess.PIPE, text=True)
        listener.settimeout(0.2)
        kind = b"C"
        while client.poll() is None:
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                socket.send_fds(control, [kind], [connection.fileno()])
                connection.close()
                if kind == b"C":
                    assert note_kind(control) == SESSION
                kind = b"J"
        assert client.wait(SECONDS) == 0
        return client.stdout.read()


def test_a_worker_leads_its_own_session(world):
    # The server's session may be led from outside of its PID namespace, and CRIU dumps no process of such a session.
    worker, _ = world.spare()
    assert os.getsid(worker.pid) == worker.pid


def test_a_restored_worker_serves_a_client(world):
    worker, _ = world.spare()
    reply = world.checkpoint(worker.pid)
    assert reply["ok"], reply
    assert worker.wait(SECONDS) == -signal.SIGKILL
    second_log = world.path / "second.log"
    reply, follower, control = world.restore(log=second_log)
    assert reply["ok"], reply
    assert (reply["pid"], reply["session"], reply["program"]) == (worker.pid, "s1", "a program")
    assert serve(control, "vector_add") == (EXPECTED / "vector_add.txt").read_text()
    assert follower.wait(SECONDS) == 0
    # what the worker logs goes to the server that it belongs to now
    assert "session of vector_add" in second_log.read_text()
    assert "session of vector_add" not in world.log.read_text()


def test_the_folder_is_its_owners_only_and_holds_nothing_else(world):
    worker, _ = world.spare()
    reply = world.checkpoint(worker.pid)
    folder = world.path / "saved"
    assert folder.stat().st_mode & 0o7777 == 0o700
    manifest = json.loads((folder / "manifest.json").read_text())
    images = {i["name"] + ".zst": i for i in manifest["images"]}
    assert {f.name for f in folder.iterdir()} == {"manifest.json", "dump.log", *images}
    for name, image in images.items():
        assert (folder / name).stat().st_size == image["stored"]
    assert all(f.stat().st_mode & 0o7777 == 0o600 for f in folder.iterdir())
    assert reply["stored"] == sum(i["stored"] for i in images.values()) < reply["size"]
    assert manifest["gpu"]["driver"] == "emu" and manifest["gpu"]["devices"][0]["uuid"].startswith("GPU-")
    assert manifest["threads"][0] == worker.pid
    assert {o["role"] for o in manifest["outside"]} == {"control", "log"}
    assert not list(world.path.glob("*.part*"))


def test_a_kept_worker_goes_on_and_its_older_checkpoint_is_replaced(world):
    worker, control = world.spare()
    for _ in range(2):
        reply = world.checkpoint(worker.pid, keep=True, id="1" * 32)
        assert reply["ok"], reply
        assert is_alive(worker.pid)
    assert not list(world.path.glob("*.part*"))
    assert serve(control, "vector_add") == (EXPECTED / "vector_add.txt").read_text()


def test_a_worker_goes_with_the_process_that_restored_it(world):
    worker, _ = world.spare()
    assert world.checkpoint(worker.pid)["ok"]
    worker.wait(SECONDS)
    reply, follower, _ = world.restore()
    assert is_alive(reply["pid"])
    follower.kill()
    wait_until(lambda: not is_alive(reply["pid"]), 10, "the worker has ended")


def test_a_restored_worker_is_written_and_restored_again(world):
    worker, _ = world.spare()
    assert world.checkpoint(worker.pid, "first")["ok"]
    worker.wait(SECONDS)
    reply, follower, _ = world.restore("first")
    assert world.checkpoint(reply["pid"], "second")["ok"]
    assert follower.wait(SECONDS) == -signal.SIGKILL
    reply, follower, control = world.restore("second")
    assert reply["ok"], reply
    assert serve(control, "vector_add") == (EXPECTED / "vector_add.txt").read_text()
    assert follower.wait(SECONDS) == 0


def test_a_worker_whose_ids_are_in_use_is_restored_beside_them(world):
    """Here they are those of the worker itself, which goes on: a copy of it in a namespace, and a copy of that."""
    worker, own = world.spare()
    assert world.checkpoint(worker.pid, keep=True)["ok"]
    reply, follower, control = world.restore()
    assert reply["ok"], reply
    copy = reply["pid"]
    ids = pathlib.Path(f"/proc/{copy}/status").read_text().partition("NSpid:")[2].splitlines()[0].split()
    assert ids == [str(copy), str(worker.pid)] and copy != worker.pid
    reply = world.checkpoint(copy, "second")
    assert reply["ok"], reply
    assert follower.wait(SECONDS) == -signal.SIGKILL
    reply, follower, control = world.restore("second")
    assert reply["ok"], reply
    for socket_of_worker in (control, own):
        assert serve(socket_of_worker, "vector_add") == (EXPECTED / "vector_add.txt").read_text()
    assert follower.wait(SECONDS) == 0 and worker.wait(SECONDS) == 0


# Takes an id of the worker when CRIU is to restore it, as any process of the machine could.
TAKES = """#!{python}
import ctypes, json, os, pathlib, sys, time
saved, taken = pathlib.Path("{saved}"), pathlib.Path("{taken}")
if sys.argv[1] == "restore" and not taken.exists():
    manifest = json.loads((saved / "manifest.json").read_text())
    thread = max(set(manifest["threads"]) - {{manifest["pid"]}})
    ids = (ctypes.c_int * 1)(thread)
    arguments = (ctypes.c_uint64 * 11)(0x8000, *[0] * 7, ctypes.addressof(ids), 1, 0)     # CLONE_PARENT, set_tid
    if ctypes.CDLL(None).syscall(435, arguments, 80) == 0:                                # clone3
        os.closerange(0, 4096)
        while True:
            time.sleep(1)
    taken.write_text(str(thread))
os.execv("{criu}", ["{criu}", *sys.argv[1:]])
"""


def test_an_id_that_is_taken_while_criu_works_is_no_error(world):
    taken = world.path / "taken"
    program = world.path / "takes"
    program.write_text(TAKES.format(python=sys.executable, saved=world.path / "saved", taken=taken, criu=world.criu))
    program.chmod(0o755)
    worker, _ = world.spare()
    assert world.checkpoint(worker.pid)["ok"] and worker.wait(SECONDS) == -signal.SIGKILL
    try:
        reply, follower, control = world.restore(criu=str(program))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.kill(int(taken.read_text()), signal.SIGKILL)
    assert reply["ok"], reply
    assert taken.exists() and reply["pid"] != worker.pid
    assert serve(control, "vector_add") == (EXPECTED / "vector_add.txt").read_text()
    assert follower.wait(SECONDS) == 0


def test_a_worker_in_a_namespace_goes_with_the_process_that_restored_it(world):
    worker, _ = world.spare()
    assert world.checkpoint(worker.pid, keep=True)["ok"]
    reply, follower, _ = world.restore()
    assert is_alive(reply["pid"])
    follower.kill()
    wait_until(lambda: not is_alive(reply["pid"]), 10, "the worker has ended")
    assert is_alive(worker.pid)


@pytest.mark.parametrize("kind", ["image", "manifest", "mode", "gpu"])
def test_a_folder_that_is_not_as_it_was_is_refused(world, kind):
    worker, _ = world.spare()
    assert world.checkpoint(worker.pid)["ok"]
    worker.wait(SECONDS)
    folder = world.path / "saved"
    manifest = folder / "manifest.json"
    if kind == "image":
        image = max(folder.glob("*.zst"), key=lambda f: f.stat().st_size)
        content = bytearray(image.read_bytes())
        content[len(content) // 2] ^= 1
        image.write_bytes(content)
    elif kind == "manifest":
        manifest.write_text(manifest.read_text()[:-10])
    elif kind == "mode":
        folder.chmod(0o750)
    else:
        manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 9'))
    reply, follower, _ = world.restore()
    assert not reply["ok"]
    assert {"image": "content has changed", "manifest": "not JSON", "mode": "other users can access",
            "gpu": "needs driver emu, version 9"}[kind] in reply["error"]
    assert follower.wait(SECONDS) == 4
    assert not [f for f in folder.iterdir() if f.name.startswith("restore-")]


def test_a_checkpoint_that_fails_leaves_the_worker_and_no_folder(world):
    worker, control = world.spare()
    # a connection to another process, as that of a client on the same host, or of shared memory
    other = subprocess.Popen(["sleep", "60"])
    world.stack.callback(other.wait)
    world.stack.callback(other.kill)
    reply = world.checkpoint(other.pid)
    assert not reply["ok"] and f"worker {other.pid}" in reply["error"]
    reply = world.checkpoint(worker.pid, criu="/nowhere/criu")
    assert not reply["ok"] and "/nowhere/criu was not found" in reply["error"] and "gone" in reply
    assert not (world.path / "saved").exists() and not list(world.path.glob("*.part*"))
    (world.path / "saved").mkdir()
    reply = world.checkpoint(worker.pid)
    assert not reply["ok"] and "File exists" in reply["error"]
    assert serve(control, "vector_add") == (EXPECTED / "vector_add.txt").read_text()


@pytest.mark.parametrize("fails", [False, True])
def test_a_link_beside_the_folder_leads_crius_log_nowhere(world, fails):
    """The folder may be in one where other users can make files: CRIU follows links, as root."""
    worker, _ = world.spare()
    other = world.path / "other"
    other.write_text("of another user")
    log = world.path / "saved.dump.log"
    log.symlink_to(other)
    program = world.path / "criu"
    program.write_text("#!/bin/sh\n"
                       'test "$1" = --version && { echo Version: 4.1; exit; }\n'
                       'for a; do case $a in --log-file=*) echo "Error (criu/x.c:1): it fails" >"${a#--log-file=}";; esac; done\n'
                       "exit 1\n")
    program.chmod(0o700)
    reply = world.checkpoint(worker.pid, **({"criu": str(program)} if fails else {}))
    assert reply["ok"] != fails, reply
    assert other.read_text() == "of another user"
    if fails:
        assert f"{log})" in reply["error"] and not log.is_symlink() and "it fails" in log.read_text()


def test_a_worker_with_a_connection_is_not_written(world):
    worker, control = world.spare()
    with socket.create_server(("127.0.0.1", 0)) as listener, \
            socket.create_connection(listener.getsockname()) as client:
        connection, _ = listener.accept()
        socket.send_fds(control, [b"C"], [connection.fileno()])
        connection.close()
        wait_until(lambda: any("socket:" in os.readlink(f) for f in pathlib.Path(f"/proc/{worker.pid}/fd").iterdir()
                               if f.name == "3"), 10, "the worker has its client")
        reply = world.checkpoint(worker.pid)
        assert not reply["ok"] and "CRIU: " in reply["error"], reply
        assert "saved.dump.log" in reply["error"] and (world.path / "saved.dump.log").exists()
        assert is_alive(worker.pid)
        client.close()
