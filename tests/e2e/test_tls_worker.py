"""tests/e2e/test_tls_worker.py - TLS that ends in the session's worker: only the first connection of a session is relayed, and only
at first. The others begin with the session's secret."""
import importlib.util
import os
import signal
import socket
import struct
import subprocess

import pytest

from breaker import Breaker
from conftest import EXPECTED, HANG, ROOT, Server, children_of, client_env, ended, name_of, run, wait_until
from test_move import move, receiver
from tls import Authority, Middle, trusting
from tls_servers import computes, front, pin_of, running, tls_options
from travel import (ctl, programs_that_end_with_the_test, result_without_a_checkpoint, servers_with_criu,  # noqa: F401
                    session_of)

IDENTITY = b"cricket1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def server(tmp_path, authority):
    own = Server(tmp_path / "own", *tls_options(authority.sign("server")))
    try:
        yield own
        own.stop()
    finally:
        own.kill()


@pytest.fixture
def trust(authority):
    return {"CRICKET_TLS_CA": str(authority.ca)}


def connections(server):
    """The clients' ends of established TCP connections to it."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f][1:]
    return {row[2] for row in rows if row[3] == "01" and int(row[1].partition(":")[2], 16) == server.port}


def relays_of(server):
    """As in test_tls.py, also while there is no front process."""
    return [relay for p in children_of(server.process.pid) if name_of(p) == "cricket-tls" for relay in children_of(p)]


def is_direct(server):
    """All connections of the only session end in its worker: there is no other process that they could end in."""
    return len(connections(server)) >= 3 and not relays_of(server)


def quits(client):
    client.send_signal(signal.SIGTERM)
    ended(client, 10)


# --- processes

@pytest.mark.parametrize("resume", ["60s", "0"])
def test_a_session_has_one_process(server, trust, app, resume):
    client = running(app, server.address("tcp"), CRICKET_RESUME=resume, **trust)
    wait_until(lambda: is_direct(server), 10, "the first connection is replaced")
    assert client.poll() is None and len(server.workers()) == 1
    quits(client)
    server.wait_idle(10)
    assert not relays_of(server)


@pytest.mark.parametrize("program", ["async_copies", "threads_order"])
def test_the_relayed_path_computes_the_same(server, trust, app, program):
    computes(run([app(program)], client_env(server.address("tcp"), CRICKET_DEBUG="relay", **trust)), program)


def test_without_the_secret_each_connection_has_a_relay(server, trust, app):
    client = running(app, server.address("tcp"), CRICKET_DEBUG="relay", **trust)
    wait_until(lambda: len(relays_of(server)) >= 3, 10, "they are relayed")
    quits(client)


def test_many_threads_open_connections_at_a_time(server, trust, app):
    result = run([app("threads_order")], client_env(server.address("tcp"), **trust))
    assert (result.status, result.out, result.err) == (0, (EXPECTED / "threads_order.txt").read_text(), "")


# --- a client of the protocol that knows nothing of it

def plain_example():
    """docs/examples/client.py as a module."""
    spec = importlib.util.spec_from_file_location("example", ROOT / "docs" / "examples" / "client.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example():
    """The same over TLS: its connections are relayed."""
    module = plain_example()

    class Encrypted(module.Connection):
        def __init__(self, host, port):
            super().__init__(host, port)
            self.socket = trusting().wrap_socket(self.socket)

        def call(self, number, args):
            reply = super().call(number, args)
            if number == module.HELLO:
                Encrypted.reply = reply.data
            return reply
    module.Connection = Encrypted
    return module


def test_a_client_of_an_earlier_release_is_relayed(server):
    session = example().Session("127.0.0.1", server.port)
    assert len(relays_of(server)) == 3
    for connection in (session.calls, session.commands, session.hello):
        connection.socket.close()


class Known:
    """A session whose id and secret the test knows."""

    def __init__(self, server):
        module = example()
        self.session = module.Session("127.0.0.1", server.port)
        self.id, self.secret = self.session.name[:16], module.Connection.reply[-52:-20]     # ck_hello_shadows and ck_hello_lanes follow
        assert self.secret != bytes(32)

    def close(self):
        for connection in (self.session.calls, self.session.commands, self.session.hello):
            connection.socket.close()


def shake(port, session, secret, number, *more):
    """What openssl says of a handshake for SESSION, a Known's id."""
    identity = f"{IDENTITY.decode()}{session.hex()}{number:016x}"
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_3", "-alpn", "sunrpc", "-psk", secret.hex(),
                           "-psk_identity", identity, *more],
                          input="", capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_only_the_sessions_secret_admits(server):
    one, two = Known(server), Known(server)
    assert one.secret != two.secret
    said = shake(server.port, one.id, one.secret, 1)
    exchanged = "Server Temp Key: " in said or "Negotiated TLS1.3 group: " in said      # OpenSSL 3.5 has the second line
    assert "Reused, TLSv1.3" in said and exchanged and "no peer certificate available" in said, said
    wrong = bytes([one.secret[0] ^ 1]) + one.secret[1:]
    for session, secret in ((one.id, wrong), (one.id, two.secret), (two.id, one.secret), (one.id, bytes(32))):
        said = shake(server.port, session, secret, 2)
        assert "Reused" not in said and "BEGIN CERTIFICATE" not in said and "alert" in said, said
    wait_until(lambda: server.log().count("TLS with the session's secret: ") == 4, 5, "the log tells")
    assert one.secret.hex() not in server.log()
    one.close()
    wait_until(lambda: len(server.workers()) == 1, 10, "a session has ended")
    said = shake(server.port, one.id, one.secret, 3)        # of no session: a certificate, as for everyone
    assert "New, TLSv1.3" in said and "BEGIN CERTIFICATE" in said, said
    assert "Reused, TLSv1.3" in shake(server.port, two.id, two.secret, 3)
    two.close()


