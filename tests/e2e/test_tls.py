"""tests/e2e/test_tls.py - TLS between client and server: trust, refusals, and sessions that continue when a
connection is cut or changed."""
import collections
import contextlib
import json
import multiprocessing
import os
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from breaker import Breaker
from conftest import (EXPECTED, HANG, PRODUCTS, SERVER, SLOW, Server, children_of, clean_env, client_env, ended, is_alive, name_of, run,
                      start, wait_until)
from test_control import Asker
from test_exporter import exporter
from test_protocol import null_call
from test_refusals import new_token
from tls import PROBE, Authority, Middle, first_message, hello_to, trusting

TOKEN = "a token that nobody may read"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def files(authority):
    return authority.sign("server")


def tls_options(files, *more):
    return ("--tls-cert", files[0], "--tls-key", files[1], *more)


@contextlib.contextmanager
def serving(folder, files, *more, **env):
    server = Server(folder, *tls_options(files, *more), **env)
    try:
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture(scope="module")
def secure(tmp_path_factory, files):
    """A server with TLS that all tests share which leave it as it was."""
    with serving(tmp_path_factory.mktemp("secure"), files) as server:
        yield server


def pin_of(server):
    wait_until(lambda: "pin is sha256:" in server.log(), 5, "the pin is in the log")
    return server.log().rpartition("pin is ")[2].split()[0]


def front(server):
    """Its process, which has its name a moment after it has been started."""
    def found():
        return [p for p in children_of(server.process.pid) if name_of(p) == "cricket-tls"]
    wait_until(found, 10, "the process that makes handshakes")
    return found()[0]


def relays(server):
    return children_of(front(server))


def computes(result, program="vector_add"):
    assert (result.status, result.out, result.err) == (0, (EXPECTED / f"{program}.txt").read_text(), "")


def refused(result, words):
    assert result.status != 0 and len(result.lines_about(words)) == 1, result.err


# --- whom a client trusts

@pytest.mark.quick
def test_a_pin_or_an_authority_is_enough(secure, authority, app):
    for trust in ({"CRICKET_TLS_PIN": pin_of(secure)}, {"CRICKET_TLS_CA": str(authority.ca)}):
        computes(run([app("vector_add")], client_env(secure.address("tcp"), **trust)))


@pytest.mark.parametrize("program", ["async_copies", "threads_order", "staged_copies", "host_functions"])
@pytest.mark.parametrize("resume", ["0", "60s"])
def test_programs_compute_the_same(secure, authority, app, program, resume):
    env = client_env(secure.address("tcp"), CRICKET_TLS_CA=str(authority.ca), CRICKET_RESUME=resume)
    computes(run([app(program)], env, 120), program)


def test_who_reads_along_reads_nothing(tmp_path, files, authority, app):
    (tmp_path / "token").write_text(TOKEN + "\n")
    with serving(tmp_path / "server", files, "--token-file", tmp_path / "token") as server:
        middle = Middle(server.port)
        for tls in ("require", "off"):
            env = client_env(middle.address, CRICKET_TLS=tls, CRICKET_TLS_CA=str(authority.ca), CRICKET_TOKEN=TOKEN)
            result = run([app("vector_add")], env)
            with middle.lock:
                found = TOKEN.encode() in middle.seen or b"vector_add" in middle.seen
            if tls == "require":
                computes(result)
                assert not found
            else:       # the test would see it
                refused(result, "admits only clients that use TLS")
                assert found
        middle.stop()


@pytest.mark.parametrize("trust, words", [
    ({"CRICKET_TLS_PIN": "sha256:" + 64 * "0"}, "is not that of the given pin (CRICKET_TLS_PIN, tls-pin): its pin is sha256:"),
    ({"CRICKET_TLS_PIN": "sha256:12"}, "not a pin"),
    ({"CRICKET_TLS": "require"}, "no authority that this client trusts"),
    ({"CRICKET_TLS": "yes"}, "not require, offer or off"),
    ({"CRICKET_TLS_CA": "/nowhere"}, "authorities /nowhere: No such file"),
    ({"CRICKET_TLS": "off"}, "admits only clients that use TLS"),
    ({}, "admits only clients that use TLS"),
])
def test_a_client_that_does_not_trust_says_why(secure, app, trust, words):
    refused(run([app("vector_add")], client_env(secure.address("tcp"), **trust)), words)


def test_an_authority_of_others_is_not_trusted(tmp_path, secure, app):
    other = Authority(tmp_path / "other")
    refused(run([app("vector_add")], client_env(secure.address("tcp"), CRICKET_TLS_CA=str(other.ca))),
            "no authority that this client trusts")


