"""tests/e2e/test_snapshot.py - `cricket snapshot`: programs and their sessions in files, and copies of them."""
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from conftest import PRODUCTS, SLOW, clean_env, ended, is_alive, start, wait_until
from criu import criu
from stranger import Session
from test_tls_worker import relays_of
from tls import Authority
from tls_servers import tls_options
from travel import PROGRAM, STEPS, result_without_a_checkpoint, servers_with_criu  # noqa: F401

CRICKET = PRODUCTS / "cricket"
SCRIPT = pathlib.Path(__file__).parent / "snapshot_program.py"
WORDS = 1 << 18
TIMEOUT = 120 * SLOW


def sum_of(number, rest=7):
    return (WORDS - 1) * rest + number


class Copy:
    """A running `cricket run --from NAME`."""

    def __init__(self, world, *options, name="one"):
        self.process = subprocess.Popen([CRICKET, "run", *options, "--from", name], env=world.env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, number):
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def end(self):
        out, err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out, err


class World:
    def __init__(self, path, server):
        folder = path / "bin"
        folder.mkdir()
        (folder / "criu").symlink_to(criu())
        self.path, self.server, self.copies = path, server, []
        self.env = clean_env(XDG_DATA_HOME=str(path / "data"), PATH=f"{folder}:{os.environ['PATH']}", HOME=str(path))
        self.folder = path / "data" / "cricket" / "snapshots"

    def run(self, *words, **env):
        return ended(start([CRICKET, *words], {**self.env, **env}), TIMEOUT)

    def snapshot(self, *kind, name="one", at=None, server=None, **env):
        ready = self.path / "ready"
        ready.unlink(missing_ok=True)
        return self.run("snapshot", name, "-s", (server or self.server).address("tcp"), "--at", at or f"file:{ready}", "--",
                        sys.executable, SCRIPT, ready, *kind, **env)

    def copy(self, *options, **more):
        self.copies.append(Copy(self, *options, **more))
        return self.copies[-1]

    def sessions(self):
        done = self.run("status", "--json", "-s", f"unix:{self.server.unix}")
        return {row["session"] for row in json.loads(done.out)["sessions"]}


@pytest.fixture(name="world")
def world_of_snapshots(servers, tmp_path):
    world = World(tmp_path, servers("server", CRICKET_EMU="socket"))    # each worker has one of the same name, as with NVIDIA's driver
    yield world
    for copy in world.copies:
        copy.process.kill()
        copy.process.wait()


def check_end(copy):
    status, out, err = copy.end()
    assert (status, out, err) == (0, "end\n", "")


@pytest.mark.parametrize("kind", ["device", "managed"])
def test_copies_run_side_by_side_and_their_program_ends(world, kind):
    done = world.snapshot(kind)
    assert done.status == 0 and done.out == "ready\n", done.err
    assert re.fullmatch(r"cricket: snapshot one: \d+ MiB of the program, \d+ MiB of its session, in [\d.]+ s\n", done.err)
    assert not world.sessions()
    copies = [world.copy() for _ in range(3)]
    answers = [copy.ask(10 + i).split() for i, copy in enumerate(copies)]
    assert [a[:2] for a in answers] == [["sum", str(sum_of(10 + i))] for i in range(3)]
    assert len({a[3] for a in answers}) == 1        # each in a namespace of its own
    assert len(world.sessions()) == 3
    for copy in copies:
        check_end(copy)
    wait_until(lambda: not world.sessions(), 20, "their sessions have ended")


def test_the_session_of_a_copy_is_suspended_but_not_written(world):
    assert world.snapshot().status == 0
    copies = [world.copy() for _ in range(2)]
    assert [copy.ask(7).split()[1] for copy in copies] == [str(sum_of(7))] * 2
    at = ["-s", f"unix:{world.server.unix}"]
    for name in world.sessions():
        assert world.run("suspend", *at, name).status == 0
        assert world.run("resume", *at, name).status == 0
        done = world.run("checkpoint", *at, name, str(world.path / name))
        assert done.status == 1 and "it is a copy of a snapshot" in done.err
    for copy in copies:
        copy.process.stdin.close()
        assert copy.process.stdout.readline() == "end\n"
        assert copy.process.wait(TIMEOUT) == 0


