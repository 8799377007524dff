"""tests/e2e/test_protocol.py - what a server makes of messages that no client of ours sends.

throw.c opens sessions and throws mutated messages: 100,000 over each transport, or as many as THROWN says. It holds
the server to what it has to do with each: go on with the session, or close it. Here: that it threw
them, that no process died of it, that the log tells of the closings, and that the server serves.
"""
import contextlib
import os
import re
import socket
import ssl
import struct

import pytest

from conftest import EXPECTED, HANG, KIND, OUT, TRANSPORTS, Server, clean_env, client_env, run, wait_until
from stranger import Session, received
from tls import PROBE, Authority

THROW = OUT / "throw"
MESSAGES = int(os.environ.get("THROWN", "60000" if KIND else "100000"))      # over each transport
CALL = struct.pack(">10I", 1, 0, 2, 99, 1, 1, 0, 0, 0, 0)      # of hello, without arguments


@pytest.fixture
def victim(tmp_path):
    """A server with little memory, so that running out of it is part of the test."""
    s = Server(tmp_path / "server", CRICKET_EMU="memory=64M")
    yield s
    s.end()


def still_serves(server, app, transport):
    """A program runs through the server, and then nothing is left of anybody."""
    result = run([app("vector_add")], client_env(server.address(transport)))
    assert result.out == (EXPECTED / "vector_add.txt").read_text(), result.err + server.log()
    server.wait_idle()


def deaths(log):
    """The lines that tell of workers killed by a signal or by a sanitizer."""
    return [line for line in log.splitlines()
            if "killed by signal" in line or "Sanitizer" in line or "runtime error" in line]


@pytest.mark.slow
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_mutated_messages(victim, app, transport):
    assert THROW.exists(), "not built: make -C tests throw"
    seed = 1 + 1_000_000 * TRANSPORTS.index(transport)
    result = run([THROW, victim.address(transport), MESSAGES, seed], clean_env(), 120)
    log = victim.log()
    assert result.status == 0, (result.out, result.err, deaths(log))
    tally = dict(re.findall(r"(\w+) (\d+)", result.out))
    thrown, closed, sessions, stalled = (int(tally[name]) for name in
                                         ("thrown", "closed", "sessions", "stalled"))
    assert thrown >= MESSAGES and closed > sessions // 2 and stalled <= sessions // 20, result.out
    assert not deaths(log), "\n".join(deaths(log)[:20])
    # The server's own count of what it carried out, and its word on what it closed.
    counts = re.findall(r"ended: .*; (\d+) calls, (\d+) commands", log)
    assert sum(int(a) + int(b) for a, b in counts) > thrown * 0.9
    assert log.count("the client broke the protocol") >= closed
    assert log.count("does not use RPC: closed") > 0
    victim.wait_idle()
    still_serves(victim, app, transport)


@pytest.mark.parametrize("record", [
    b"GET / HTTP/1.1\r\nHost: gpu\r\n\r\n",
    struct.pack(">I", 0x7fffffff) + bytes(4096),                # a fragment of 2 GB
    struct.pack(">I", 0xffffffff) + bytes(4096),
    struct.pack(">I", 0x80000000),                              # an empty record
    struct.pack(">I", 0x80000000 | 40) + CALL[:4] + b"\0\0\0\1" + bytes(32),     # a reply
    struct.pack(">2I", 0, 0x80000000 | 40) + CALL,              # an empty fragment that is not the last one
    struct.pack(">I", 4092) + bytes(4092) + struct.pack(">2I", 0x80000004, 0),      # more than is looked at
    struct.pack(">I", 0x80000000 | 40) + CALL[:24] + b"\xff" * 16,  # credentials of 4 GB
    struct.pack(">I", 0x80000000 | 40) + CALL,                  # a hello without arguments
    struct.pack(">I", 0x80000000 | 52) + CALL + struct.pack(">3I", 1, 0xfffffff0, 0),
], ids=["http", "huge fragment", "huge record", "empty", "reply", "empty fragment", "long fragments", "credentials",
        "no arguments", "huge string"])
def test_a_first_record_that_is_none_is_hung_up_on(victim, app, record):
    with socket.create_connection(("127.0.0.1", victim.port), timeout=HANG) as connection:
        connection.sendall(record)
        try:
            assert connection.recv(1) == b"", "it answers rubbish"
        except ConnectionResetError:
            pass
    assert not deaths(victim.log())
    still_serves(victim, app, "tcp")


