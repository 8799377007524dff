"""tests/e2e/test_start.py - what a program's start costs: round trips until its first kernel runs, bytes
of modules, and what CRICKET_STATS tells of both."""
import re
import socket
import struct
import threading

import pytest

from conftest import ROOT, TRANSPORTS, Server, client_env, run

HELLO, JOIN = 1, 2


def number_of(name):
    """The number of a message in rpc/driver.api."""
    table = (ROOT / "rpc" / "driver.api").read_text()
    return int(re.search(rf"^ *(\d+) {name} ", table, re.MULTILINE)[1])


class Watched:
    """A TCP address that leads to PORT, and notes in order each call ("call", number) on its way
    there and each reply ("reply", None) on its way back."""

    def __init__(self, port):
        self.port, self.events, self.lock, self.open = port, [], threading.Lock(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            self.open += [client, server]
            for pair in ((client, server), (server, client)):
                pair[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.pump, args=pair, daemon=True).start()

    def pump(self, source, sink):
        """Passes records (RFC 5531, section 11; one fragment each) on, whole."""
        data = b""
        while True:
            try:
                more = source.recv(1 << 20)
                data += more
                while len(data) >= 4:
                    size = 4 + (struct.unpack(">I", data[:4])[0] & 0x7fffffff)
                    if len(data) < size:
                        break
                    kind, = struct.unpack(">I", data[8:12])
                    with self.lock:
                        self.events.append(("reply", None) if kind else
                                           ("call", struct.unpack(">I", data[24:28])[0]))
                        sink.sendall(data[:size])
                    data = data[size:]
                if not more:
                    sink.shutdown(socket.SHUT_WR)
                    return
            except OSError:
                return

    def close(self):
        self.listener.close()
        for connection in self.open:
            connection.close()


@pytest.fixture
def watched(own_server):
    made = []

    def make():
        made.append(Watched(own_server.port))
        return made[-1]
    yield make
    for w in made:
        w.close()


def test_the_first_kernel_is_on_its_way_after_four_round_trips(watched, app):
    """Hello, join, the memory's address, and what the compiler says of PTX."""
    for _ in range(2):
        proxy = watched()
        result = run([app("first_kernel")], client_env(proxy.address))
        assert (result.status, result.err) == (0, "")
        launch = proxy.events.index(("call", number_of("ck_launch")))
        before = proxy.events[:launch]
        assert ("call", HELLO) in before and ("call", JOIN) in before
        assert before.count(("reply", None)) <= 4, before


# ---- CRICKET_STATS -------------------------------------------------------------------------------

def tables(text):
    """{name: (count, local, one-way, waited, sent, received, ms, mean)} of calls and of messages,
    and the numbers of the last line."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if words[1:2] == ["count"]:
            table = found.setdefault(" ".join(words[12:]), {})
        elif words[1:2] and words[1].isdigit() and len(words) >= 10 and words[2].isdigit():
            table[" ".join(words[9:])] = tuple(map(float, words[1:9]))
    total = [float(n) for n in re.findall(r"[\d.]+", text.splitlines()[-1])]
    return found["calls of the program"], found["messages"], total


def test_stats_say_what_each_call_cost(run_app):
    result = run_app("vector_add", "tcp", CRICKET_STATS="1")
    calls, messages, total = tables(result.err)
    assert result.status == 0 and result.err.splitlines()[0].startswith("cricket: vector_add, pid ")
    assert calls["cuMemAlloc_v2"][:4] == (3, 2, 1, 0)  # the first one takes the lease
    assert calls["cuLaunchKernel"][:4] == (1, 0, 1, 0)
    assert calls["cuInit"][:6] == (1, 1, 0, 0, 0, 0)
    assert calls["cuMemcpyHtoD_v2"][4] > 400000 and calls["cuMemcpyDtoH_v2"][5] > 200000
    count, *_, ms, mean = calls["cuMemcpyDtoH_v2"]
    assert count == 1 and 0 < ms and abs(ms * 1000 - mean) < 2
    assert "ck_launch" in messages and "cuInit" not in messages
    # what the calls sent is what the messages sent, but for what is fetched at exit
    columns = [sum(row[i] for row in messages.values()) for i in range(8)]
    own = [sum(row[i] for row in calls.values()) for i in range(8)]
    assert columns[4] - own[4] == messages["ck_output"][4]
    assert total[0] == own[1]
    assert total[1:5] == [columns[2], columns[3], columns[4], columns[5]]
    assert abs(total[5] - columns[6]) < 0.1


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_asking_in_a_loop_does_not_flood_the_wire(run_app, transport):
    """Events and streams that are not done are asked for a few times a second, however often
    the program does."""
    result = run_app("polls", transport, CRICKET_STATS="1")
    assert result.status == 0, result.err
    calls, messages, _ = tables(result.err)
    count, *_, waited = calls["cuStreamQuery"][:4]
    assert count > 20000 and waited < 200 + 20 * result.seconds
    count, *_, waited = calls["cuEventQuery"][:4]
    assert count > 60000 and waited < count / 10
    assert messages["ck_event_ask"][3] == waited
    assert calls["cuEventElapsedTime_v2"][1] == 3


def test_stats_go_to_a_file_that_grows(run_app, tmp_path):
    path = tmp_path / "stats"
    for count in (1, 2):
        result = run_app("first_kernel", "unix", CRICKET_STATS=str(path))
        assert (result.status, result.err) == (0, "")
        assert path.read_text().count("cricket: first_kernel, pid") == count
    assert tables(path.read_text())[0]["cuLaunchKernel"][2] == 1


def test_stats_that_cannot_be_written_are_one_line_and_no_failure(run_app, tmp_path):
    result = run_app("first_kernel", "unix", CRICKET_STATS=str(tmp_path / "no" / "folder"))
    assert result.status == 0
    assert len(result.err.splitlines()) == 1 and "no/folder" in result.err


def test_calls_by_other_ways_are_counted_as_one(run_app):
    result = run_app("driver_ptx", "unix", CRICKET_STATS="1")
    calls, messages, total = tables(result.err.replace("(by other ways than cuGetProcAddress)", "other"))
    assert result.status == 0 and "ck_launch" in messages
    assert total[0] == calls["other"][1] > 0


def test_a_second_run_sends_no_module(tmp_path, app):
    """Nor does the first one after the server has been started anew: the cache is on disk."""
    sent = []
    for _ in range(2):
        server = Server(tmp_path / "server")
        try:
            for _ in range(2):
                result = run([app("vector_add")], client_env(server.address("tcp"), CRICKET_STATS="1"))
                assert result.status == 0, result.err
                sent.append((tables(result.err)[1].get("ck_image"), tables(result.err)[2][3]))
            server.stop()
        finally:
            server.kill()
    image = sent[0][0][4]
    assert image > 500
    assert [s[0] for s in sent[1:]] == [None] * 3
    assert [s[1] for s in sent[1:]] == [sent[0][1] - image] * 3, result.err