def test_only_the_program_s_own_sessions_are_taken(world):
    """A client of another host may have the same process id. The program's name looks like the end of a line of /proc."""
    ready, go = world.path / "ready", world.path / "go"
    named = f"import ctypes; ctypes.CDLL(None).prctl(15, b') S 1 1 ('); import runpy, sys; sys.argv = {[str(SCRIPT), str(ready)]}; " \
            f"sys.path.insert(0, {str(SCRIPT.parent)!r}); runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    process = start([CRICKET, "snapshot", "one", "-s", world.server.address("tcp"), "--at", f"file:{go}", "--", sys.executable, "-c",
                     named], world.env)
    wait_until(ready.exists, 20, "the program is ready")
    program, = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    other = Session(world.server, pid=int(program))
    go.write_text("")
    done = ended(process, TIMEOUT)
    assert done.status == 0, done.err
    assert [f.name for f in sorted((world.folder / "one").glob("session-*"))] == ["session-0"]
    assert other.error() == 0
    other.end()
    copy = world.copy()
    assert copy.ask(3).split()[1] == str(sum_of(3))
    check_end(copy)


def test_a_program_is_ready_when_an_address_answers_with_success(world):
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            ready = self.path == "/health" and (world.path / "ready").exists()
            self.send_response(200 if ready else 503)
            self.end_headers()

        def log_message(self, *_):
            pass
    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = world.snapshot(at=f"http://127.0.0.1:{server.server_port}/health")
        server.shutdown()
    assert done.status == 0, done.err
    wrong = world.run("snapshot", "two", "-s", world.server.address("tcp"), "--at", "https://localhost", "true")
    assert (wrong.status, wrong.err.count("\n")) == (2, 1) and "--at is signal, file:PATH or http://" in wrong.err


