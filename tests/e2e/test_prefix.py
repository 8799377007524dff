"""tests/e2e/test_prefix.py - workers that are started through a command of the policy, such as a profiler of the server."""
import json
import os
import pathlib
import pwd
import re
import signal
import sys

import pytest

from conftest import DRIVER, TRANSPORTS, Server, clean_env, client_env, ended, is_alive, run, start, wait_until
from test_control import HOLDER, Asker

USER = pwd.getpwuid(os.getuid()).pw_name

# Says what it runs, runs it, and says when that has ended. As a profiler, it goes on after its program.
PARENT = """\
#!/usr/bin/python3
import json, os, subprocess, sys
folder, session = sys.argv[1], os.environ["CRICKET_SESSION"]
with open(f"{folder}/{session}.begin", "w") as f:
    json.dump([os.getpid(), sys.argv[2:]], f)
status = subprocess.run(sys.argv[2:], close_fds=False).returncode
open(f"{folder}/{session}.ended", "w").write(str(status))
open(f"{folder}/hold").read()
open(f"{folder}/{session}.report", "w").close()
"""
# Becomes the worker.
SAME = """\
#!/bin/sh
folder=$1; shift
echo "$$" > "$folder/$CRICKET_SESSION.begin"
exec "$@"
"""

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="needs a server of its own")


