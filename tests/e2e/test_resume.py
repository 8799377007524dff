"""tests/e2e/test_resume.py - a session over tcp goes on when its connections are cut, and ends when they stay cut.

Programs run through a proxy that cuts connections at any byte (breaker.py). What they print is compared with what they
print without cuts; resume.cu counts in a kernel how often each launch is carried out.
"""
import os
import pathlib
import signal
import socket
import struct

import pytest

from breaker import PIECE, Breaker
from conftest import EXPECTED, KIND, TSAN, Server, client_env, ended, is_alive, run, start, wait_until

# All cuts of the programs below together; the issue wants 1,000 (make check-e2e K=resume CUTS=1000).
CUTS = int(os.environ.get("CUTS", "240"))
PROGRAMS = ["resume", "async_copies", "host_functions", "managed_intro", "threads_order", "staged_copies"]
if not TSAN:    # whose memory is transferred by page then, and its threads share a page
    PROGRAMS.append("pinned_words")


@pytest.fixture
def breaker():
    made = []

    def make(*args, **kwargs):
        made.append(Breaker(*args, **kwargs))
        return made[-1]
    yield make
    for b in made:
        b.stop()


@pytest.mark.threads
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_is_cut_off_again_and_again_computes_the_same(server, app, breaker, program, seed):
    path = app(program)
    cuts, left = 0, CUTS // len(PROGRAMS) // 2
    for attempt in range(100):
        if left <= 0:
            return
        proxy = breaker(server.port, left, 3000 << attempt % 4, seed=1000 * seed + attempt)
        result = run([path], client_env(proxy.address), 120)
        assert (result.status, result.out) == (0, (EXPECTED / f"{program}.txt").read_text()), result.err
        assert "is lost" not in result.err
        cuts += proxy.done
        left -= proxy.done
    pytest.fail(f"only {cuts} cuts")


def test_an_idle_session_is_repaired_without_a_call(own_server, app, breaker):
    proxy = breaker(own_server.port)
    client = start([app("spin")], client_env(proxy.address))
    assert client.stdout.readline() == "spinning\n", client.stderr.read()
    worker, = own_server.workers()
    for how in ("rst", "fin"):
        proxy.do(lambda how=how: proxy.drop_all(how))
        wait_until(lambda: len(proxy.other) >= 6, 5, "three connections are back")
    assert is_alive(worker) and client.poll() is None
    client.kill()
    assert client.communicate()[1] == ""


def endless(app, proxy, **env):
    client = start([app("endless"), "sync"], client_env(proxy.address, **env))
    assert client.stdout.readline() == "running\n", client.stderr.read()
    return client


def ticks(pid):
    return sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_a_missing_server_is_told_once_and_once_more_when_it_is_back(own_server, app, breaker):
    proxy = breaker(own_server.port)
    client = endless(app, proxy)
    worker, = own_server.workers()
    proxy.dark()
    assert f"the connection to the GPU server at {proxy.address} is cut" in client.stderr.readline()
    proxy.light()
    assert f"the connection to the GPU server at {proxy.address} is back after" in client.stderr.readline()
    before = ticks(worker)
    wait_until(lambda: ticks(worker) > before + 3, 10, "the program is at it again")
    client.kill()
    assert client.communicate()[1] == ""


def test_a_cut_beyond_the_grace_period_ends_both_sides(own_server, app, breaker):
    proxy = breaker(own_server.port)
    client = endless(app, proxy, CRICKET_RESUME="2s")
    worker, = own_server.workers()
    proxy.dark()
    result = ended(client, 8)
    assert result.status == 3 and result.out.count("cudaError") == 2, (result.out, result.err)
    assert len(result.lines_about("is lost")) == 1 and "CRICKET_RESUME" in result.err
    wait_until(lambda: not is_alive(worker), 5, "the worker does not wait longer than it promised")
    assert "has not come back" in own_server.log()


def test_the_server_limits_the_time(tmp_path, app, breaker):
    server = Server(tmp_path / "server", "--keep", "1s")
    try:
        proxy = breaker(server.port)
        client = endless(app, proxy, CRICKET_RESUME="1h")
        proxy.dark()
        assert ended(client, 8).status == 3
        server.wait_idle()
        server.stop()
    finally:
        server.kill()


@pytest.mark.parametrize("options, wish", [(("--keep", "0"), "60s"), ((), "0")])
def test_without_it_a_cut_ends_the_session(tmp_path, app, breaker, options, wish):
    server = Server(tmp_path / "server", *options)
    try:
        proxy = breaker(server.port)
        client = endless(app, proxy, CRICKET_RESUME=wish)
        proxy.do(lambda: proxy.drop_all("rst"))
        result = ended(client, 5)
        assert result.status == 3 and "is cut" not in result.err
        server.wait_idle(2)
        server.stop()
    finally:
        server.kill()