@pytest.mark.parametrize("how, words", [
    ({"names": "DNS:elsewhere,IP:10.9.8.7"}, 'is not for the name "127.0.0.1"'),
    ({"days": 0}, "has expired"),
    ({"use": "clientAuth"}, "no authority that this client trusts"),
])
def test_a_certificate_for_something_else_is_not_accepted(tmp_path, authority, app, how, words):
    with serving(tmp_path / "server", authority.sign("wrong", **how)) as server:
        result = run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_CA=str(authority.ca)))
        refused(result, words)
        assert "session of" not in server.log()


@pytest.mark.parametrize("trust", [{"CRICKET_TLS": "require"}, {"CRICKET_TLS_PIN": "sha256:" + 64 * "0"}])
def test_a_server_without_tls_is_refused_where_it_is_required(server, app, trust):
    refused(run([app("vector_add")], client_env(server.address("tcp"), **trust)), "the server has no TLS")


def test_offered_means_if_the_server_has_it(server, secure, authority, app):
    for s in (server, secure):
        env = client_env(s.address("tcp"), CRICKET_TLS="offer", CRICKET_TLS_CA=str(authority.ca))
        computes(run([app("vector_add")], env))


def test_the_handshake_begins_before_the_answer_to_the_probe(app):
    """Where plain text is refused anyway, probe and ClientHello take one round trip."""
    listener, came = socket.create_server(("127.0.0.1", 0)), []

    def answer_late():
        """As a server without TLS that answers only when something follows the probe."""
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(HANG)
            came.append(connection.recv(len(PROBE), socket.MSG_WAITALL))
            came.append(connection.recv(1))
            connection.sendall(struct.pack(">I", 0x80000000 | 24) + came[0][4:8] + struct.pack(">5I", 1, 0, 0, 0, 0))
            connection.recv(4096)
    threading.Thread(target=answer_late, daemon=True).start()
    result = run([app("vector_add")], client_env(f"127.0.0.1:{listener.getsockname()[1]}", CRICKET_TLS="require"))
    listener.close()
    refused(result, "the server has no TLS")
    assert len(came[0]) == len(PROBE) and came[1] == b"\x16"


def test_sockets_of_this_host_need_none(secure, app):
    for transport in ("unix", "shm"):
        computes(run([app("vector_add")], client_env(secure.address(transport), CRICKET_TLS="require")))


def test_the_programs_own_openssl_is_another(secure):
    """Both in one process, before and after each other."""
    program = ("import ctypes, ssl\n"
               "ssl.create_default_context()\n"
               "d = ctypes.CDLL(None)\n"
               "n = ctypes.c_int()\n"
               "print(d.cuInit(0), d.cuDeviceGetCount(ctypes.byref(n)), n.value)\n"
               "a, b = ssl.MemoryBIO(), ssl.MemoryBIO()\n"
               "c = ssl.create_default_context().wrap_bio(a, b, server_hostname='x')\n"
               "try: c.do_handshake()\n"
               "except ssl.SSLWantReadError: print(b.pending > 100)\n")
    env = client_env(secure.address("tcp"), CRICKET_TLS_PIN=pin_of(secure))
    result = run(["/usr/bin/python3", "-c", program], env)
    assert (result.status, result.out, result.err) == (0, "0 0 1\nTrue\n", "")


# --- the server

def test_other_users_may_not_read_the_key(tmp_path, files):
    key = tmp_path / "key"
    key.write_bytes(files[1].read_bytes())
    for mode, wanted in ((0o644, "other users can read this private key"), (0o600, None)):
        key.chmod(mode)
        if wanted:
            starts_not(tmp_path, (files[0], key), wanted)
    with serving(tmp_path / "server", (files[0], key)):
        pass


def starts_not(folder, files, words, *more):
    result = subprocess.run([SERVER, "--driver", "emu", "--listen", "127.0.0.1:0", "--unix", folder / "u",
                             *tls_options(files, *more)], env=clean_env(), capture_output=True, text=True, timeout=60)
    assert result.returncode in (1, 2) and words in result.stderr, result.stderr


def test_files_that_are_wrong_end_the_start(tmp_path, authority, files):
    other = authority.sign("other")
    starts_not(tmp_path, (tmp_path / "none", files[1]), "No such file")
    starts_not(tmp_path, (files[0], other[1]), "key values mismatch")
    starts_not(tmp_path, files, "No such file", "--tls-ca", tmp_path / "none")
    for words in (["--tls-cert", "x"], ["--tls-key", "x"], ["--tls-ca", "x"], ["--tls", "perhaps"]):
        assert subprocess.run([SERVER, *words], env=clean_env(), capture_output=True, timeout=60).returncode == 2