def test_without_tls_at_first_there_is_no_secret(tmp_path, authority):
    plain = Server(tmp_path / "offered", *tls_options(authority.sign("offered"), "--tls", "offered"))
    try:
        session = plain_example().Session("127.0.0.1", plain.port)
        said = shake(plain.port, session.name[:16], bytes(32), 1)
        assert "Reused" not in said and "BEGIN CERTIFICATE" not in said, said
        assert "the session's first connection does not use TLS" in plain.log()
        plain.stop()
    finally:
        plain.kill()


def test_a_connection_with_the_secret_that_says_nothing_is_closed(server):
    """A few at a time, and the program opens others."""
    known = Known(server)
    identity = f"{IDENTITY.decode()}{known.id.hex()}"
    idle = [subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_3", "-alpn", "sunrpc", "-quiet",
                              "-psk", known.secret.hex(), "-psk_identity", f"{identity}{n:016x}"],
                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for n in range(1, 5)]
    for p in idle:
        assert p.wait(60) is not None       # the worker has closed it
        p.stdin.close()
    known.close()


# --- what others have recorded

class Recorder:
    """Hears the ClientHellos that name a session."""

    def __init__(self):
        self.hellos = []

    def __call__(self, data, up, before):
        if up and data[:1] == b"\x16" and IDENTITY in data:
            length, = struct.unpack(">H", data[3:5])
            self.hellos.append(bytes(data[:5 + length]))
        return data


def test_a_recorded_hello_gets_no_answer(server, trust, app):
    heard = Recorder()
    middle = Middle(server.port, heard)
    client = running(app, middle.address, **trust)
    wait_until(lambda: is_direct(server), 10, "the first connection is replaced")
    with middle.lock:
        assert middle.seen and heard.hellos
    for hello in heard.hellos:
        with socket.create_connection(("127.0.0.1", server.port), HANG) as s:
            s.sendall(hello)
            said = b""
            while piece := s.recv(100):
                said += piece
            assert said[:1] == b"\x15", said        # an alert
    assert is_direct(server) and client.poll() is None
    quits(client)
    middle.stop()


# --- cuts and changes

def cut(proxy, server):
    """All connections. Returns when others are there."""
    before = connections(server)
    proxy.do(lambda: proxy.drop_all("rst"))
    wait_until(lambda: not before & connections(server) and is_direct(server), 20, "there are others")


