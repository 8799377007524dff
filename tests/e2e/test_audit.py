"""tests/e2e/test_audit.py - the audit log: one line for each session, refusal and command, whatever its client says."""
import datetime
import json
import os
import pathlib
import pwd
import signal
import stat
import subprocess
import sys
import time

import pytest

from conftest import PRODUCTS, SERVER, Server, clean_env, client_env, ended, lines_of_a_kind, preload, run, start, wait_until
from stranger import HELLO, Refused, Session, call, opaque, results, u32
from test_control import HOLDER, Asker
from tls import Authority

COMMAND = PRODUCTS / "cricket"
MIB = 1 << 20


class Audited(Server):
    """A server with an audit log."""

    def __init__(self, folder, *options, path=None, **env):
        self.audit = path or folder / "audit"
        super().__init__(folder, "--audit", self.audit, *options, **env)

    def events(self, kind=None):
        """All whole lines, or those of one kind."""
        if not self.audit.exists():
            return []
        lines = [json.loads(line) for line in self.audit.read_text(encoding="ascii").splitlines()]
        return [line for line in lines if kind in (None, line["event"])]

    def wait_for(self, kind, count=1):
        wait_until(lambda: len(self.events(kind)) >= count, 10, f"{count} events {kind}")
        return self.events(kind)


@pytest.fixture
def begin(tmp_path):
    """Starts a server with an audit log; it ends with the test."""
    servers = []

    def go(*options, folder="server", **more):
        servers.append(Audited(tmp_path / folder, *options, **more))
        return servers[-1]
    yield go
    for s in servers:
        s.end()


def holder(server, transport="tcp", **env):
    process = start([sys.executable, "-c", HOLDER], client_env(server.address(transport), **env))
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def test_a_session_is_recorded_from_begin_to_end(begin, app):
    server = begin()
    result = run([app("vector_add")], client_env(server.address("unix")))
    assert result.status == 0, result.err
    (last,) = server.wait_for("session-end")
    (first,) = server.events("session-begin")
    for event in (first, last):
        assert event["version"] == 1 and event["session"] == "s1"
        assert event["identity"] == f"user {pwd.getpwuid(os.getuid()).pw_name}"
        assert event["address"] == f"user {os.getuid()}"
        assert event["program"] == "vector_add" and event["client_pid"] > 1 and event["host"]
        moment = datetime.datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S.%f%z")
        assert abs((datetime.datetime.now(datetime.timezone.utc) - moment).total_seconds()) < 600
    assert last["calls"] > 0 and last["commands"] > 0 and last["received"] > 0 and last["sent"] > 0
    assert last["seconds"] > 0 and last["peak_memory"] >= MIB and last["worker_pid"] > 1
    assert last["cause"] in ("the program has ended", "the client has ended")
    assert stat.S_IMODE(os.stat(server.audit).st_mode) == 0o600
    server.stop()
    assert [event["event"] for event in server.events()] == ["server-start", "session-begin", "session-end",
                                                             "server-stop"]


def test_the_cause_of_an_end_is_recorded(begin):
    server = begin()
    asker = Asker(server)
    causes = []
    for end in (lambda p: p.kill(),
                lambda p: os.kill(server.workers()[0], signal.SIGKILL),
                lambda p: asker.ask("end", session=asker.ask("sessions")["sessions"][0]["session"])):
        process = holder(server, CRICKET_RESUME="0")
        end(process)
        causes.append(server.wait_for("session-end", len(causes) + 1)[-1])
        process.kill()
        ended(process, 10)
    assert [c["session"] for c in causes] == ["s1", "s2", "s3"]
    assert causes[0]["cause"] in ("the client has ended", "Connection reset by peer")
    assert causes[0]["peak_memory"] >= 64 * MIB
    assert "killed by signal 9" in causes[1]["cause"]
    assert causes[2]["cause"] == "a command has ended it"
    (command,) = server.events("command")       # those that only read are not there
    assert command["user"] == os.getuid() and command["command"] == "end" and command["session"] == "s3"
    assert command["result"] == "done"
    assert not asker.ask("end", session="s99")["ok"]
    command = server.wait_for("command", 2)[-1]
    assert command["result"] == "refused" and "s99" in command["why"]
    process = holder(server)
    server.stop()
    process.kill()
    ended(process, 10)
    assert server.events("session-end")[-1]["session"] == "s4"
    assert server.events()[-1]["event"] == "server-stop"


def test_every_refusal_is_recorded(begin, tmp_path):
    """Also those that the server's log sums up."""
    token = tmp_path / "token"
    token.write_text("sesame\n")
    server = begin("--token-file", token, "--sessions-per-address", "1")
    began = time.monotonic()
    for _ in range(40):
        with pytest.raises(Refused):
            Session(server, token=b"wrong")
    with pytest.raises(Refused):
        Session(server, protocol=7)
    one = Session(server, token=b"sesame")
    with pytest.raises(Refused):
        Session(server, token=b"sesame")
    one.end()
    refused = server.wait_for("refused", 42)
    assert [event["reason"] for event in refused] == ["token"] * 40 + ["protocol", "address"]
    assert refused[0]["address"] == "127.0.0.1" and refused[0]["identity"] is None
    assert refused[0]["program"] == "stranger" and "is not one of the server's tokens" in refused[0]["why"]
    assert refused[-1]["identity"] == "the token's holder"
    assert server.log().count("refused") <= lines_of_a_kind(began) + 2
    assert "wrong" not in server.audit.read_text() and "sesame" not in server.audit.read_text()


