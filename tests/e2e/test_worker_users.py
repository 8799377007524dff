"""tests/e2e/test_worker_users.py - workers of different identities are different users of the host."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from conftest import DRIVER, HANG, SERVER, TRANSPORTS, Server, client_env, run, wait_until
from criu import criu
from ports import free_port
from stranger import Refused, Session
from test_arena import HEAD
from test_control import Asker, ctl
from test_policy import MORE, REGIONS
from test_refusals import new_token

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give processes to other users")

HOLDER = """
current()
p = alloc(CHUNK)
check(cuda.cuMemsetD8_v2(ctypes.c_uint64(p), 7, ctypes.c_size_t(CHUNK)))
say("holds")
while line():
    got = ctypes.create_string_buffer(CHUNK)
    check(cuda.cuMemcpyDtoH_v2(got, ctypes.c_uint64(p), ctypes.c_size_t(CHUNK)))
    say(got.raw == bytes([7]) * CHUNK)
"""


class Users:
    """A server with two named tokens, whose workers become users of a range of its own."""

    def __init__(self, folder):
        self.folder, self.servers, self.programs = folder, [], []
        self.first = 700000 + free_port() * 100
        (self.alice, hers), (self.bob, his) = new_token("alice"), new_token("bob")
        (folder / "tokens").write_text(f"{hers}\n{his}\n")
        (folder / "tokens").chmod(0o600)    # workers cannot read it

    def serve(self, *options, **env):
        self.servers.append(Server(self.folder / "server", "--token-file", self.folder / "tokens", "--worker-users",
                                   f"{self.first}-{self.first + 99}", *options, **env))
        return self.servers[-1]

    def program(self, server, code, token=None, transport="tcp", **env):
        env = client_env(server.address(transport), CRICKET_TOKEN=(token or self.alice).decode(), **env)
        return run([sys.executable, "-c", HEAD + MORE + code], env)

    def talk(self, server, code, token=None, transport="tcp", **env):
        env = client_env(server.address(transport), CRICKET_TOKEN=(token or self.alice).decode(), **env)
        self.programs.append(subprocess.Popen([sys.executable, "-c", HEAD + MORE + code], env=env, text=True,
                                              stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return self.programs[-1]

    def end(self):
        for p in self.programs:
            p.kill()
            p.wait()
        for s in self.servers:
            s.end()


@pytest.fixture
def users():
    """In a folder that other users may enter: pytest's own is closed to them."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cricket-users-"))
    folder.chmod(0o711)
    u = Users(folder)
    yield u
    u.end()
    shutil.rmtree(folder)


def ids(pid):
    """Of each thread: its user, its groups, its capabilities."""
    found = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        (user,), (group,) = set(status["Uid"].split()), set(status["Gid"].split())
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapAmb"], 16) == 0, status
        assert not status["Groups"].split()
        found.add((int(user), int(group)))
    return found


def sessions(server):
    """Their workers; a spare that starts is none yet."""
    return {s["pid"] for s in Asker(server).ask("sessions")["sessions"]}


def as_user(user, group, code):
    """Run Python code as another user; what it prints."""
    def become():
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    return subprocess.run(["/usr/bin/python3", "-c", code], preexec_fn=become, capture_output=True, text=True, cwd="/",
                          timeout=HANG, check=True).stdout.strip()


OPENS = """
try:
    open({path!r}, "rb").close()
    print("open")
except PermissionError:
    print("closed")
"""