def test_all_of_a_snapshot_is_for_its_owner(world):
    assert world.snapshot(umask="000").status == 0
    for path in [world.folder / "one", *(world.folder / "one").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_copy_runs_on_another_server(world, servers):
    assert world.snapshot().status == 0
    world.server.kill()
    other = servers("other")
    copy = world.copy("-s", other.address("tcp"))
    assert copy.ask(3).split()[:2] == ["sum", str(sum_of(3))]
    check_end(copy)
    other.wait_idle()


def test_copies_have_secrets_of_their_own_for_tls(world, servers):
    authority = Authority(world.path / "authority")
    secure = servers("secure", *tls_options(authority.sign("server")))
    world.env["CRICKET_TLS_CA"] = str(authority.ca)
    assert world.snapshot(server=secure).status == 0
    copies = [world.copy() for _ in range(2)]
    for i, copy in enumerate(copies):
        assert copy.ask(i).split()[:2] == ["sum", str(sum_of(i))]
    # without the new secret, connections would be relayed, as the first one of a session is
    wait_until(lambda: not relays_of(secure), 20, "all connections end in the workers")
    for copy in copies:
        check_end(copy)
    secure.wait_idle(20)


def test_a_program_with_threads_continues_in_the_middle_of_its_work(world, expected):
    """Streams, events, pinned memory and functions of the host, and it is written while commands are on their way."""
    out = world.path / "out"
    with open(out, "wb") as file:
        snapshot = subprocess.Popen([CRICKET, "snapshot", "one", "-s", world.server.address("tcp"), "--", *map(str, PROGRAM), str(STEPS)],
                                    env=world.env, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: "step 20\n" in out.read_text(), 60, "step 20")
        snapshot.send_signal(signal.SIGUSR1)
        err = snapshot.communicate(timeout=TIMEOUT)[1]
    finally:
        snapshot.kill()
    assert snapshot.returncode == 0, err
    for copy in [world.copy() for _ in range(2)]:
        status, text, err = copy.end()
        assert (status, err) == (0, "")
        assert text.splitlines()[-1] + "\n" == expected


def test_a_child_process_has_a_session_of_its_own_in_each_copy(world):
    done = world.snapshot("child")
    assert done.status == 0, done.err
    assert "of its sessions, in" in done.err
    for i, copy in enumerate([world.copy() for _ in range(2)]):
        assert copy.ask(i).split()[:2] == ["sum", str(sum_of(i))]
        assert copy.process.stdout.readline() == f"child {sum_of(i, 5)}\n"
        check_end(copy)
    wait_until(lambda: not world.sessions(), 20, "their sessions have ended")


def test_signals_and_the_status_of_a_copy_are_its_program_s(world):
    assert world.snapshot().status == 0
    copy = world.copy()
    assert copy.ask(1).startswith("sum")
    copy.process.terminate()
    copy.process.wait(TIMEOUT)      # before its stdin ends, with which the program ends too
    assert copy.end() == (-signal.SIGTERM, "", "")
    wait_until(lambda: not world.sessions(), 20, "its session has ended, long before --keep")
    copy = world.copy()
    assert copy.ask("no number") == ""
    assert copy.end()[0] == 1


def test_the_session_of_a_copy_whose_command_is_killed_ends(world):
    assert world.snapshot().status == 0
    copy = world.copy()
    assert copy.ask(1).startswith("sum")
    copy.process.kill()
    wait_until(lambda: not world.sessions(), 20, "its session has ended, long before --keep")


def test_what_a_copy_prints_is_appended_to_a_file(world):
    assert world.snapshot().status == 0
    out = world.path / "out"
    out.write_text("before\n")
    with open(out, "a", encoding="ascii") as file:
        subprocess.run([CRICKET, "run", "--from", "one"], env=world.env, input=b"2\n", stdout=file, check=True, timeout=TIMEOUT)
    assert [line.split()[0] for line in out.read_text().splitlines()] == ["before", "sum", "end"]


def test_snapshots_are_listed_and_removed(world):
    assert world.run("snapshots").out == ""
    assert world.snapshot(name="b").status == 0
    assert world.snapshot(name="a").status == 0
    assert [line.split()[0] for line in world.run("snapshots").out.splitlines()] == ["NAME", "a", "b"]
    again = world.snapshot(name="a")
    assert again.status == 1 and again.err == "cricket: there is a snapshot a: cricket snapshots rm a\n" and again.out == ""
    assert world.run("snapshots", "rm", "a", "b").status == 0
    assert world.run("snapshots").out == "" and not any(world.folder.iterdir())
    gone = world.run("run", "--from", "a")
    assert gone.status == 1 and "there is no snapshot a" in gone.err
    assert world.run("snapshots", "rm", "../a").err.startswith("cricket: ../a: a name of a snapshot has")


# --- what fails leaves nothing behind

@pytest.mark.parametrize("kind, why", [("plain", "the program has no session with this server yet"),
                                       ("listens", "it has a network socket, which CRIU before 4.2 cannot write on Linux 6.16 or newer")])
def test_a_program_that_cannot_be_written_says_why(world, kind, why):
    done = world.snapshot(kind)
    if kind == "listens" and done.status == 0:
        return                                                  # a newer CRIU, or an older kernel
    assert done.status == 1 and why in done.err
    assert done.err.count("\n") == 1
    assert not any(world.folder.iterdir())
    wait_until(lambda: not world.sessions(), 20, "its session has ended")


def test_a_program_that_ends_before_it_is_ready_leaves_nothing(world):
    left = "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &); while [ ! -s pid ]; do sleep 0.1; done;"
    done = world.run("snapshot", "one", "-s", world.server.address("tcp"), "--", "sh", "-c", f"cd {world.path}; {left} echo out; echo err >&2; exit 3")
    assert not is_alive(int((world.path / "pid").read_text()))
    assert (done.status, done.out) == (1, "out\n")
    assert done.err == "err\ncricket: the program has ended before it was ready (status 3)\n"
    assert not any(world.folder.iterdir())


def test_an_interrupted_command_leaves_nothing(world):
    snapshot = subprocess.Popen([CRICKET, "snapshot", "one", "-s", world.server.address("tcp"), "--", sys.executable, SCRIPT, world.path / "ready"],
                                env=world.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert snapshot.stdout.readline() == b"ready\n"
    snapshot.terminate()
    assert snapshot.wait(TIMEOUT) == 1
    assert not any(world.folder.iterdir())
    wait_until(lambda: not world.sessions(), 20, "its session has ended")


@pytest.mark.parametrize("missing", ["criu", "rights", "tcp"])
def test_what_is_missing_is_said_in_one_line(world, missing):
    bare = world.path / "bare"
    bare.mkdir()
    if missing == "criu":
        done = world.snapshot(PATH=str(bare))
        assert "criu was not found; snapshots need CRIU 4.1 or newer" in done.err
    elif missing == "rights":
        program = bare / "criu"
        program.write_text("#!/bin/sh\n[ $1 != --version ] || echo Version: 4.1.1\n[ $1 != check ]\n")
        program.chmod(0o755)
        done = world.snapshot(PATH=f"{bare}:{os.environ['PATH']}")
        assert "CRIU cannot work here" in done.err
    else:
        done = world.run("snapshot", "one", "-s", f"unix:{world.server.unix}", "--", "true")
        assert "a snapshot needs a server's TCP address" in done.err
    assert done.status == 1 and done.err.count("\n") == 1 and not world.folder.exists()


def change_about(folder, **values):
    about = folder / "snapshot.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), **values}))


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES = {
    "a file": (lambda folder: damage(max((folder / "program").glob("pages-*.img"))), "has changed: make the snapshot one again"),
    "a lost file": (lambda folder: next((folder / "program").glob("core-*.img")).unlink(), "No such file"),
    "the description": (lambda folder: (folder / "snapshot.json").write_text("{"), "it is damaged"),
    "no list": (lambda folder: change_about(folder, files={}), "it is damaged"),
    "the session": (lambda folder: damage(max((folder / "session-0").glob("pages-*"))), "its content has changed"),
    "a release": (lambda folder: change_about(folder, release="0.1.9"), "is of release 0.1.9, this is"),
    "a user": (lambda folder: os.chown(folder, 12345, -1), "belongs to another user"),
    "a mode": (lambda folder: folder.chmod(0o755), "other users can access it"),
    "memory": (lambda folder: change_about(folder, memory=1 << 60), "MiB are free here"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_files_that_are_not_as_they_were_are_refused(world, what):
    assert world.snapshot().status == 0
    change, why = DAMAGES[what]
    change(world.folder / "one")
    done = world.run("run", "--from", "one")
    assert done.status == 1 and why in done.err and done.err.count("\n") == 1
    assert not world.sessions()


def test_a_copy_whose_process_cannot_be_made_ends_its_session(world):
    assert world.snapshot().status == 0
    program = world.path / "bin" / "criu"
    program.unlink()
    program.write_text("#!/bin/sh\n[ $1 != --version ] || echo Version: 4.1.1\n[ $1 != restore ]\n")
    program.chmod(0o755)
    done = world.run("run", "--from", "one")
    assert done.status == 1 and "cricket: the copy cannot be made" in done.err
    wait_until(lambda: not world.sessions(), 20, "its session has ended")


def test_process_ids_that_are_in_use_are_said_in_one_line(world):
    assert world.snapshot().status == 0
    program = world.path / "bin" / "criu"
    program.unlink()
    program.write_text("""#!/bin/sh
[ $1 != --version ] || echo Version: 4.1.1
[ $1 = restore ] || exit 0
for word; do case $word in --log-file=*) echo "pie: 7: Error (a.c:1): Unable to create a thread: -17" > ${word#*=};; esac; done
exit 1
""")
    program.chmod(0o755)
    done = world.run("run", "--from", "one")
    assert (done.status, done.err) == (1, "cricket: the copy cannot be made: process ids of the program are in use: try again\n")
    wait_until(lambda: not world.sessions(), 20, "its session has ended")


def test_what_a_killed_command_has_left_is_replaced(world):
    folder = world.folder / "one"
    assert world.snapshot().status == 0
    (folder / "snapshot.json").unlink()
    assert "(not complete)" in world.run("snapshots").out
    assert "is not complete" in world.run("run", "--from", "one").err
    assert world.snapshot().status == 0
    copy = world.copy()
    assert copy.ask(4).split()[:2] == ["sum", str(sum_of(4))]
    check_end(copy)
    shutil.rmtree(folder)