def test_after_a_cut_no_connection_is_relayed(server, trust, app):
    proxy = Breaker(server.port)
    client = running(app, proxy.address, **trust)
    wait_until(lambda: is_direct(server), 10, "the first connection is replaced")
    worker, = server.workers()
    for _ in range(3):
        cut(proxy, server)
    assert server.workers() == [worker] and client.poll() is None and server.log().count("session of") == 1
    quits(client)
    proxy.stop()


def test_a_new_key_of_the_server_does_not_end_sessions(tmp_path, authority, app):
    """Its worker shows that it has the secret; programs that begin later need the new key."""
    cert, key = authority.sign("before")
    server = Server(tmp_path / "renewed", *tls_options((cert, key)))
    try:
        proxy = Breaker(server.port)
        client = running(app, proxy.address, CRICKET_TLS_PIN=pin_of(server))
        wait_until(lambda: is_direct(server), 10, "the first connection is replaced")
        for path, new in zip((cert, key), authority.sign("after")):
            path.write_bytes(new.read_bytes())
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "are read again" in server.log(), 5, "the server has another key")
        cut(proxy, server)
        assert client.poll() is None
        quits(client)
        proxy.stop()
        server.stop()
    finally:
        server.kill()


def test_an_upgrade_changes_nothing(server, trust, app):
    proxy = Breaker(server.port)
    client = running(app, proxy.address, **trust)
    wait_until(lambda: is_direct(server), 10, "the first connection is replaced")
    worker, = server.workers()
    server.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: "continuing with 1 running programs" in server.log(), 20, "the upgrade is over")
    cut(proxy, server)
    old = front(server)
    os.kill(old, signal.SIGKILL)        # not needed any more
    wait_until(lambda: "the TLS process has ended" in server.log(), 10, "it has gone")
    cut(proxy, server)
    assert server.workers() == [worker] and client.poll() is None
    quits(client)
    proxy.stop()


# --- sessions that leave: the secret is in the worker's memory, as the session's key is

def travels(servers, name, authority):
    return servers(name, *tls_options(authority.sign(name)))


def test_a_session_moves_with_its_secret(servers, start_program, expected, authority, trust, tmp_path):
    first, second = travels(servers, "first", authority), travels(servers, "second", authority)
    program = start_program(first.address("tcp"), **trust)
    for here, there in ((first, second), (second, first)):
        program.go_on()
        wait_until(lambda s=here: is_direct(s), 10, "the first connection is replaced")
        done = move(here, there.address("tcp"), receiver(there, tmp_path))
        assert done.returncode == 0, done.stderr + here.log() + there.log()
        program.go_on()
        wait_until(lambda s=there: is_direct(s), 10, "so it is there")
        assert not relays_of(here)
    assert program.end() == 0 and program.result == expected, program.errors


def test_a_session_from_files_has_its_secret(servers, start_program, expected, authority, trust, tmp_path):
    server = travels(servers, "server", authority)
    program = start_program(server.address("tcp"), **trust)
    program.go_on()
    wait_until(lambda: is_direct(server), 10, "the first connection is replaced")
    done = ctl(server, "checkpoint", session_of(server), tmp_path / "files")
    assert done.returncode == 0, done.stderr + server.log()
    wait_until(lambda: not server.workers(), 10, "it has gone")
    done = ctl(server, "restore", tmp_path / "files")
    assert done.returncode == 0, done.stderr + server.log()
    program.go_on()
    wait_until(lambda: is_direct(server), 10, "all its connections end in the worker again")
    assert program.end() == 0 and program.result == expected, program.errors


def test_a_suspended_session_takes_connections(server, trust, app):
    proxy = Breaker(server.port)
    client = running(app, proxy.address, **trust)
    wait_until(lambda: is_direct(server), 10, "the first connection is replaced")
    done = ctl(server, "suspend", session_of(server))
    assert done.returncode == 0, done.stderr
    cut(proxy, server)
    done = ctl(server, "resume", session_of(server))
    assert done.returncode == 0 and client.poll() is None, done.stderr
    quits(client)
    proxy.stop()