def test_sighup_reads_certificate_and_key_again(tmp_path, authority, app):
    cert, key = authority.sign("first")
    with serving(tmp_path / "server", (cert, key)) as server:
        first = pin_of(server)
        client = start([app("endless"), "sync"], client_env(server.address("tcp"), CRICKET_TLS_PIN=first))
        assert client.stdout.readline() == "running\n", client.stderr.read()
        new = authority.sign("second")
        cert.write_bytes(new[0].read_bytes())
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the earlier ones stay in use" in server.log(), 5, "half of a change is refused")
        key.write_bytes(new[1].read_bytes())
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "are read again; the key's pin is" in server.log(), 5, "the new files are used")
        second = pin_of(server)
        assert first != second
        computes(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_PIN=second)))
        refused(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_PIN=first)), "CRICKET_TLS_PIN")
        server.has_workers(1)
        assert client.poll() is None
        client.kill()
        client.communicate()


def test_the_address_in_log_and_limits_is_the_clients(tmp_path, files, authority, app):
    with serving(tmp_path / "server", files, "--sessions-per-address", "1") as server:
        env = client_env(server.address("tcp"), CRICKET_TLS_CA=str(authority.ca))
        client = start([app("endless"), "sync"], env)
        assert client.stdout.readline() == "running\n", client.stderr.read()
        refused(run([app("vector_add")], env), "address 127.0.0.1 has 1 session,")
        assert "(tcp 127.0.0.1:" in server.log() and "for address 127.0.0.1" in server.log()
        client.kill()
        client.communicate()


def test_a_peer_that_stops_in_the_handshake_leaves_nothing(own_tls):
    server = own_tls
    for words in (PROBE, PROBE[:20], b"\x16\x03\x01\x02\x00\x01", PROBE + b"\x16\x03\x01"):
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(words)
            if words.startswith(PROBE):
                assert b"STARTTLS" in s.recv(100)
        wait_until(lambda: not relays(server), 5, "its process has gone")


def test_garbage_in_place_of_a_handshake_is_closed(own_tls):
    server = own_tls
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(PROBE)
        assert b"STARTTLS" in s.recv(100)
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert closed(s)
    for words in (b"\x16\x01", b"\x16\x03\x01\x00\x00", b"\x16\x03\x01\x40\x01", b"\x16\x03\x01\x00\x04\x02", PROBE + PROBE):
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(words)
            assert closed(s)
    assert "TLS: refused" not in server.log()
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(b"\x16\x03\x01\x00\x05\x01abcd")
        assert closed(s)        # after an alert
    wait_until(lambda: "TLS: refused: tcp 127.0.0.1" in server.log(), 5, "the log tells")


def closed(s):
    """Reads what comes until the peer has closed the connection."""
    with contextlib.suppress(ConnectionResetError):
        while s.recv(100):
            pass
    return True


def is_open(s):
    s.setblocking(False)
    try:
        while s.recv(4096):     # of the handshake
            pass
        return False
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_a_handshake_has_no_process_before_the_client_says_something(own_tls, authority, app):
    server = own_tls
    half, hello = socket.create_connection(("127.0.0.1", server.port)), hello_to(server.port)
    half.sendall(b"\x16\x03\x01\x02\x00\x01")
    whole = [trusting().wrap_socket(socket.create_connection(("127.0.0.1", server.port))) for _ in range(40)]
    computes(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_CA=str(authority.ca))))
    wait_until(lambda: not relays(server), 5, "there is none")
    for s in whole:
        s.sendall(b"\x80")      # the beginning of a record
    wait_until(lambda: "has too many TLS connections without a whole first record" in server.log(), 10, server.log())
    wait_until(lambda: len(relays(server)) == 32, 10, "some have been closed")
    computes(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_CA=str(authority.ca))))
    for s in (half, hello, *whole):
        s.close()
    wait_until(lambda: not relays(server), 10, "nothing is left")


def test_unfinished_handshakes_push_out_their_own(own_tls, authority, app):
    server, env = own_tls, client_env(own_tls.address("tcp"), CRICKET_TLS_CA=str(authority.ca))
    hellos = [hello_to(server.port) for _ in range(550)]
    wait_until(lambda: not is_open(hellos[0]), 10, "the oldest is closed")
    assert is_open(hellos[-1])      # for 10 s
    wait_until(lambda: "address 127.0.0.1 has too many unfinished TLS handshakes" in server.log(), 5, "the log tells")
    computes(run([app("vector_add")], env))
    wait_until(lambda: not relays(server), 10, "only vector_add had some")
    hellos.append(hello_to(server.port))
    server.process.send_signal(signal.SIGHUP)       # they go on with the old certificate
    wait_until(lambda: "are read again" in server.log(), 5, "the files are read")
    assert is_open(hellos[-1])
    computes(run([app("vector_add")], env))
    for s in hellos:
        s.close()
    computes(run([app("vector_add")], env))


