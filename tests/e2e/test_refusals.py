"""tests/e2e/test_refusals.py - refusals: wrong tokens, too many sessions, connections that say nothing.

A refusal must cost the server little, and programs with the token nothing.
"""
import contextlib
import grp
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import pytest

from conftest import HANG, PATIENCE, SERVER, Server, children_of, client_env, lines_of_a_kind, name_of, run, wait_until, with_few_files
from stranger import HELLO, Refused, Session, call, opaque, u32

PROTOCOL, DENIED, BUSY = 1, 2, 4
OTHER = "127.0.0.2"


@pytest.fixture
def begin(tmp_path):
    """Starts a server with the given options; it ends with the test. Its sessions may be without a command connection: sessions()
    makes such, and a slow machine makes many of them in longer than the 10 s that a server waits for that connection."""
    servers = []

    def go(*options, **env):
        servers.append(Server(tmp_path / "server", "--command-wait", "600", *options, **env))
        return servers[-1]
    yield go
    for s in servers:
        s.stop()


@pytest.fixture
def token(tmp_path):
    """A token's file, of "sesame"."""
    path = tmp_path / "token"
    path.write_text("sesame\n")
    return path


def refusal(server, *args, **more):
    """The reply to a client that gets no session: status and message."""
    with pytest.raises(Refused) as refused:
        Session(server, *args, **more)
    return refused.value.args


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_a_refused_hello_starts_no_process(begin, token, transport):
    server = begin("--token-file", token, "--log", "debug", "--warm", "0")
    for wrong in (b"", b"sesam", b"sesame\n", bytes(1024)):
        status, message = refusal(server, transport, wrong)
        assert status == DENIED and ("is not one of the server's tokens" if wrong else "only clients with its token") in message
    status, message = refusal(server, transport, b"sesame", protocol=7)
    assert status == PROTOCOL and "speaks protocol 7" in message
    assert not re.search(r"worker \d+ started", server.log())
    assert len(re.findall(r"stranger pid 1 refused: ", server.log())) == 5
    Session(server, transport, b"sesame").end()
    assert re.search(r"worker \d+ started", server.log())


@pytest.mark.parametrize("transport", ["tcp", "unix", "shm"])
def test_a_program_with_a_wrong_token_is_told_so(begin, token, app, transport):
    server = begin("--token-file", token)
    result = run([app("vector_add")], client_env(server.address(transport), CRICKET_TOKEN="wrong"))
    assert result.status != 0
    line, = result.lines_about("refuses")
    assert "the token is not one of the server's tokens (revoked, expired or mistyped?)" in line and "cricket login SERVER" in line
    result = run([app("vector_add")], client_env(server.address(transport)))
    assert result.status != 0 and "only clients with its token; run cricket login SERVER, or set CRICKET_TOKEN" in result.err
    result = run([app("vector_add")], client_env(server.address(transport), CRICKET_TOKEN="sesame"))
    assert result.status == 0, result.err


def test_a_hello_of_another_protocol_may_look_different(begin):
    """Only its first word is understood. One of this protocol that cannot be read is no hello."""
    server = begin()
    with socket.create_connection(("127.0.0.1", server.port), HANG) as connection:
        connection.sendall(call(HELLO, u32(8) + b"\xff" * 12))
        reply = connection.recv(4096)
        assert reply[28:32] == u32(PROTOCOL) and b"speaks protocol 8" in reply
    with socket.create_connection(("127.0.0.1", server.port), HANG) as connection:
        connection.sendall(call(HELLO, u32(1) + b"\xff" * 12))
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(4096) == b""
    assert "an invalid hello" in server.log()


def test_a_new_token_counts_at_once(begin, token):
    server = begin("--token-file", token)
    Session(server, token=b"sesame").end()
    for secret in (b"another", b"sesame!", b"annther"):
        token.write_bytes(secret)
        assert refusal(server, token=b"sesame")[0] == DENIED
        Session(server, token=secret).end()
    token.unlink()
    assert refusal(server, token=b"annther")[0] == DENIED
    assert "No such file" in server.log()


def new_token(name):
    """A new token as clients give it, and its line."""
    out = subprocess.run([SERVER, "--new-token", name], capture_output=True, text=True, check=True, timeout=HANG).stdout
    secret, line = (text.split()[1] for text in out.splitlines())
    return secret.encode(), line


def test_each_name_in_the_token_file_is_an_identity(begin, token):
    (alice, hers), (bob, his) = new_token("alice"), new_token("bob")
    token.write_text(f"# users\n{hers}\n{his}\n")
    server = begin("--token-file", token, "--sessions-per-identity", "2")
    held = sessions(server, 2, token=alice) + sessions(server, 1, token=bob)
    status, message = refusal(server, token=alice)
    assert status == BUSY and "alice has 2 sessions" in message
    wait_until(lambda: "for alice" in server.log() and "for bob" in server.log(), 5,
               "the log names both")
    token.write_text(f"# users\n{his}\n")
    assert refusal(server, token=alice)[0] == DENIED
    assert refusal(server, token=hers.encode())[0] == DENIED
    held += sessions(server, 1, token=bob)
    for session in held:
        session.end()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a file to another group")