@needs_root
@pytest.mark.parametrize("warm", ["0", "1"])
def test_each_identity_is_another_user_in_all_threads(users, warm):
    server = users.serve("--warm", warm, "--standby", warm)
    workers = {}
    for name, token in (("alice", users.alice), ("bob", users.bob), ("alice again", users.alice)):
        if warm == "1":
            wait_until(server.spares, 20, "a spare worker")
        before = sessions(server)
        program = users.talk(server, HOLDER, token)
        assert program.stdout.readline() == "holds\n"
        (workers[name],) = sessions(server) - before
    found = {name: ids(pid) for name, pid in workers.items()}
    assert all(len(one) == 1 for one in found.values()), found
    (alice, group), (bob, _), (again, _) = (next(iter(found[name])) for name in workers)
    assert alice == again != bob and group == users.first
    assert {alice, bob} <= set(range(users.first, users.first + 100))
    for program in users.programs:
        print("go", file=program.stdin, flush=True)
        assert program.stdout.readline() == "True\n"


@needs_root
def test_the_memory_of_other_identities_workers_is_closed(users):
    """The same user is the proof that it is there."""
    server = users.serve()
    for token in (users.alice, users.bob):
        assert users.talk(server, HOLDER, token).stdout.readline() == "holds\n"
    one, other = server.workers()
    ((user, group),), ((own, _),) = ids(one), ids(other)
    code = OPENS.format(path=f"/proc/{other}/mem")
    assert (as_user(user, group, code), as_user(own, group, code)) == ("closed", "open")
    assert as_user(user, group, OPENS.format(path=f"/proc/{other}/environ")) == "closed"
    signals = f"import os\ntry:\n os.kill({other}, 0); print('may')\nexcept PermissionError: print('not')"
    assert (as_user(user, group, signals), as_user(own, group, signals)) == ("not", "may")


@needs_root
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_programs_run_as_ever(users, app, transport):
    """And the second one finds its modules in the cache, which is its identity's alone."""
    server = users.serve()
    env = client_env(server.address(transport), CRICKET_TOKEN=users.alice.decode(), CRICKET_STATS="1")
    first, second = run([app("vector_add")], env), run([app("vector_add")], env)
    assert first.status == second.status == 0, first.err + second.err
    assert "ck_image" in first.err and "ck_image" not in second.err
    folders = list((server.log_file.parent / "cache" / "users").iterdir())
    assert len(folders) == 1 and list(folders[0].iterdir())
    assert as_user(users.first, users.first, f"""
import os
try:
    print(os.listdir({str(folders[0])!r}))
except PermissionError:
    print("closed")
""") == "closed"


@needs_root
@pytest.mark.skipif(DRIVER != "emu", reason="needs a GPU of known size")
def test_a_policy_holds_for_other_users_too(users, tmp_path):
    (tmp_path / "policy").write_text('default: { memory = "64M"; };')
    server = users.serve("--policy", tmp_path / "policy", CRICKET_EMU=f"memory={256 << 20}")
    first = users.talk(server, "current()\ngot = fill()\nsay(len(got))\nline()\n")
    assert first.stdout.readline() == "32\n"
    result = users.program(server, "current()\nassert alloc(CHUNK) is None")
    assert result.status == 0, result.err
    result = users.program(server, "current()\nassert len(fill()) == 32", users.bob)
    assert result.status == 0, result.err


@needs_root
def test_regions_are_shared_by_name(users):
    server = users.serve()
    first = users.talk(server, REGIONS + "r = region(b'here', 2)\nsay(bool(r))\nline()\n")
    assert first.stdout.readline() == "True\n"
    result = users.program(server, REGIONS + """
r = ctypes.c_void_p()
check(m3.m3_open(client, b"here", 3, ctypes.byref(r)))
""")
    assert result.status == 0, result.err