class Slow:
    """A client that has its last word of a handshake ready, and has not sent it."""

    def __init__(self, port):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = trusting().wrap_bio(self.incoming, self.outgoing)
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        while not self.has_shaken():
            self.socket.sendall(self.outgoing.read())
            self.incoming.write(self.socket.recv(4096))

    def has_shaken(self):
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def answer(self):
        """What the server says to a call of procedure 0."""
        self.tls.write(PROBE[:4] + null_call())
        self.socket.sendall(self.outgoing.read())
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                return self.tls.read(100)
            if not (data := self.socket.recv(4096)):
                return b""
            self.incoming.write(data)


def test_a_client_that_answers_is_closed_after_those_that_do_not(own_tls):
    hellos = [hello_to(own_tls.port) for _ in range(100)]
    slow = Slow(own_tls.port)
    hellos += [hello_to(own_tls.port) for _ in range(550)]
    wait_until(lambda: not is_open(hellos[120]), 60, "a younger one is closed")
    assert slow.answer()[4:8] == null_call()[:4]
    for s in (slow.socket, *hellos):
        s.close()


def flood(port, stop):
    """The beginnings of handshakes from one address, with the probe, 1,000 each second or fewer."""
    mine, due, words = collections.deque(), time.monotonic(), PROBE + first_message()
    while not stop.is_set():
        due = max(due + 0.001, time.monotonic() - 0.1)
        time.sleep(max(0, due - time.monotonic()))
        with contextlib.suppress(OSError):
            mine.append(socket.create_connection(("127.0.0.1", port), 2))
            mine[-1].sendall(words)
        if len(mine) > 600:
            mine.popleft().close()


def test_programs_start_beside_a_flood_of_their_own_address(own_tls, authority, app):
    stop = multiprocessing.Event()
    attacker = multiprocessing.Process(target=flood, args=(own_tls.port, stop))
    attacker.start()
    try:
        wait_until(lambda: "has too many unfinished TLS handshakes" in own_tls.log(), 120, "the flood has begun")
        for _ in range(8):
            computes(run([app("vector_add")], client_env(own_tls.address("tcp"), CRICKET_TLS_CA=str(authority.ca))))
    finally:
        stop.set()
        attacker.join()


def test_a_server_that_closes_an_unfinished_handshake_is_tried_again(own_tls, authority, app):
    """Nothing has been asked of it yet."""
    class Closer(Middle):
        closed = 0

        def pass_on(self, s, other, to_server):
            if self.closed < 4:     # two connections, two directions
                self.closed += 1
                other.close()
                s.close()
            else:
                super().pass_on(s, other, to_server)

    middle = Closer(own_tls.port)
    computes(run([app("vector_add")], client_env(middle.address, CRICKET_TLS_CA=str(authority.ca))))
    assert middle.closed == 4
    middle.stop()


def test_a_server_that_closes_before_it_has_finished_a_handshake_is_tried_again(own_tls, authority, app):
    """The client has finished it, and has said hello."""
    class Closer(Middle):
        closed = 0
        answered = collections.Counter()

        def pass_on(self, s, other, to_server):
            pair = frozenset((s, other))
            with contextlib.suppress(OSError):
                while data := s.recv(1 << 16):
                    if not to_server:
                        self.answered[pair] += len(data)
                    elif self.answered[pair] > 500 and self.closed < 3:     # the certificate
                        self.closed += 1
                        break
                    other.sendall(data)
            for end in (s, other):
                end.close()

    middle = Closer(own_tls.port)
    computes(run([app("vector_add")], client_env(middle.address, CRICKET_TLS_CA=str(authority.ca))))
    assert middle.closed == 3
    middle.stop()


@pytest.fixture
def own_tls(tmp_path, files):
    with serving(tmp_path / "own", files) as server:
        yield server


# --- cuts and changes

class LateBreaker(Breaker):
    """Leaves the handshakes alone: before them there is no session."""
    early = 40000

    def pass_on(self, near):
        if self.early > 0:
            cuts, self.cuts = self.cuts, 0
            left = self.left
            try:
                return super().pass_on(near)
            finally:
                self.early -= max(left - self.left, 0)
                self.cuts, self.left = cuts, left
        return super().pass_on(near)


