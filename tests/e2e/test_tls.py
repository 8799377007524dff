"""tests/e2e/test_tls.py - TLS between client and server: trust, refusals, and sessions that continue when a
connection is cut or changed."""
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
from conftest import EXPECTED, HANG, SERVER, clean_env, client_env, ended, is_alive, run, start, wait_until
from tls import PROBE, Authority, Middle
from tls_servers import (TOKEN, authority, computes, files, front, own_tls, pin_of, refused, relays, running, secure, serving,  # noqa: F401
                         tls_options)


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
    """Changes one piece towards the server, in the middle of a large copy, and notes that in DONE. A handshake that
    fails would be tried again."""
    def change(data, up, before):
        if not up or done or before < 30000 or len(data) < 10000:
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