@needs_root
@pytest.mark.parametrize("arena", ["1", "0"])
@pytest.mark.parametrize("warm", ["0", "1"])
def test_memory_is_passed_from_session_to_session(users, warm, arena):
    """By handles of CUDA IPC, also between a session of a spare worker and one without."""
    server = users.serve("--warm", warm, "--standby", "0")
    if warm == "1":
        wait_until(server.spares, 20, "a spare worker")
    first = users.talk(server, """
current()
p = alloc(CHUNK)
check(cuda.cuMemsetD8_v2(ctypes.c_uint64(p), 7, ctypes.c_size_t(CHUNK)))
check(cuda.cuCtxSynchronize())
handle = ctypes.create_string_buffer(64)
check(cuda.cuIpcGetMemHandle(handle, ctypes.c_uint64(p)))
say(handle.raw.hex())
line()
""", CRICKET_DEBUG=f"arena={arena}")
    handle = first.stdout.readline().strip()
    assert len(handle) == 128
    # without the arena the driver makes the handle: the emulated one opens files of the process that made it
    for token in (users.alice, users.bob) if arena == "1" or DRIVER != "emu" else (users.alice,):
        result = users.program(server, f"""
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]
current()
q, got = ctypes.c_uint64(), ctypes.create_string_buffer(CHUNK)
check(cuda.cuIpcOpenMemHandle_v2(ctypes.byref(q), Handle.from_buffer_copy(bytes.fromhex("{handle}")), 1))
check(cuda.cuMemcpyDtoH_v2(got, q, ctypes.c_size_t(CHUNK)))
assert got.raw == bytes([7]) * CHUNK
""", token, CRICKET_DEBUG=f"arena={arena}")
        assert result.status == 0, result.err


@needs_root
def test_a_session_leaves_the_gpu_and_returns(users):
    server = users.serve()
    program = users.talk(server, HOLDER)
    assert program.stdout.readline() == "holds\n"
    name = Asker(server).ask("sessions")["sessions"][0]["session"]
    for command in ("suspend", "resume"):
        reply = Asker(server).ask(command, session=name)
        assert reply["ok"], reply
    print("go", file=program.stdin, flush=True)
    assert program.stdout.readline() == "True\n"


@needs_root
def test_an_upgraded_server_knows_the_users(users):
    server = users.serve()
    program = users.talk(server, HOLDER)
    assert program.stdout.readline() == "holds\n"
    worker, = server.workers()
    ((user, _),) = ids(worker)
    os.kill(server.process.pid, signal.SIGUSR2)
    wait_until(lambda: "continuing with 1 running" in server.log(), 20, "the server is upgraded")
    second = users.talk(server, HOLDER)
    assert second.stdout.readline() == "holds\n"
    (other,) = set(server.workers()) - {worker}
    assert {one for one, _ in ids(other)} == {user}
    print("go", file=program.stdin, flush=True)
    assert program.stdout.readline() == "True\n"


@needs_root
def test_sessions_find_the_next_server_after_a_crash(users):
    server = users.serve("--state-dir", users.folder / "state")
    program = users.talk(server, HOLDER)
    assert program.stdout.readline() == "holds\n"
    wait_until(lambda: "session of" in server.log(), 10, "the worker, which may be behind its client, outlives the server")
    server.process.kill()
    server.process.wait()
    second = users.serve("--state-dir", users.folder / "state")
    wait_until(lambda: "has its server again" in second.log(), 20, "the session is there again")
    assert Asker(second).ask("sessions")["sessions"][0]["identity"] == "alice"
    program.kill()
    program.wait()


# Comes to a server as a process that has lost its own, with a description and perhaps a listening socket.
RETURN = """
import array, json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect({path!r})
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("")
listener.listen()
fds = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))] if {passes} else []
s.sendmsg([{text!r}.encode()], fds)
s.settimeout(20)
while s.recv(100):
    pass
print("closed")
"""


def claim(user, **more):
    return json.dumps({"format": 1, "readable_by": 1, "workers": [{
        "pid": 2, "control": -1, "state": "session", "session": "ab" * 16, "number": 1, "program": "x", "user": user,
        "owner": {"peer": {"kind": "ipv4", "bytes": "01" * 16}, "identity": {"name": "bob", "key": "11" * 32}}}], **more})