@pytest.mark.threads
@pytest.mark.parametrize("program", ["resume", "async_copies"])
def test_a_program_that_is_cut_off_again_and_again_computes_the_same(secure, authority, app, program):
    proxy = LateBreaker(secure.port, 12, 30000, seed=3, least=2000)
    env = client_env(proxy.address, CRICKET_TLS_CA=str(authority.ca))
    result = run([app(program)], env, 120)
    proxy.stop()
    assert (result.status, result.out) == (0, (EXPECTED / f"{program}.txt").read_text()), result.err
    assert proxy.done > 2 and "is lost" not in result.err


def running(app, address, **env):
    client = start([app("endless"), "sync"], client_env(address, **env))
    assert client.stdout.readline() == "running\n", client.stderr.read()
    return client


def test_processes_that_relay_may_die(own_tls, authority, app):
    server = own_tls
    client = running(app, server.address("tcp"), CRICKET_TLS_CA=str(authority.ca), CRICKET_DEBUG="relay")
    worker, = server.workers()
    old = relays(server)
    assert old
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: relays(server) and not set(relays(server)) & set(old), 10, "the client is back")
    before = front(server)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: "the TLS process has ended" in server.log(), 5, "the log tells")
    computes(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_CA=str(authority.ca))))
    assert front(server) != before and is_alive(worker) and client.poll() is None
    client.kill()
    client.communicate()


def test_a_front_process_that_cannot_begin_again_says_why(tmp_path, authority, app):
    cert, key = authority.sign("lost")
    with serving(tmp_path / "server", (cert, key)) as server:
        pin = pin_of(server)
        key.rename(tmp_path / "elsewhere")
        os.kill(front(server), signal.SIGKILL)
        wait_until(lambda: "the TLS process has ended" in server.log(), 5, "the log tells")
        env = client_env(server.address("tcp"), CRICKET_TLS_PIN=pin)
        assert run([app("vector_add")], env).status != 0
        wait_until(lambda: "lost.key: No such file" in server.log(), 5, "and why there is no other")
        (tmp_path / "elsewhere").rename(key)
        wait_until(lambda: run([app("vector_add")], env).status == 0, 20, "it tries again")


def test_an_upgrade_keeps_sessions_with_tls(own_tls, authority, app):
    server = own_tls
    client = running(app, server.address("tcp"), CRICKET_TLS_CA=str(authority.ca))
    worker, = server.workers()
    server.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: "continuing with 1 running programs" in server.log(), 20, "the upgrade is over")
    computes(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_CA=str(authority.ca))))
    assert is_alive(worker) and client.poll() is None and "is cut" not in server.log()
    client.kill()
    client.communicate()


@pytest.mark.parametrize("to_server", [True, False])
def test_a_byte_that_is_changed_ends_the_connection(own_tls, authority, app, to_server):
    """With CRICKET_RESUME=0 that is the end of the session; the program gets errors, and no wrong result."""
    server, done = own_tls, []

    def change(data, up, before):
        # not in the handshake of a later connection, without which the session goes on
        if up != to_server or done or before < 30000 or len(data) < 4096:
            return data
        done.append(1)
        return data[:-1] + bytes([data[-1] ^ 1])
    middle = Middle(server.port, change)
    env = client_env(middle.address, CRICKET_TLS_CA=str(authority.ca), CRICKET_RESUME="0")
    result = run([app("async_copies")], env)
    middle.stop()
    assert done and result.status != 0 and result.lines_about("lost" if to_server else "changed in transit"), result.err
    server.wait_idle()


def test_a_server_with_another_key_does_not_get_the_session(tmp_path, authority, app):
    """The connection is cut, and another key answers: one line, and the session is lost after its time."""
    with serving(tmp_path / "server", authority.sign("before")) as server, \
            serving(tmp_path / "impostor", authority.sign("after")) as impostor:
        proxy = Breaker(server.port)
        client = running(app, proxy.address, CRICKET_TLS_PIN=pin_of(server), CRICKET_RESUME="3s")
        proxy.do(lambda: (setattr(proxy, "to", ("127.0.0.1", impostor.port)), proxy.drop_all("rst")))
        result = ended(client, 20)
        proxy.stop()
        assert result.status != 0 and len(result.lines_about("is not that of the given pin")) == 1, result.err
        assert len(result.lines_about("is lost")) == 1


def once(done, bend):
    """Changes one piece towards the server, in the middle of the session, and notes that in DONE."""
    def change(data, up, before):
        if not up or done or before < 30000:
            return data
        done.append(1)
        return bend(data)
    return change


