"""tests/e2e/test_tls_handshakes.py - handshakes of TLS that do not end, that are garbage, or that others push out."""
import collections
import contextlib
import multiprocessing
import signal
import socket
import ssl
import time

from conftest import client_env, run, start, wait_until
from test_protocol import null_call
from tls import PROBE, Middle, first_message, hello_to, trusting
from tls_servers import authority, closed, computes, files, own_tls, refused, relays  # noqa: F401


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
    """The beginnings of handshakes from one address, with the probe: 500 each second, fewer on a busy machine, whose
    processors it shares with the server."""
    mine, due, words = collections.deque(), time.monotonic(), PROBE + first_message()
    while not stop.is_set():
        due = max(due + 0.002, time.monotonic())
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