@needs_root
@pytest.mark.parametrize("kind", ["itself", "another", "none", "broker"])
def test_a_worker_that_was_taken_over_is_no_other_identity(users, kind):
    """Nor the memory broker, to which all clients would come."""
    server = users.serve("--state-dir", users.folder / "state")
    user = users.first + 50
    text = claim({"itself": user, "another": user + 1}.get(kind, 0))
    if kind == "broker":
        text = json.dumps({"format": 1, "readable_by": 1, "broker": {"fd": 3}})
    code = RETURN.format(path=str(users.folder / "state" / "supervisor"), text=text, passes=kind == "broker")
    assert as_user(user, users.first, code) == "closed"
    wait_until(lambda: "a returning process is not accepted" in server.log(), 10, "the server says so")
    assert not Asker(server).ask("sessions")["sessions"]
    assert "has its server again" not in server.log()


@needs_root
@pytest.mark.skipif(DRIVER != "emu", reason="a real GPU's driver is asked by another test")
def test_a_session_from_files_is_the_same_user(users):
    """Which no other identity gets meanwhile."""
    if not int(re.search(r"CapEff:\s+(\w+)", pathlib.Path("/proc/self/status").read_text())[1], 16) >> 24 & 1:
        pytest.skip("without CAP_SYS_RESOURCE, CRIU cannot dump processes of other users")
    server = users.serve("--criu", criu())
    program = users.talk(server, HOLDER)
    assert program.stdout.readline() == "holds\n"
    worker, = server.workers()
    before = ids(worker)
    name = Asker(server).ask("sessions")["sessions"][0]["session"]
    done = ctl(server, "checkpoint", name, users.folder / "saved")
    assert done.returncode == 0, done.stderr + server.log()
    wait_until(lambda: not server.workers(), 30, "the worker in files is gone here")
    done = ctl(server, "restore", users.folder / "saved")
    assert done.returncode == 0, done.stderr + server.log()
    print("go", file=program.stdin, flush=True)
    assert program.stdout.readline() == "True\n"
    assert ids(Asker(server).ask("sessions")["sessions"][0]["pid"]) == before
    again = users.talk(server, HOLDER)
    assert again.stdout.readline() == "holds\n"
    users_now = {next(iter(ids(s["pid"]))) for s in Asker(server).ask("sessions")["sessions"]}
    assert users_now == before


def begins(server, token):
    """Whether a session does."""
    try:
        Session(server, token=token).end()
        return True
    except Refused:
        return False


@needs_root
def test_a_range_can_be_used_up(users):
    users.first = users.first // 100 * 100
    server = Server(users.folder / "server", "--token-file", users.folder / "tokens", "--worker-users",
                    f"{users.first}-{users.first}")
    users.servers.append(server)
    session = Session(server, token=users.alice)
    result = run([sys.executable, "-c", HEAD], client_env(server.address("tcp"), CRICKET_TOKEN=users.bob.decode()))
    assert result.status != 0 and "cannot start another process" in result.err
    assert "no user is left for bob (--worker-users)" in server.log()
    session.end()
    wait_until(lambda: begins(server, users.bob), 10, "its user is free again")


@pytest.mark.parametrize("text", ["", "5", "0-9", "9-5", "1000-", "a-b", "1000-4294967295", "-5-9", "1000-2000x"])
def test_a_wrong_range_is_refused(text):
    result = run([SERVER, "--driver", "emu", "--no-unix", "--worker-users", text], client_env(None, LD_PRELOAD=""))
    assert result.status == 2 and result.err.count("\n") == 1 and f"--worker-users {text}: not FIRST-LAST" in result.err


@needs_root
def test_a_server_without_the_right_refuses_to_start():
    result = subprocess.run([SERVER, "--driver", "emu", "--no-unix", "--worker-users", "700000-700099"], text=True,
                            env=client_env(None, LD_PRELOAD=""), capture_output=True, timeout=HANG, check=False,
                            preexec_fn=lambda: os.setresuid(65534, 65534, 65534))
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert re.search(r"--worker-users: the server is not root, or lacks one of CAP_SETUID", result.stderr)