def test_a_record_that_comes_twice_ends_the_connection(own_tls, authority, app):
    server, done = own_tls, []
    middle = Middle(server.port, once(done, lambda data: data + data))
    env = client_env(middle.address, CRICKET_TLS_CA=str(authority.ca), CRICKET_RESUME="0")
    result = run([app("async_copies")], env)
    middle.stop()
    assert done and result.status != 0 and result.lines_about("lost"), result.err
    server.wait_idle()


def test_what_is_changed_is_sent_again_where_sessions_outlive_connections(own_tls, authority, app):
    server, done = own_tls, []
    middle = Middle(server.port, once(done, lambda data: data[:-1] + bytes([data[-1] ^ 1])))
    result = run([app("async_copies")], client_env(middle.address, CRICKET_TLS_CA=str(authority.ca)))
    middle.stop()
    assert done and (result.status, result.out) == (0, (EXPECTED / "async_copies.txt").read_text()), result.err


def test_a_killed_client_ends_its_session_soon(own_tls, authority, app):
    server = own_tls
    client = running(app, server.address("tcp"), CRICKET_TLS_CA=str(authority.ca), CRICKET_RESUME="1h")
    client.kill()
    ended(client, 5)
    server.wait_idle(10)
    wait_until(lambda: not relays(server), 5, "the relays have gone")


# --- certificates of clients

def owner(authority, name, **more):
    cert, key = authority.sign(name, names=None, use="clientAuth", **more)
    return {"CRICKET_TLS_CA": str(authority.ca), "CRICKET_TLS_CERT": str(cert), "CRICKET_TLS_KEY": str(key)}


def test_a_certificate_is_an_identity(tmp_path, files, authority, app):
    """Without a token there is no other way in over TCP; each name has limits of its own."""
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--sessions-per-identity", "1") as server:
        alice, bob = owner(authority, "alice"), owner(authority, "bob@lab.example")
        client = running(app, server.address("tcp"), **alice)
        assert "for certificate alice" in server.log()
        computes(run([app("vector_add")], client_env(server.address("tcp"), **bob)))
        assert "for certificate bob@lab.example" in server.log()
        refused(run([app("vector_add")], client_env(server.address("tcp"), **alice)), "certificate alice has 1 session,")
        refused(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_CA=str(authority.ca))),
                "admits only clients with a certificate")
        computes(run([app("vector_add")], client_env(server.address("unix"))))
        client.kill()
        client.communicate()


def test_token_or_certificate(tmp_path, files, authority, app):
    (tmp_path / "token").write_text(TOKEN + "\n")
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--token-file", tmp_path / "token") as server:
        nobody = {"CRICKET_TLS_CA": str(authority.ca)}
        for admitted in (owner(authority, "carol"), dict(nobody, CRICKET_TOKEN=TOKEN)):
            computes(run([app("vector_add")], client_env(server.address("tcp"), **admitted)))
        refused(run([app("vector_add")], client_env(server.address("tcp"), **nobody)), "or with a certificate")
        assert "for certificate carol" in server.log() and "for the token's holder" in server.log()


def test_a_certificate_is_not_the_token_of_its_name(tmp_path, files, authority, app):
    """Neither in lists, metrics and the audit log nor for the holder of the token at the exporter."""
    secret, line = new_token("alice")
    (tmp_path / "tokens").write_text(line + "\n")
    audit = tmp_path / "audit"
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--token-file", tmp_path / "tokens", "--audit", audit) as server:
        ways = (owner(authority, "alice"), {"CRICKET_TLS_CA": str(authority.ca), "CRICKET_TOKEN": secret.decode()})
        programs = [running(app, server.address("tcp"), **way) for way in ways]
        begun = [json.loads(line) for line in audit.read_text().splitlines() if '"session-begin"' in line]
        assert [x["identity"] for x in begun] == ["certificate alice", "alice"]
        assert sorted(x["identity"] for x in Asker(server).ask("sessions")["sessions"]) == ["alice", "certificate alice"]
        with exporter(clean_env(HOME=str(tmp_path)), server.address("unix"), "-i", "-t", tmp_path / "tokens") as e:
            seen = json.loads(e.get("/status.json", Authorization=f"Bearer {secret.decode()}")[2])
            assert [(x["identity"], x["client_pid"]) for x in seen["sessions"]] == [("alice", programs[1].pid)]
        for program in programs:
            program.kill()
            program.communicate()