def in_fragments(body, size):
    """BODY as a record in fragments of SIZE bytes."""
    parts = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(struct.pack(">I", len(p) | (0x80000000 if i == len(parts) - 1 else 0)) + p for i, p in enumerate(parts))


def null_call(rpc=2, program=99, version=1, number=0):
    return struct.pack(">10I", 7, 0, rpc, program, version, number, 0, 0, 0, 0)


def reply_to(connection):
    """The words of the next reply."""
    size, = struct.unpack(">I", received(connection, 4))
    body = received(connection, size & 0x7fffffff)
    return struct.unpack(f">{len(body) // 4}I", body)


FIRST_CALLS = {                       # and the words of its reply
    "null": (null_call(), (7, 1, 0, 0, 0, 0)),
    "RPC 3": (null_call(rpc=3), (7, 1, 1, 0, 2, 2)),
    "RPC 0": (null_call(rpc=0), (7, 1, 1, 0, 2, 2)),
    "short RPC 1": (null_call(rpc=1)[:12], (7, 1, 1, 0, 2, 2)),
    "program": (null_call(program=100003), (7, 1, 0, 0, 0, 1)),
    "version": (null_call(version=2), (7, 1, 0, 0, 0, 2, 1, 1)),
    "procedure": (null_call(number=77777), (7, 1, 0, 0, 0, 3)),
}


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_first_call_gets_its_reply_in_any_number_of_fragments(tmp_path, server, tls):
    """Also if they come one after the other; and the connection stays good for a further call."""
    if tls:
        cert, key = Authority(tmp_path).sign("server")
        server = Server(tmp_path / "tls", "--tls-cert", str(cert), "--tls-key", str(key))
    try:
        for name, (body, words) in FIRST_CALLS.items():
            for size in (len(body), 20, 4, 1):
                with socket.create_connection(("127.0.0.1", server.port), timeout=HANG) as connection:
                    if tls:
                        connection = in_tls(connection, size)
                    connection.sendall(in_fragments(body, size))
                    assert reply_to(connection) == words, (name, size)
                    for piece in in_fragments(null_call(), 30), in_fragments(null_call(), 40):
                        connection.sendall(piece[:34])
                        connection.sendall(piece[34:])
                        assert reply_to(connection) == (7, 1, 0, 0, 0, 0)
                    connection.close()
    finally:
        if tls:
            server.end()


def in_tls(connection, size):
    """The connection after a probe for TLS in fragments of SIZE bytes, and the handshake."""
    connection.sendall(in_fragments(PROBE[4:], size))
    assert b"STARTTLS" in connection.recv(100)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["sunrpc"])
    return context.wrap_socket(connection)


class Splitting(Session):
    """Sends all that it sends, from the hello on, in fragments."""

    def close(self):
        self.end()

    def connect(self):
        connection = super().connect()

        class Split:
            def __getattr__(self, name):
                return getattr(connection, name)

            def sendall(self, record):
                connection.sendall(in_fragments(record[4:], 16))
        return Split()


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_a_session_in_fragments(server, transport):
    with contextlib.closing(Splitting(server, transport)) as session:
        assert session.error() == 0
        session.lane.sendall(struct.pack(">I", 0x80000028) + null_call())
        assert reply_to(session.lane) == (7, 1, 0, 0, 0, 0)
        session.lane.sendall(struct.pack(">I", 0x80000028) + null_call(rpc=3))
        assert reply_to(session.lane) == (7, 1, 1, 0, 2, 2)
        session.lane.sendall(struct.pack(">I", 0x80000028) + null_call())
        assert reply_to(session.lane) == (7, 1, 0, 0, 0, 0)


def test_half_a_record_and_then_nothing_holds_no_place(victim, app):
    def descriptors():
        return len(os.listdir(f"/proc/{victim.process.pid}/fd"))

    still_serves(victim, app, "tcp")     # it may answer before it has opened all that it needs
    before = descriptors()
    for size in (1, 4, 20, 43):
        with socket.create_connection(("127.0.0.1", victim.port)) as connection:
            connection.sendall((struct.pack(">I", 0x80000000 | 40) + CALL)[:size])
    wait_until(lambda: descriptors() <= before, 2, "half a record's connection is closed")
    still_serves(victim, app, "tcp")