@pytest.fixture
def reports(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    return folder


@pytest.fixture
def serve(tmp_path, reports):
    """Starts a server whose policy has the commands `parent`, `same` and `missing`; this user may use them, with `token` the last."""
    servers = []

    def go(*options, grants='"parent", "same", "missing"'):
        commands = []
        for name, text in (("parent", PARENT), ("same", SAME)):
            path = tmp_path / name
            path.write_text(text)
            path.chmod(0o755)
            commands.append(f'{{ name = "{name}"; command = ["{path}", "{reports}"]; }}')
        commands.append('{ name = "missing"; command = ["/no/such/program"]; }')
        policy = tmp_path / "policy"
        policy.write_text(f'prefixes: ( {", ".join(commands)} ); identities: ( {{ user = "{USER}"; prefixes = [ {grants} ]; }}, '
                          '{ address = "127.0.0.1"; prefixes = [ "parent", "same" ]; } );')
        servers.append(Server(tmp_path / "server", "--policy", policy, "--audit", tmp_path / "audit", *options))
        return servers[-1]
    yield go
    for server in servers:
        server.end()


def sessions(server):
    return Asker(server).ask("sessions")["sessions"]


@pytest.mark.parametrize("standby", ["0", "1"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_worker_is_started_through_a_command_that_stays(serve, app, reports, tmp_path, transport, standby):
    server = serve("--standby", standby)
    if standby == "1":
        wait_until(server.spares, 20, "a spare worker")
    os.mkfifo(reports / "hold")
    result = run([app("vector_add")], client_env(server.address(transport), CRICKET_WORKER_PREFIX="parent"))
    assert result.status == 0, result.err
    wait_until(lambda: (reports / "s1.ended").exists() and (reports / "s1.ended").read_text(), 20, "the worker has ended")
    assert (reports / "s1.ended").read_text() == "0"
    pid, command = json.loads((reports / "s1.begin").read_text())
    assert os.path.basename(command[0]) == "cricket-rpc-server" and command[1] == "--worker"
    assert is_alive(pid) and not (reports / "s1.report").exists()       # the profiler writes what it has seen
    (reports / "hold").write_text("")
    wait_until(lambda: not is_alive(pid), 5, "the command has ended")       # a server's worker may be its child
    assert (reports / "s1.report").exists()
    events = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [e["worker_prefix"] for e in events if e["event"] == "session-begin"] == ["parent"]


@pytest.mark.parametrize("name", ["parent", "same"])
def test_commands_about_such_a_session_mean_its_worker(serve, reports, name):
    server = serve()
    (reports / "hold").write_text("")
    process = start([sys.executable, "-c", HOLDER], client_env(server.address("unix"), CRICKET_WORKER_PREFIX=name))
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    began = json.loads((reports / "s1.begin").read_text())
    (session,) = sessions(server)
    assert pathlib.Path(f"/proc/{session['pid']}/comm").read_text() == "cricket-worker\n"
    assert (session["pid"] == began) if name == "same" else (session["pid"] != began[0])
    asker = Asker(server)
    assert asker.ask("suspend", session="s1")["ok"]
    wait_until(lambda: sessions(server)[0]["state"] == "suspended", 20, "it is suspended")
    assert asker.ask("resume", session="s1")["ok"]
    wait_until(lambda: sessions(server)[0]["state"] == "running", 20, "it is resumed")
    assert asker.ask("end", session="s1")["ok"]
    wait_until(lambda: not sessions(server), 20, "it has ended")
    assert not is_alive(session["pid"])
    process.kill()
    ended(process, 10)


def test_a_command_is_answered_although_the_session_ends(serve, app, reports):
    """Also one whose worker is no child of the server."""
    server = serve("--suspend-wait", "1h")
    (reports / "hold").write_text("")
    process = start([app("endless"), "sync"], client_env(server.address("unix"), CRICKET_WORKER_PREFIX="parent"))
    assert process.stdout.readline() == "running\n", process.stderr.read()
    pid, _ = json.loads((reports / "s1.begin").read_text())
    asker = Asker(server)
    asker.say(b'{"command": "suspend", "session": "s1"}\n')
    wait_until(lambda: sessions(server)[0]["state"] == "suspending", 20, "its work is waited for")
    os.kill(pid, signal.SIGKILL)
    assert json.loads(asker.file.readline()) == {"ok": False, "error": "the session has ended"}
    ended(process, 10)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_does_not_wait_for_the_command(serve, reports, transport):
    """The command has the client's connection too, and lives longer than the worker."""
    server = serve()
    os.mkfifo(reports / "hold")
    process = start([sys.executable, "-c", HOLDER.replace("time.sleep(600)", "while c.cuCtxSynchronize() == 0: time.sleep(0.01)")],
                    client_env(server.address(transport), CRICKET_WORKER_PREFIX="parent", CRICKET_RESUME="0"))
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    assert Asker(server).ask("end", session="s1")["ok"]
    assert ended(process, 20).status == 0
    (reports / "hold").write_text("")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can have workers of other users")
def test_the_worker_in_it_may_be_another_user(serve, reports):
    server = serve("--worker-users", "700000-700099")
    (reports / "hold").write_text("")
    process = start([sys.executable, "-c", HOLDER], client_env(server.address("tcp"), CRICKET_WORKER_PREFIX="parent"))
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    (session,) = sessions(server)
    assert session["pid"] != json.loads((reports / "s1.begin").read_text())[0]
    user = re.search(r"^Uid:\t(\d+)\t", pathlib.Path(f"/proc/{session['pid']}/status").read_text(), re.M).group(1)
    assert 700000 <= int(user) <= 700099
    assert Asker(server).ask("end", session="s1")["ok"]
    process.kill()
    ended(process, 10)


def test_a_session_ends_with_the_command(serve, reports):
    server = serve()
    process = start([sys.executable, "-c", HOLDER], client_env(server.address("unix"), CRICKET_WORKER_PREFIX="parent"))
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    (session,) = sessions(server)
    os.kill(json.loads((reports / "s1.begin").read_text())[0], 9)
    wait_until(lambda: not sessions(server) and not is_alive(session["pid"]), 20, "the session has ended")
    process.kill()
    ended(process, 10)


def test_a_client_chooses_among_the_names_it_may_use(serve, app):
    server = serve(grants='"same"')
    program = app("vector_add")
    for name, words in (("parent", 'start workers through "parent"'), ("sh", 'start workers through "sh"'),
                        ("/bin/sh", 'start workers through "/bin/sh"'), ("x" * 32, "no server has a command with a name of 32")):
        result = run([program], client_env(server.address("unix"), CRICKET_WORKER_PREFIX=name))
        assert result.status != 0 and words in result.err and result.err.count("cricket: ") == 1, result.err
    assert run([program], client_env(server.address("unix"), CRICKET_WORKER_PREFIX="same")).status == 0
    assert run([program], client_env(server.address("tcp"), CRICKET_WORKER_PREFIX="parent")).status == 0
    assert run([program], client_env(server.address("unix"))).status == 0


def test_a_command_that_does_not_start_is_an_error_of_the_client(serve, app):
    server = serve()
    result = run([app("vector_add")], client_env(server.address("unix"), CRICKET_WORKER_PREFIX="missing"))
    # the second if it has ended before it was given its client
    assert result.status != 0 and ("sent no valid reply" in result.err or "cannot start another process" in result.err)
    wait_until(lambda: "cannot execute the server's program, or the policy's prefix" in server.log(), 5, "the log tells")


def test_a_server_without_a_policy_has_no_such_command(own_server, app):
    result = run([app("vector_add")], client_env(own_server.address("unix"), CRICKET_WORKER_PREFIX="same"))
    assert result.status != 0 and "start workers through" in result.err