@pytest.mark.parametrize("how, words", [
    ({"days": 0}, "certificate has expired"),
    ({"subject": "/CN=a b"}, "no name that can be an identity"),
    ({"subject": "/O=lab"}, "no name that can be an identity"),
])
def test_a_clients_certificate_that_is_not_accepted(tmp_path, files, authority, app, how, words):
    audit = tmp_path / "audit"
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--audit", audit) as server:
        env = client_env(server.address("tcp"), CRICKET_RESUME="0", **owner(authority, "dave", **how))
        refused(run([app("vector_add")], env), "does not accept this end's certificate")
        assert_recorded(audit, words)
        wait_until(lambda: words in server.log(), 5, "the log tells")
        assert "session of" not in server.log()
        asker = Asker(server)       # the client has tried several times, and the last one may be on its way
        wait_until(lambda: asker.ask("status")["totals"]["refused"]["certificate"] == len(refusals(audit)), 5, "all are recorded and counted")


def refusals(audit):
    return [event for event in map(json.loads, audit.read_text().splitlines()) if event["event"] == "refused"]


def assert_recorded(audit, words):
    wait_until(lambda: refusals(audit), 5, "the audit log has the refusal")
    for event in refusals(audit):
        assert (event["reason"], event["address"], event["identity"]) == ("certificate", "127.0.0.1", None)
        assert words in event["why"]


def test_a_clients_certificate_of_another_authority(tmp_path, files, authority, app):
    other = owner(Authority(tmp_path / "other"), "alice")
    other["CRICKET_TLS_CA"] = str(authority.ca)
    audit = tmp_path / "audit"
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--audit", audit) as server:
        assert run([app("vector_add")], client_env(server.address("tcp"), **other)).status != 0
        assert_recorded(audit, "the client's certificate: ")
        assert "session of" not in server.log()


def test_a_client_that_does_not_accept_the_server_is_not_refused(tmp_path, files, authority, app):
    """It has ended the handshake itself."""
    stranger, audit = Authority(tmp_path / "stranger"), tmp_path / "audit"
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--audit", audit) as server:
        env = client_env(server.address("tcp"), **{**owner(authority, "alice"), "CRICKET_TLS_CA": str(stranger.ca)})
        assert run([app("vector_add")], env).status != 0
        wait_until(lambda: "TLS: refused" in server.log(), 5, "the handshake has ended")
        computes(run([app("vector_add")], client_env(server.address("tcp"), **owner(authority, "alice"))))
        assert not refusals(audit)


def test_a_server_that_other_hosts_reach_needs_more_than_encryption(tmp_path, files, authority):
    """A token, or certificates of clients."""
    def starts(*more):
        p = subprocess.Popen([str(w) for w in (SERVER, "--driver", "emu", "--listen", "0.0.0.0:0", "--unix", tmp_path / "u",
                                               *tls_options(files, *more))],
                             env=clean_env(), stderr=subprocess.PIPE, text=True)
        try:
            for line in p.stderr:
                if "driver emu" in line or "there is no token" in line:
                    return "driver emu" in line
        finally:
            p.terminate()
            p.communicate()
    assert not starts()
    assert starts("--tls-ca", authority.ca)
    assert not starts("--tls-ca", authority.ca, "--tls", "offered")


# --- a certificate without an authority

def test_new_cert_prints_what_both_ends_need(tmp_path, app):
    result = run([SERVER, "--new-cert", tmp_path / "tls", "127.0.0.1", "gpuhost"], clean_env())
    assert result.status == 0, result.err
    server_line, client_line = result.out.splitlines()
    files = (tmp_path / "tls" / "cert.pem", tmp_path / "tls" / "key.pem")
    assert server_line.split() == ["server:", "--tls-cert", str(files[0]), "--tls-key", str(files[1])]
    assert files[1].stat().st_mode & 0o777 == 0o600
    pin = client_line.partition("CRICKET_TLS_PIN=")[2]
    with serving(tmp_path / "server", files) as server:
        assert pin_of(server) == pin
        for trust in ({"CRICKET_TLS_PIN": pin}, {"CRICKET_TLS_CA": str(files[0])}):
            computes(run([app("vector_add")], client_env(server.address("tcp"), **trust)))
    assert run([SERVER, "--new-cert", tmp_path / "more", "not a name"], clean_env()).status == 2


def new_cert(folder, *names):
    return run([SERVER, "--new-cert", folder, *names], clean_env())