def test_the_reason_of_a_refusal_is_the_right_one(begin, tmp_path, app):
    """Without TLS, or without a certificate, no token would help."""
    home = clean_env(XDG_CONFIG_HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path), CRICKET_TLS="off", CRICKET_TOKEN="sesame")
    (tmp_path / "token").write_text("sesame\n")
    authority = Authority(tmp_path)
    cert, key = authority.sign("server")
    tls = ("--tls-cert", cert, "--tls-key", key)

    def reasons(server, address):
        program = run([app("vector_add")], client_env(address, **{**home, "LD_PRELOAD": preload()}))
        assert program.status != 0
        assert json.loads(run([COMMAND, "servers", "--json", address], home).out)[0]["state"] == "refused"
        events = server.wait_for("refused", 2)
        assert all("token" not in event["why"] for event in events if event["reason"] != "token")
        totals = json.loads(run([COMMAND, "status", "--json", server.address("unix")], home).out)["totals"]["refused"]
        found = {event["reason"] for event in events}
        assert {reason: n for reason, n in totals.items() if n} == {found.pop(): len(events)} and not found
        server.stop()
        return events[0]["reason"]
    server = begin(*tls, "--tls", "required", "--token-file", tmp_path / "token")
    assert reasons(server, server.address("tcp")) == "tls"
    server = begin(*tls, "--tls-ca", authority.ca, folder="b")
    home.update(CRICKET_TLS="require", CRICKET_TLS_CA=str(authority.ca))
    assert reasons(server, server.address("tcp")) == "certificate"


@pytest.mark.parametrize("name", [b'a", "event": "server-stop', b"a\nb\r\x1b[31m", b"\xff\xfe", "\u202egnp".encode(), b"x" * 256])
def test_what_a_client_says_stays_in_its_field(begin, name):
    server = begin()
    session = Session.__new__(Session)
    session.server, session.transport, session.source, session.connections = server, "tcp", "", []
    lane = session.connect()
    lane.sendall(call(HELLO, u32(1) + opaque(b"test") + opaque(b"") + opaque(name) + opaque(name) + u32(1)))
    assert results(lane)[:4] == u32(0)
    (event,) = server.wait_for("session-begin")
    assert event["program"] == event["host"]
    assert event["program"] == name.decode("utf-8", "ignore") or set(event["program"]) == {"?"}
    session.end()
    server.wait_for("session-end")
    text = server.audit.read_bytes()
    assert all(byte == 10 or 32 <= byte < 127 for byte in text)
    assert text.count(b"\n") == 3


def test_a_rotated_file_is_opened_again(begin):
    server = begin()
    moved = server.audit.with_suffix(".1")
    server.audit.rename(moved)
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: server.audit.exists() and server.events("token-reload"), 10, "the file is opened again")
    assert json.loads(moved.read_text())["event"] == "server-start"
    Session(server).end()
    server.wait_for("session-end")
    # a path that cannot be opened leaves the old file in use
    here = server.audit.with_suffix(".2")
    server.audit.rename(here)
    server.audit.mkdir()
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: "the file that was opened before is used" in server.log(), 10, "a line says so")
    wait_until(lambda: here.read_text().count("token-reload") == 2, 10, "the old file has the event")


def test_a_server_continues_its_audit_log_after_an_upgrade(begin):
    server = begin()
    process = holder(server)
    os.kill(server.process.pid, signal.SIGUSR2)
    server.wait_for("server-upgraded")
    process.kill()
    ended(process, 10)
    (last,) = server.wait_for("session-end")
    assert last["session"] == "s1" and last["peak_memory"] >= 64 * MIB


def test_events_that_cannot_be_written_are_reported_once_and_counted(begin, tmp_path):
    folder = tmp_path / "log"       # a link in the place of the file itself would be refused
    folder.symlink_to("/dev")
    path = folder / "full"
    server = begin(path=path)
    for _ in range(3):
        Session(server).end()
    server.wait_idle()
    assert server.log().count(f"audit log {path}: No space left") == 1
    folder.unlink()
    folder.mkdir()
    os.kill(server.process.pid, signal.SIGHUP)
    server.wait_for("token-reload")
    (lost,) = server.events("lost")
    assert 4 <= lost["events"] <= 7     # the start, and each session's begin and end
    assert server.log().count("it can be written again") == 1


def test_a_required_audit_log_that_cannot_be_written_refuses_sessions(begin):
    server = begin("--audit-required", path=pathlib.Path("/dev/full"))
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            Session(server)
        assert "--audit-required" in refused.value.args[1]
    server.has_workers(0)


@pytest.mark.parametrize("options, words", [(["--audit", "/nowhere/audit"], "/nowhere/audit: No such file"),
                                            (["--audit", "here"], "not an absolute path"),
                                            (["--audit-required"], "must be given together")])
def test_a_server_without_its_audit_log_does_not_start(options, words):
    result = subprocess.run([SERVER, "--driver", "emu", "--no-unix", *options], env=clean_env(), capture_output=True,
                            text=True, timeout=60)
    assert result.returncode in (1, 2) and words in result.stderr


def test_a_pipe_without_a_reader_does_not_stop_the_start(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    result = subprocess.run([SERVER, "--driver", "emu", "--no-unix", "--audit", tmp_path / "pipe"], env=clean_env(),
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and "audit log" in result.stderr