def test_the_unix_socket_may_be_opened_to_a_group(begin):
    server = begin("--socket-mode", "0660", "--socket-group", "daemon")
    status = server.unix.stat()
    assert status.st_mode & 0o7777 == 0o660 and status.st_gid == grp.getgrnam("daemon").gr_gid
    status = pathlib.Path(f"{server.unix}.ctl").stat()
    assert status.st_mode & 0o7777 == 0o600
    Session(server, "unix").end()


def test_systemd_learns_when_the_server_is_ready_and_when_it_stops(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(HANG)
        server = Server(tmp_path / "server", NOTIFY_SOCKET=str(tmp_path / "notify"))
        try:
            assert systemd.recv(100) == b"READY=1"
        finally:
            server.stop()
        assert systemd.recv(100) == b"STOPPING=1"


def test_systemd_hears_from_a_server_that_has_a_watchdog(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(HANG)
        server = Server(tmp_path / "server", NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="100000")
        try:
            assert [systemd.recv(100) for _ in range(4)] == [b"READY=1", *[b"WATCHDOG=1"] * 3]
        finally:
            server.stop()


def test_the_watchdog_of_another_process_is_not_the_servers(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(HANG)
        server = Server(tmp_path / "server", NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="1000",
                        WATCHDOG_PID="1")
        Session(server, "unix").end()
        server.stop()
        assert [systemd.recv(100) for _ in range(2)] == [b"READY=1", b"STOPPING=1"]


@pytest.mark.parametrize("option, value, words", [("mode", "0888", "not a mode"), ("mode", "0460", "not a mode"),
                                                  ("group", "no such", "no such group")])
def test_a_wrong_mode_or_group_is_refused(option, value, words):
    result = run([SERVER, f"--socket-{option}", value], client_env(None, LD_PRELOAD=""))
    assert result.status == 2 and words in result.err


@pytest.mark.parametrize("levels, status", [("bogus", 2), ("server:bogus", 2), ("info,server", 2),
                                            ("client:trace,server:info", 0), ("none", 0)])
def test_unknown_words_in_log_are_refused(levels, status):
    result = run([SERVER, "--log", levels, "--version"], client_env(None, LD_PRELOAD=""))
    assert result.status == status and ("not a level" in result.err) == (status == 2)


HASH = "0123456789abcdef" * 4
# A list with one mistake, and the line of the mistake. Not one of them is a single secret.
WRONG_LISTS = [
    ("#\nalice:12\n", 2), (f"\ufeffalice:{HASH}\n", 1), ("\ufeffsesame\n", 1), (f" alice:{HASH}\n", 1), (f"alice: {HASH}\n", 1),
    (f"alice :{HASH}\n", 1), (f"alice\t:{HASH}\n", 1), (f"alice:{HASH[:40]}\n", 1), ("alice:", 1), (f"alice:{HASH}0\n", 1),
    (f"al/ice:{HASH}\n", 1), (f"alice={HASH}\nbob:{HASH}\n", 1), (f"alice\nbob:{HASH}\n", 1), (f"{HASH}\nbob:{HASH}\n", 1),
    (f"alice:{HASH}\n\0bob:{HASH}\n", 2), ("ses\0ame\n", 1), (f"alice:{HASH}:2026-13-01\n", 1), (f"\n\nx{HASH}:alice\n", 3),
    ("two\nlines\n", 1), (f"alice:{HASH}\nali", 2),
]


@pytest.mark.parametrize("content, words", [(None, "No such file"), ("", "it is empty"), ("\n", "it is empty"), (" \n\t\n", "it is empty"),
                                            *((text, f":{line}: not NAME:HASH") for text, line in WRONG_LISTS)])
def test_a_server_with_a_wrong_token_file_does_not_start(tmp_path, content, words):
    path = tmp_path / "tokens"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    result = run([SERVER, "--driver", "emu", "--no-unix", "--token-file", path], client_env(None, LD_PRELOAD=""))
    assert result.status == 2 and words in result.err
    assert len(result.err.splitlines()) == 1


def test_a_wrong_list_admits_no_one_while_the_server_runs(begin, token):
    (alice, hers), (bob, his) = new_token("alice"), new_token("bob")
    token.write_text(f"{hers}\n{his}\n")
    server = begin("--token-file", token)
    Session(server, token=alice).end()
    # an editor that has written a part of the file; a byte order mark; a list that has become a secret
    wrong = [(f"{hers[:20]}\n{his}\n", ":1: not NAME:HASH"), (f"\ufeff{hers}\n", ":1: not NAME:HASH"), (hers[:9], ":1: not NAME:HASH"),
             ("ali", "it was a list of named tokens")]
    for text, words in wrong:
        token.write_text(text, encoding="utf-8")
        before = server.log().count(words)
        for secret in (alice, bob, text.encode(), text.strip().encode(), b"ali"):
            assert refusal(server, token=secret)[0] == DENIED
        assert server.log().count(words) > before
    token.write_text(f"{hers}\n{his}\n")
    for secret in (alice, bob):
        Session(server, token=secret).end()


def test_wrong_hellos_take_no_session_of_those_who_may_come_in(begin, token, app):
    """A flood of them for some seconds, of which none counts as one of the two sessions."""
    server = begin("--token-file", token, "--max-sessions", "2")
    hello = call(HELLO, u32(1) + opaque(b"test") + opaque(b"wrong") + opaque(b"flood") + opaque(b"here") + u32(1))
    stop, sent, known, began = threading.Event(), [], set(children_of(server.process.pid)), time.monotonic()

    def flood():
        connections = []
        while not stop.is_set():
            with contextlib.suppress(OSError):
                connections.append(socket.create_connection(("127.0.0.1", server.port), HANG))
                connections[-1].sendall(hello)
                sent.append(1)
            if len(connections) > 100:
                connections.pop(0).close()
        for connection in connections:
            connection.close()
    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(sent) > 300, 60, "the flood has begun")
        for _ in range(5):
            result = run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TOKEN="sesame"))
            assert result.status == 0, result.err
            more = set(children_of(server.process.pid)) - known
            assert len(more) <= 2, [*map(name_of, more)]    # the program's own worker, on its way out; a spare one that follows it
            known |= more
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert server.log().count("flood pid 1 refused") <= lines_of_a_kind(began)