class Deserter(Breaker):
    """A proxy. After it has got an ADDRESS, it answers each connection itself: the session is on the server there."""

    def desert(self, address):
        self.do(lambda: (setattr(self, "elsewhere", address.encode()), self.drop_all("rst")))

    def accept(self):
        if not hasattr(self, "elsewhere"):
            return super().accept()
        near, _ = self.listener.accept()
        with near:
            request = near.recv(4096)
            near.sendall(self.moved(request[4:8]))
        return None

    def moved(self, xid):
        body = xid + struct.pack(">IIIII", 1, 0, 0, 0, 0) + struct.pack(">IQI", 3, 0, len(self.elsewhere))
        body += self.elsewhere + bytes(-len(self.elsewhere) % 4)
        return struct.pack(">I", 0x80000000 | len(body)) + body


@pytest.mark.parametrize("address", ["ssh://127.0.0.1", "local", "unix:{tmp_path}/sock", "shm:{tmp_path}/sock"])
def test_a_server_can_not_have_its_client_start_a_program(own_server, app, breaker, tmp_path, address):
    """Nor connect to a socket of its host: a session moves to another machine."""
    started = tmp_path / "started"
    (tmp_path / "cricket-rpc-server").write_text(f"#!/bin/sh\ntouch {started}\n")
    (tmp_path / "cricket-rpc-server").chmod(0o755)
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(str(tmp_path / "sock"))
        here.listen()
        here.settimeout(0)
        proxy = Deserter(own_server.port)
        try:
            client = endless(app, proxy, CRICKET_RESUME="3s", CRICKET_SSH=f"touch {started};",
                             PATH=f"{tmp_path}:{os.environ['PATH']}")
            proxy.desert(address.format(tmp_path=tmp_path))
            result = ended(client, 20)
        finally:
            proxy.stop()
        assert result.status == 3 and "is lost (no connection in the time" in result.err, result.err
        assert not started.exists()
        with pytest.raises(BlockingIOError):
            here.accept()


class Promising(Breaker):
    """A proxy that changes the reply to the hello: the server keeps the session for a week, not for the 2 s of the wish."""

    changed = False

    def pass_on(self, near):
        if near in self.near or self.changed:
            return super().pass_on(near)
        data = near.recv(PIECE)
        # the end of the reply: ck_hello_more from `keep` on, ck_hello_rules, ck_hello_secret, ck_hello_shadows,
        # ck_hello_lanes
        if data[-64:-28] == struct.pack(">I", 2) + bytes(32):
            data, self.changed = data[:-64] + struct.pack(">I", 7 * 86400) + data[-60:], True
        self.other[near].sendall(data)
        return bool(data)


def test_a_server_does_not_make_its_client_wait_longer(own_server, app, breaker):
    """Not even if it promises to keep the session for a week."""
    proxy = Promising(own_server.port)
    try:
        client = endless(app, proxy, CRICKET_RESUME="2s")
        assert proxy.changed
        proxy.dark()
        result = ended(client, 10)
        assert result.status == 3 and "CRICKET_RESUME" in result.err, result.err
    finally:
        proxy.stop()


def test_a_worker_that_dies_ends_the_session_at_once(own_server, app):
    client = start([app("endless"), "sync"], client_env(own_server.address("tcp")))
    assert client.stdout.readline() == "running\n", client.stderr.read()
    os.kill(own_server.workers()[0], signal.SIGKILL)
    result = ended(client, 5)
    assert result.status == 3 and "it has ended the session" in result.err


def test_a_server_that_stops_says_goodbye(own_server, app):
    client = start([app("endless"), "sync"], client_env(own_server.address("tcp")))
    assert client.stdout.readline() == "running\n", client.stderr.read()
    own_server.stop()
    result = ended(client, 5)
    assert result.status == 3 and "is cut" not in result.err, result.err


def test_a_program_that_ends_says_goodbye(own_server, app):
    result = run([app("vector_add")], client_env(own_server.address("tcp")))
    assert (result.status, result.err) == (0, "")
    own_server.wait_idle(1)
    assert "waiting" not in own_server.log()


def test_a_program_ends_although_its_connections_are_cut(own_server, app, breaker):
    proxy = breaker(own_server.port)
    client = start([app("host_functions"), "pending"], client_env(proxy.address, CRICKET_RESUME="1h"))
    assert client.stdout.readline() == "waiting\n", client.stderr.read()
    proxy.dark()
    os.kill(client.pid, signal.SIGTERM)
    ended(client, 5)


@pytest.mark.skipif(KIND != "", reason="a thousand connections, with threads of sanitizers")
def test_lanes_and_not_links_are_counted(tmp_path, app, breaker):
    """More cuts than the session may have connections for calls."""
    server = Server(tmp_path / "server", "--max-lanes", "8")
    try:
        proxy = breaker(server.port, 40, 4000, seed=5)
        result = run([app("async_copies")], client_env(proxy.address), 60)
        assert (result.status, result.out) == (0, (EXPECTED / "async_copies.txt").read_text()), result.err
        assert proxy.done > 8
        server.stop()
    finally:
        server.kill()
