"""tests/e2e/test_confine.py - workers that open only the files that a driver needs (--confine)."""
import ctypes
import os
import signal
import sys

import pytest

from conftest import DRIVER, SERVER, TRANSPORTS, Server, client_env, run, wait_until
from criu import criu
from stranger import Session
from test_arena import HEAD, begin
from test_control import Asker, ctl
from test_policy import MORE, REGIONS
from test_refusals import new_token
from test_worker_users import HOLDER, needs_root, users  # noqa: F401 pylint: disable=unused-import


def version():
    """Of Landlock; 0: this kernel has none."""
    return max(0, ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))


needs_landlock = pytest.mark.skipif(version() < 3, reason="this kernel's Landlock is too old, or there is none")


@pytest.fixture
def serve(tmp_path):
    servers = []

    def go(*options, **env):
        servers.append(Server(tmp_path / "server", "--confine", "none", *options, **env))
        return servers[-1]
    yield go
    for s in servers:
        s.end()


@needs_landlock
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("warm", ["0", "1"])
def test_programs_run_as_ever(serve, app, transport, warm):
    """And find their modules in the cache."""
    server = serve("--warm", warm)
    if warm == "1":
        wait_until(server.spares, 20, "a spare worker")
    env = client_env(server.address(transport), CRICKET_STATS="1")
    first, second = run([app("vector_add")], env), run([app("vector_add")], env)
    assert first.status == second.status == 0, first.err + second.err
    assert "ck_image" in first.err and "ck_image" not in second.err


@needs_landlock
def test_a_file_elsewhere_stays_closed(tmp_path, app):
    """The emulated driver goes on without its table, which another server has."""
    server = Server(tmp_path / "server", "--confine", "none", CRICKET_EMU=f"usage={tmp_path}/table,shared")
    try:
        assert run([app("vector_add")], client_env(server.address("unix"))).status == 0
        assert not (tmp_path / "table").exists()
    finally:
        server.end()
    server = Server(tmp_path / "other", CRICKET_EMU=f"usage={tmp_path}/table,shared")
    try:
        assert run([app("vector_add")], client_env(server.address("unix"))).status == 0
        assert (tmp_path / "table").exists()
    finally:
        server.end()


@needs_landlock
def test_new_tokens_are_known_although_workers_cannot_read_them(serve, tmp_path):
    """Also by a spare worker that was there before."""
    (alice, hers), (bob, his) = new_token("alice"), new_token("bob")
    tokens = tmp_path / "tokens"
    tokens.write_text(hers + "\n")
    server = serve("--token-file", tokens, "--warm", "1")
    wait_until(server.spares, 20, "a spare worker")
    (tmp_path / "new").write_text(f"{hers}\n{his}\n")
    (tmp_path / "new").rename(tokens)
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: "token file is read again" in server.log(), 10, "the new tokens")
    session = Session(server, token=bob)
    assert [s["identity"] for s in Asker(server).ask("sessions")["sessions"]] == ["bob"]
    session.end()
    Session(server, token=alice).end()


@needs_landlock
def test_a_session_shares_by_name_leaves_the_gpu_and_returns(serve):
    server = serve()
    program = begin(MORE + HOLDER, client_env(server.address("tcp")))
    assert program.stdout.readline() == "holds\n"
    name = Asker(server).ask("sessions")["sessions"][0]["session"]
    for command in ("suspend", "resume"):
        reply = Asker(server).ask(command, session=name)
        assert reply["ok"], reply
    print("go", file=program.stdin, flush=True)
    assert program.stdout.readline() == "True\n"
    result = run([sys.executable, "-c", HEAD + MORE + REGIONS + "assert region(b'here', 2)"],
                 client_env(server.address("tcp")))
    assert result.status == 0, result.err
    program.kill()
    program.wait()


@needs_landlock
@pytest.mark.skipif(DRIVER != "emu", reason="a real GPU's driver is asked by another test")
def test_a_confined_session_goes_into_files(serve, tmp_path):
    server = serve("--criu", criu())
    program = begin(MORE + HOLDER, client_env(server.address("tcp")))
    assert program.stdout.readline() == "holds\n"
    name = Asker(server).ask("sessions")["sessions"][0]["session"]
    for command in (("checkpoint", name), ("restore",)):
        done = ctl(server, *command, tmp_path / "saved")
        assert done.returncode == 0, done.stderr + server.log()
    print("go", file=program.stdin, flush=True)
    assert program.stdout.readline() == "True\n"
    program.kill()
    program.wait()


@needs_root
@needs_landlock
def test_workers_are_other_users_too(users):  # noqa: F811
    server = users.serve("--confine", "none")
    program = users.talk(server, HOLDER)
    assert program.stdout.readline() == "holds\n"
    print("go", file=program.stdin, flush=True)
    assert program.stdout.readline() == "True\n"
    cache = server.log_file.parent / "cache" / "users"
    assert any(list(folder.iterdir()) for folder in cache.iterdir())


def test_a_wrong_list_is_refused():
    for folders in ("", "usr", "/usr:"):
        result = run([SERVER, "--driver", "emu", "--no-unix", "--confine", folders], client_env(None, LD_PRELOAD=""))
        assert result.status == 2 and result.err.count("\n") == 1 and f"--confine {folders}: not none, nor absolute" in result.err