def sessions(server, number, **more):
    return [Session(server, commands=False, **more) for _ in range(number)]


def ended(session, server):
    """Ends a session, and waits until its place is free: the server has waited for the process, which is no
    zombie any more."""
    before = server.workers()
    session.end()
    wait_until(lambda: not all(os.path.exists(f"/proc/{pid}") for pid in before), 5, "the session has ended")


def test_sessions_of_an_address_are_bounded(begin):
    server = begin("--sessions-per-address", "3")
    here = sessions(server, 3)
    status, message = refusal(server)
    assert status == BUSY and "address 127.0.0.1 has 3 sessions" in message
    assert "--sessions-per-address" in message and message in server.log()
    there = sessions(server, 3, source=OTHER)
    assert "address 127.0.0.2" in refusal(server, source=OTHER)[1]
    users = sessions(server, 3, transport="unix")
    assert re.match(r"user \d+ has 3 sessions", refusal(server, "unix")[1])
    ended(here.pop(), server)
    here += sessions(server, 1)
    for session in here + there + users:
        session.end()


def test_sessions_of_an_identity_are_bounded(begin, token):
    """All holders of the token are one, wherever they are."""
    server = begin("--sessions-per-identity", "3", "--token-file", token)
    holders = [*sessions(server, 2, token=b"sesame"), *sessions(server, 1, token=b"sesame", source=OTHER)]
    for source in ("", OTHER):
        status, message = refusal(server, token=b"sesame", source=source)
        assert status == BUSY and "the token's holder has 3 sessions" in message
        assert "--sessions-per-identity" in message and message in server.log()
    users = sessions(server, 3, transport="unix", token=b"sesame")
    ended(holders.pop(), server)
    holders += sessions(server, 1, token=b"sesame", source=OTHER)
    for session in holders + users:
        session.end()


def test_by_default_one_address_leaves_sessions_for_others(begin, app):
    server = begin("--max-sessions", "130")
    greedy = []
    with pytest.raises(Refused) as refused:
        while len(greedy) < 131:
            greedy += sessions(server, 1)
    assert len(greedy) == 65 and "--sessions-per-address" in refused.value.args[1]
    result = run([app("vector_add")], client_env(server.address("unix")))
    assert result.status == 0, result.err
    for session in greedy:
        session.end()


def test_a_session_without_a_command_connection_ends(begin):
    wait = PATIENCE     # long enough to open that connection
    server = begin("--command-wait", wait)
    other = Session(server)         # has one, and may be idle
    idle, = sessions(server, 1)
    assert idle.lane.recv(1) == b""
    wait_until(lambda: len(server.workers()) == 1, 5, "the idle session has ended")
    assert f"ended: no command connection in {wait} s (--command-wait)" in server.log()
    assert other.error() == 0
    other.end()
    idle.end()


def test_silent_connections_push_out_their_own(begin, app, tmp_path):
    """More of one address than it may have; one of another address that is older than all stays."""
    server = begin(program=with_few_files(tmp_path))
    older = socket.create_connection(("127.0.0.1", server.port), HANG, (OTHER, 0))
    silent = [socket.create_connection(("127.0.0.1", server.port), HANG) for _ in range(64)]     # a quarter of the descriptors
    try:
        # as soon as the first of them have had the time to speak
        wait_until(lambda: silent.append(socket.create_connection(("127.0.0.1", server.port), HANG)) or
                   re.search(r"address 127\.0\.0\.1 has \d+ silent connections: the oldest is closed", server.log()), 5, "they are too many")
        with contextlib.suppress(ConnectionResetError):
            assert silent[0].recv(1) == b""
        older.sendall(call(0, b""))
        assert older.recv(100)[-4:] == u32(0)
        result = run([app("vector_add")], client_env(server.address("tcp")))
        assert result.status == 0, result.err
    finally:
        for connection in (older, *silent):
            connection.close()