def test_a_new_certificate_for_the_same_key_keeps_the_pin(tmp_path, app):
    folder = tmp_path / "tls"
    first = new_cert(folder, "127.0.0.1").out
    old, key = (folder / "cert.pem").read_bytes(), (folder / "key.pem").read_bytes()
    pin = first.partition("CRICKET_TLS_PIN=")[2].strip()
    with serving(tmp_path / "server", (folder / "cert.pem", folder / "key.pem")) as server:
        again = new_cert(folder, "127.0.0.1", "gpuhost").out
        assert again.partition("CRICKET_TLS_PIN=")[2].strip() == pin and "the pin is as before" in again
        assert (folder / "cert.pem").read_bytes() != old and (folder / "key.pem").read_bytes() == key
        assert sorted(p.name for p in folder.iterdir()) == ["cert.pem", "key.pem"]
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "SIGHUP" in server.log(), 10, "the signal arrives")
        computes(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_PIN=pin)))


def test_new_cert_replaces_no_certificate_that_it_could_not_make(tmp_path, authority, files):
    folder = tmp_path / "tls"
    folder.mkdir()
    for name, source in (("cert.pem", files[0]), ("key.pem", files[1])):        # an authority has signed it
        (folder / name).write_bytes(source.read_bytes())
        (folder / name).chmod(0o600)
    before = (folder / "cert.pem").read_bytes()
    done = new_cert(folder, "gpuhost")
    assert done.status == 2 and "cert.pem" in done.err and (folder / "cert.pem").read_bytes() == before
    (folder / "key.pem").unlink()                                               # a certificate without its key
    done = new_cert(folder, "gpuhost")
    assert done.status == 2 and "cert.pem: File exists" in done.err and not (folder / "key.pem").exists()
    (folder / "cert.pem").unlink()
    (folder / "key.pem").write_text("no key\n")
    (folder / "key.pem").chmod(0o600)
    done = new_cert(folder, "gpuhost")
    assert done.status == 2 and "key.pem" in done.err and not (folder / "cert.pem").exists()
    (folder / "key.pem").chmod(0o644)
    assert "other users can read" in new_cert(folder, "gpuhost").err


def test_a_list_of_pins_lets_a_key_be_replaced(tmp_path, secure, authority, app):
    """Before and after the change of the server's key, with the same pins."""
    pin, other = pin_of(secure), "sha256:" + "0" * 64
    for pins in (f"{other},{pin}", f"{pin.upper().replace('SHA', 'sha')},{other}", f" {other} , {pin}"):
        computes(run([app("vector_add")], client_env(secure.address("tcp"), CRICKET_TLS_PIN=pins)))
    for pins, words in ((f"{other},{other[:-1]}1", "not that of the given pin"), (f"{pin},", None), (f"{pin},sha256:12", "not a pin"),
                        (",", "not a pin"), (f"{pin}{pin}", "not a pin")):
        result = run([app("vector_add")], client_env(secure.address("tcp"), CRICKET_TLS_PIN=pins))
        refused(result, words) if words else computes(result)


# --- the command

def cricket(env, *words, stdin=""):
    return subprocess.run([str(w) for w in (PRODUCTS / "cricket", *words)], env=env, capture_output=True, text=True,
                          input=stdin, timeout=60 * SLOW)


def test_a_configuration_file_says_whom_to_trust(tmp_path, secure, authority):
    (tmp_path / "cricket").mkdir()
    home = clean_env(XDG_CONFIG_HOME=str(tmp_path))
    for key, variable, value in (("tls-pin", "CRICKET_TLS_PIN", pin_of(secure)),
                                 ("tls-pin", "CRICKET_TLS_PIN", ",".join([f"sha256:{i:064}" for i in range(5)] + [pin_of(secure)])), ("tls-ca", "CRICKET_TLS_CA", authority.ca)):
        (tmp_path / "cricket" / "config").write_text(f"[lab]\naddress = {secure.address('tcp')}\n{key} = {value}\n")
        done = cricket(home, "check", "lab")
        assert done.returncode == 0, done.stdout + done.stderr
        assert [line for line in done.stdout.splitlines() if line.split()[:2] == ["ok", "tls"] and "TLSv1.3" in line]
        assert f"{variable}={value}" in cricket(home, "env", "--format", "plain", "-s", "lab").stdout.splitlines()
    done = cricket(dict(home, CRICKET_TLS_CA="/nowhere"), "check", "lab")       # a variable comes before the file
    assert done.returncode == 1 and "FAILED tls" in done.stdout and "/nowhere" in done.stdout
    done = cricket(home, "check", secure.address("unix"))
    assert done.returncode == 0 and "not needed: a socket of this host" in done.stdout
    assert cricket(home, "check", secure.address("tcp")).returncode == 0        # the section has this address
    (tmp_path / "cricket" / "config").unlink()
    done = cricket(home, "check", secure.address("tcp"))
    assert done.returncode == 1 and "none: everyone who can read the network can read all data" in done.stdout
    assert "admits only clients that use TLS" in done.stdout
