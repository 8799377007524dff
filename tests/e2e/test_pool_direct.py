"""tests/e2e/test_pool_direct.py - copies from server to server (docs/pool.md, docs/security.md)."""
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import threading

import pytest

from conftest import DRIVER, ROOT, SERVER, Server, clean_env, client_env, ended, run, wait_until
from stranger import Session, call, opaque, results, u32, u64
from tls import Authority, Middle

PROGRAM = pathlib.Path(__file__).parent / "pool_direct_program.py"
ANYWHERE = "127.0.0.0/8:*"
DIRECT, TICKET = 8, 16      # the procedure; bytes
MADE, NOT_MADE = "direct connections to the server at", "no direct connection to the server at"


def make(folder, *peers, **env):
    if DRIVER != "emu":
        pytest.skip("two servers have one GPU here")
    return [Server(folder / str(i), *(["--pool-peers", p] if p else []), CRICKET_LOG="info", **env)
            for i, p in enumerate(peers)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    servers = make(tmp_path_factory.mktemp("direct"), ANYWHERE, ANYWHERE)
    yield servers
    for s in servers:
        s.stop()


@pytest.fixture
def some(tmp_path):
    """Makes servers of the test's own, which it ends."""
    made = []

    def more(*peers, **env):
        made.extend(make(tmp_path, *peers, **env))
        return made
    yield more
    for s in made:
        s.end()


def pool(*servers, transport="tcp"):
    return ",".join(s.address(transport) for s in servers)


def program(case, address, *arguments, timeout=60, **env):
    return run([sys.executable, PROGRAM, case, *arguments], client_env(address, **env), timeout)


def right(case, address, *arguments, **env):
    result = program(case, address, *arguments, **env)
    assert result.out == f"{case}: right\n" and result.status == 0 and result.err == "", result.out + result.err


def count(servers, words):
    return sum(s.log().count(words) for s in servers)


@pytest.mark.parametrize("transport", ["tcp", "shm"])
@pytest.mark.parametrize("case", ["in_order", "many", "forms", "crossed", "freed", "wrong", "big"])
def test_copies_go_from_server_to_server(two, case, transport):
    before = count(two, MADE)
    right(case, pool(*two, transport=transport))
    assert count(two, MADE) > before and count(two, NOT_MADE) == 0


@pytest.mark.parametrize("case", ["in_order", "many", "forms", "crossed", "freed", "never", "wrong", "big"])
def test_copies_go_through_the_client_if_it_wishes(two, case):
    before = count(two, MADE)
    right(case, pool(*two), CRICKET_DEBUG="no-direct")
    assert count(two, MADE) == before


@pytest.mark.parametrize("case", ["in_order", "many", "forms", "big"])
def test_copies_go_through_the_client_if_no_server_may_connect(some, case):
    servers = some("none", None)        # by default, not to this host
    right(case, pool(*servers))
    assert count(servers, MADE) == 0 and [s.log().count(NOT_MADE) for s in servers] == [1, 1]


@pytest.mark.parametrize("peers", [("none", ANYWHERE), (ANYWHERE, "none")])
def test_one_server_that_connects_is_enough(some, peers):
    servers = some(*peers)
    right("many", pool(*servers))
    assert [MADE in s.log() for s in servers] == [p != "none" for p in peers]


def test_a_port_of_its_own_is_allowed_without_being_named(some):
    servers = some("127.0.0.0/8", "127.0.0.0/8")
    right("big", pool(*servers))
    assert count(servers, MADE) == 0        # the ports differ, and neither is the usual one
    assert count(servers, NOT_MADE) == 2


def test_a_list_of_peers_that_is_none_is_refused():
    for text in ("gpu1", "10.0.0.0/33", "10.0.0.1:0", "[::1", "10.0.0.1,", "1.2.3"):
        result = run([SERVER, "--pool-peers", text], clean_env())
        assert result.status == 2 and f"--pool-peers {text}: not a list of networks" in result.err, result.err


def test_the_bench_measures_and_compares(two):
    result = run([sys.executable, ROOT / "bench" / "pool.py", "5"], client_env(pool(*two)))
    rows = json.loads(result.out.splitlines()[-1])
    assert {"copy_there", "copy_back", "copies_both_ways", "copy_1K"} < set(rows), result.err
    assert rows.pop("crossed_streams")["ms"] > 0
    assert all(r["value"] > 0 and all(r.get("check", [])) for r in rows.values()), rows


class Bending(Middle):
    """A way to a server. BEND(bytes, total) gets what another server sends over it."""

    def __init__(self, port, bend):
        self.bend, self.direct = bend, set()
        super().__init__(port)

    def pass_on(self, s, other, to_server):
        total = 0
        try:
            while data := s.recv(1 << 16):
                if total == 0 and to_server and data[24:28] == struct.pack(">I", DIRECT):
                    self.direct.add(s)
                total += len(data)
                if s in self.direct:
                    self.bend(data, total)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            for x in (s, other):
                try:
                    x.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


def test_a_bridge_that_is_cut_in_the_middle_costs_no_byte(some):
    servers = some(ANYWHERE, "none")
    cuts = []

    def cut(data, total):
        if total > 3 << 20:
            cuts.append(total)
            raise ConnectionResetError
    way = Bending(servers[1].port, cut)
    right("big", f"{servers[0].address('tcp')},{way.address}")
    assert cuts and MADE in servers[0].log()


@pytest.mark.parametrize("form", ["stream", "call"])
def test_a_server_that_is_lost_in_the_middle_is_an_error(some, form):
    servers = some(ANYWHERE, "none")
    reached = threading.Event()

    def stall(data, total):
        if total > 3 << 20:
            reached.set()
            threading.Event().wait(60)
    way = Bending(servers[1].port, stall)
    process = subprocess.Popen([sys.executable, str(PROGRAM), "lost_in_the_middle", form], text=True,
                               env=client_env(f"{servers[0].address('tcp')},{way.address}", CRICKET_RESUME="0"),
                               start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert reached.wait(60)
    servers[1].kill()
    result = ended(process, 60)
    assert result.status == 0 and result.out == "lost_in_the_middle: right\n", result.out + result.err
    assert len(result.lines_about("is lost")) == 1, result.err


@pytest.mark.parametrize("plain", [None, 0, 1])
def test_workers_use_tls_where_the_client_does(some, tmp_path, plain):
    authority = Authority(tmp_path / "ca")
    cert, key = authority.sign("server")
    options = ["--tls-cert", cert, "--tls-key", key]
    if DRIVER != "emu":
        pytest.skip("two servers have one GPU here")
    servers = [Server(tmp_path / str(i), "--pool-peers", ANYWHERE, *([] if i == plain else options), CRICKET_LOG="info")
               for i in range(2)]
    try:
        ways = [Middle(s.port) for s in servers]
        secret = b"not for this network" * 2000
        result = run([sys.executable, "-c", SECRET, PROGRAM.parent, secret.hex()],
                     client_env(",".join(w.address for w in ways), CRICKET_TLS_CA=str(authority.ca), CRICKET_TLS="offer"))
        assert result.out == "right\n", result.out + result.err
        assert count(servers, MADE) == 1
        for i, way in enumerate(ways):
            # a server without TLS sees the client's bytes, and no connection of the other server
            assert (secret[:100] in way.seen) == (i == plain)
            assert struct.pack(">I", DIRECT) not in way.seen[24:28]
    finally:
        for s in servers:
            s.end()


SECRET = """
import sys
sys.path.insert(0, sys.argv[1])
from pool_direct_program import *
first, last = ends()
secret = bytes.fromhex(sys.argv[2])
a, b = first.memory(len(secret)), last.memory(len(secret))
first.use()
put(a, secret)
call("cuMemcpyPeer", b, last.context, a, first.context, size(len(secret)))
last.use()
assert get(b, len(secret)) == secret
print("right")
"""


# --- what no client of ours does

def tickets(session, n):
    err, reply = session.ask("ck_direct_ticket", u32(n))
    if err:
        return err
    bridge, = struct.unpack(">Q", reply[:8])
    length, = struct.unpack(">I", reply[8:12])
    data = reply[12:12 + length]
    return bridge, [data[i:i + TICKET] for i in range(0, length, TICKET)]


def show(session, ticket, name=None):
    """Shows a ticket on a connection of its own: the status, and the connection."""
    connection = session.connect()
    connection.sendall(call(DIRECT, (name or session.name[:16]) + ticket))
    return struct.unpack(">I", results(connection)[:4])[0], connection


def test_a_ticket_admits_one_connection_of_its_session(two):
    session, other = Session(two[0]), Session(two[0])
    bridge, issued = tickets(session, 3)
    assert len(set(issued)) == 3
    assert show(session, bytes(TICKET))[0] == show(session, os.urandom(TICKET))[0] == 1
    assert show(session, issued[0], other.name[:16])[0] == 1        # of another session
    assert show(session, issued[0], os.urandom(16))[0] == 1         # of none
    assert show(session, issued[0])[0] == 0
    assert show(session, issued[0])[0] == 1                         # used
    assert session.ask("ck_direct_end", u64(bridge))[0] == 0
    assert show(session, issued[1])[0] == 1                         # its bridge has ended
    log = two[0].log()
    assert "a ticket was refused" in log and not any(t.hex() in log for t in issued)
    session.end(), other.end()


def test_tickets_are_bounded(two):
    session = Session(two[0])
    assert tickets(session, 0) == tickets(session, 9) == 1
    got = [tickets(session, 8) for _ in range(20)]
    assert got.count(2) == 4 and got[-1] == 2       # CUDA_ERROR_OUT_OF_MEMORY
    session.end()


def dial(session, addresses, pin=b"", name=bytes(16), ticket=bytes(TICKET)):
    return session.ask("ck_direct_dial", opaque(name) + opaque(ticket) + opaque(addresses) + opaque(pin))[0]


class Listener:
    """Any service on this host, which says what it gets."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.heard = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.socket.accept()
            self.heard.append(connection.recv(4096))
            connection.sendall(b"220 smtp.example.com\r\n" * 20)
            connection.close()


@pytest.mark.parametrize("peers", [None, "none", "127.0.0.1", "127.0.0.2/31:*", "10.0.0.0/8:*", "[::]/0:*"])
def test_a_worker_connects_to_no_address_that_is_not_allowed(some, peers):
    server, = some(peers)
    service = Listener()
    session = Session(server)
    for address in (service.address, f"tcp://{service.address}", f"[::ffff:127.0.0.1]:{service.address.split(':')[1]}",
                    "localhost:9", "unix:/tmp/x", "", "\n" * 5000, "1.2.3.4.5:1", "127.0.0.1:99999"):
        assert dial(session, address.encode()) == 304, address
    assert service.heard == []
    session.end()


def test_an_allowed_address_that_is_no_server_learns_nothing_and_tells_nothing(some):
    server, = some(ANYWHERE)
    service = Listener()
    session = Session(server)
    nobody = socket.create_server(("127.0.0.1", 0))
    unused = f"127.0.0.1:{nobody.getsockname()[1]}"
    nobody.close()
    assert dial(session, service.address.encode()) == dial(session, unused.encode()) == 304
    assert [len(h) for h in service.heard] == [76]      # the greeting
    assert dial(session, service.address.encode(), pin=b"sha256:" + b"0" * 64) == 304
    assert dial(session, service.address.encode(), pin=b"no pin") == 1
    assert session.error() == 0
    session.end()


class Peer:
    """A worker of another server, which keeps to nothing."""

    def __init__(self, session, width=1, n=1 << 20):
        self.session = session
        self.bridge, issued = tickets(session, width)
        self.connections = [show(session, t)[1] for t in issued]
        err, reply = session.ask("cuMemAlloc_v2", u64(n))
        assert err == 0
        self.address, = struct.unpack(">Q", reply[:8])
        session.send("cuStreamCreateWithPriority", u64(9) + u32(1) + u32(0))
        self.lane = session.lane

    def begin(self, name, n, number=5):
        self.session.lane.sendall(call(__import__("stranger").NUMBERS[name],
                                       u64(self.session.sent) + u64(7) + u64(self.bridge) + u64(number) +
                                       u64(self.address) + u64(n) + u64(9)))

    def head(self, kind, length, number=5, offset=0):
        return struct.pack(">IIQQ", kind, length, number, offset)

    def result(self):
        return struct.unpack(">i", results(self.lane)[:4])[0]


def test_a_peer_that_keeps_to_the_rules_is_served(two):
    session = Session(two[0])
    peer = Peer(session)
    for turn in range(2):
        data = bytes([turn + 1]) * 100
        peer.begin("ck_direct_receive", 100)
        assert peer.connections[0].recv(24) == peer.head(1, 0)
        peer.connections[0].sendall(peer.head(2, 100) + data + peer.head(3, 0))
        assert peer.result() == 0
        peer.begin("ck_direct_send", 100)
        peer.connections[0].sendall(peer.head(1, 0))
        got = b""
        while len(got) < 148:
            got += peer.connections[0].recv(1000)
        assert got == peer.head(2, 100) + data + peer.head(3, 0) and peer.result() == 0
    session.end()


@pytest.mark.parametrize("rule", ["number", "kind", "offset", "length", "twice", "beyond", "early end", "other end", "error", "hangs up",
                                  "garbage"])
def test_a_peer_that_breaks_a_rule_is_no_success(two, rule):
    session = Session(two[0])
    peer = Peer(session)
    h = peer.head
    bytes_of = {"number": h(2, 100, 6) + bytes(100) + h(3, 0, 6), "kind": h(9, 0), "offset": h(2, 99, 5, 1) + bytes(99),
                "length": h(2, 50) + bytes(50), "twice": (h(2, 100) + bytes(100)) * 2, "beyond": h(2, 100, 5, 1 << 40),
                "early end": h(3, 0), "other end": h(2, 100) + bytes(100) + h(3, 0, 6), "error": h(2, 100) + bytes(100) + h(3, 700), "hangs up": h(2, 100) + bytes(50),
                "garbage": b"GET / HTTP/1.1\r\n\r\n" * 10}[rule]
    peer.begin("ck_direct_receive", 100)
    peer.connections[0].sendall(bytes_of)
    if rule == "hangs up":
        peer.connections[0].shutdown(socket.SHUT_WR)
    assert peer.result() == 304
    assert peer.connections[0].recv(1000) in (h(1, 0), b"") and session.error() == 0
    peer.begin("ck_direct_receive", 100)        # the bridge has ended
    assert peer.result() == 304
    session.end()


def test_a_copy_to_foreign_memory_is_refused_and_ends_the_bridge(two):
    session = Session(two[0])
    peer = Peer(session)
    peer.address = 4096
    peer.begin("ck_direct_receive", 100)
    received = peer.connections[0].recv(24)
    assert received in (peer.head(1, 0), b"")
    if received:
        peer.connections[0].sendall(peer.head(2, 100) + bytes(100) + peer.head(3, 0))
    assert peer.result() == 1
    session.end()


def test_nothing_is_left_behind(two):
    for s in two:
        s.wait_idle()
    assert not re.search("Sanitizer|runtime error", "".join(s.log() for s in two))
    wait_until(lambda: all(not s.workers() for s in two), 5, "no worker is left")
