"""tests/e2e/test_start.py - what a program's start costs: round trips until its first kernel runs, bytes
of modules, and what CRICKET_STATS tells of both."""
import re
import socket
import struct
import sys
import threading

import pytest

from conftest import EXPECTED, ROOT, TRANSPORTS, Server, client_env, over, run

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


def test_the_first_kernel_waits_for_three_replies(watched, app):
    """Hello, the memory's address, what the compiler says of PTX; those of joins may have come too: of the
    commands, and of the lanes in reserve, of which there are three if connecting takes a millisecond."""
    for _ in range(2):
        proxy = watched()
        result = run([app("first_kernel")], client_env(proxy.address, CRICKET_RESUME="0"))   # the proxy reads records
        assert (result.status, result.err) == (0, "")
        launch = proxy.events.index(("call", number_of("ck_launch")))
        before = proxy.events[:launch]
        assert ("call", HELLO) in before and ("call", JOIN) in before
        assert before.count(("reply", None)) <= 7, before


PRINTS_LATE = """
import ctypes, sys
cuda, context, module, f = ctypes.CDLL("libcuda.so.1"), *(ctypes.c_void_p() for _ in range(3))
number = ctypes.c_int(42)
params = (ctypes.c_void_p * 1)(ctypes.addressof(number))
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), open(sys.argv[1], "rb").read() + bytes(64)) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(f), module, b"talks") == 0
assert cuda.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, params, None) == 0
if sys.argv[2] == "wait":
    assert cuda.cuStreamSynchronize(None) == 0
"""


def test_the_end_fetches_output_of_kernels_only_if_some_may_be_left(server):
    """After a wait, which has brought it, the end does not ask; without one it asks, as far as the kernel has run."""
    for how, printed in (("wait", ("42\n",)), ("no wait", ("", "42\n"))):
        result = run([sys.executable, "-c", PRINTS_LATE, ROOT / "tests/data/elf/printf.ptx", how],
                     client_env(server.address("tcp"), CRICKET_STATS="1"))
        assert result.status == 0 and result.out in printed, result.err
        assert tables(result.err)[1]["ck_output"][4] == 1


def test_times_between_events_come_for_all_at_once(server):
    """A loop over finished events asks once; a program that times each of its steps waits once a step."""
    result = run([sys.executable, ROOT / "tests/e2e/event_times_program.py"],
                 client_env(server.address("tcp"), CRICKET_STATS="1"))
    assert result.status == 0, result.err
    messages = tables(result.err)[1]
    assert "cuEventElapsedTime_v2" not in messages
    assert messages["ck_event_times"][4] <= 50 + 4 and messages.get("cuEventSynchronize", [0] * 5)[4] <= 1


# ---- CRICKET_STATS -------------------------------------------------------------------------------

def tables(text):
    """{name: (count, local, one-way, waited, trips, sent, received, ms, mean)} of calls and of
    messages, and the numbers of the last line."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if words[1:2] == ["count"]:
            table = found.setdefault(" ".join(words[13:]), {})
        elif words[1:2] and words[1].isdigit() and len(words) >= 11 and words[2].isdigit():
            table[" ".join(words[10:])] = tuple(map(float, words[1:10]))
    total = [float(n) for n in re.findall(r"[\d.]+", text.splitlines()[-1])]
    return found["calls of the program"], found["messages"], total


def trips(text):
    """The round trips of a program, and those before its first kernel was on its way."""
    line, = re.findall(r"cricket: (\d+) round trips, (\d+) of them before the first kernel", text)
    return int(line[0]), int(line[1])


def test_stats_say_what_each_call_cost(run_app):
    result = run_app("vector_add", "tcp", CRICKET_STATS="1")
    calls, messages, total = tables(result.err)
    assert result.status == 0 and result.err.splitlines()[0].startswith("cricket: vector_add, pid ")
    assert calls["cuMemAlloc_v2"][:5] == (3, 2, 1, 0, 0)  # the first one takes the lease
    assert calls["cuLaunchKernel"][:5] == (1, 0, 1, 0, 0)
    assert calls["cuDriverGetVersion"][:4] == (1, 0, 0, 1)   # the first one that needs the server
    assert calls["cuInit"][:6] == (1, 1, 0, 0, 0, 0)
    assert calls["cuMemcpyHtoD_v2"][5] > 400000 and calls["cuMemcpyDtoH_v2"][6] > 200000
    count, *_, ms, mean = calls["cuMemcpyDtoH_v2"]
    assert count == 1 and 0 < ms and abs(ms * 1000 - mean) < 2
    assert "ck_launch" in messages and "cuInit" not in messages
    # what the calls sent is what the messages sent
    columns = [sum(row[i] for row in messages.values()) for i in range(9)]
    own = [sum(row[i] for row in calls.values()) for i in range(9)]
    assert columns[5] == own[5]
    assert total[0] == own[1]
    assert total[1:5] == [columns[2], columns[3], columns[5], columns[6]]
    assert abs(total[5] - columns[7]) < 0.1


def test_a_wait_for_uploads_is_one_way_over_a_network(run_app):
    for transport, network, waited in (("tcp", {}, 0), ("unix", over("rtt=1ms"), 0), ("unix", {}, 2)):
        result = run_app("vector_add", transport, CRICKET_STATS="1", **network)
        _, messages, _ = tables(result.err)
        assert messages.get("cuStreamSynchronize", [0] * 4)[3] == waited, (transport, result.err)
        assert messages.get("ck_settle", [0] * 4)[2] == 2 - waited


def test_stats_count_the_round_trips_and_where(run_app):
    """Of connections too, and those of the calls before the first kernel."""
    result = run_app("first_kernel", "tcp", CRICKET_STATS="1")
    calls, messages, _ = tables(result.err)
    assert messages["hello"][3:5] == messages["connect"][3:5] == (1, 1)
    assert messages["link"][2] in (2, 4) and messages["link"][3:5] == (0, 0)    # commands, and lanes in reserve
    assert trips(result.err)[1] <= 4
    assert calls["cuDriverGetVersion"][4] == sum(messages[m][4] for m in ("connect", "hello", "link"))
    total = sum(row[4] for row in messages.values())
    assert trips(result.err) == (total, total - messages["ck_download"][4])


def test_a_further_thread_costs_a_connect_and_no_more(run_app):
    """The first one nothing: a connection is in reserve."""
    result = run_app("threads_order", "tcp", CRICKET_STATS="1")
    _, messages, _ = tables(result.err)
    assert messages["link"][2:5] == (messages["link"][0], 0, 0)
    # after a slow moment, three are in reserve
    assert messages["connect"][4] in (messages["link"][2] - 1, messages["link"][2] - 3) and messages["link"][2] > 3


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


def test_a_second_run_asks_nothing_again(tmp_path, app):
    """Attributes, occupancy, the result of the compiler: the server keeps them, also over its own restart."""
    expected = (EXPECTED / "occupancy.txt").read_text()
    counts = []
    for _ in range(2):
        server = Server(tmp_path / "server")
        try:
            for _ in range(2):
                result = run([app("occupancy")], client_env(server.address("tcp"), CRICKET_STATS="1"))
                assert (result.status, result.out) == (0, expected)
                messages = tables(result.err)[1]
                asked = sum(messages.get(name, [0] * 4)[3] for name in (
                    "ck_attributes", "cuKernelGetAttribute", "cuFuncGetAttribute", "ck_module_build", "cuKernelSetAttribute",
                    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "cuOccupancyAvailableDynamicSMemPerBlock"))
                counts.append((asked, messages.get("ck_learned", [0] * 4)[2]))
            server.stop()
        finally:
            server.kill()
    assert 5 < counts[0][0] < counts[0][1] / 2 and counts[0][1] > 30  # all attributes of a kernel come at once
    assert counts[1:] == [(0, 0)] * 3


COUNT_DEVICES = """
import ctypes
nvml, n = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
print(nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(n)), n.value)
"""


def test_no_run_asks_the_server_for_the_number_of_devices(own_server):
    """PyTorch asks NVML before anything else."""
    result = run([sys.executable, "-c", COUNT_DEVICES], client_env(own_server.address("tcp"), CRICKET_STATS="1"))
    assert result.out.startswith("0 0 ") and result.out != "0 0 0\n", result.err
    assert "nvmlDeviceGetCount_v2" not in tables(result.err)[1]


def test_a_second_process_needs_four_round_trips_to_its_first_kernel(own_server, app):
    """Of these, cuMemAlloc is one; see the first run's for what a first one needs."""
    for most in (4, 3):
        result = run([app("first_kernel")], client_env(own_server.address("tcp"), CRICKET_STATS="1"))
        assert result.status == 0 and trips(result.err)[1] <= most, result.err


def test_a_second_run_sends_no_module(tmp_path, app):
    """Nor does the first one after the server has been started anew: the cache is on disk."""
    sent = []
    for _ in range(2):
        server = Server(tmp_path / "server")
        try:
            for _ in range(2):
                result = run([app("vector_add")], client_env(server.address("tcp"), CRICKET_STATS="1"))
                assert result.status == 0, result.err
                _, messages, total = tables(result.err)
                # the number of connections depends on how fast the server answered
                sent.append((messages.get("ck_image", messages.get("ck_image_packed")), total[3] - messages["link"][5]))
            server.stop()
        finally:
            server.kill()
    image = sent[0][0][5]
    assert image > 500
    assert [s[0] for s in sent[1:]] == [None] * 3
    assert sent[1][1] <= sent[0][1] - image
    assert [s[1] for s in sent[2:]] == [sent[1][1]] * 2, result.err


def test_events_that_are_queried_once_take_no_round_trips(server, app):
    """Over a network, the server watches them from their record on, and reports many at a time. The client asks again when it has
    heard nothing for 250 ms, as on a machine that stands still: so there are enough rounds for some of that."""
    rounds = 500
    for network in "rtt=20ms", "rtt=2ms":
        result = run([app("event_pool"), str(rounds)], client_env(server.address("tcp"), CRICKET_STATS="1", **over(network)))
        assert result.status == 0, result.err
        calls, messages, _ = tables(result.err)
        assert messages["ck_event_ask"][3] <= 2 * rounds / 5 and messages["ck_event_watch"][2] > rounds, (network, result.err)
        # they come back: fewer than half of the records needed an event of their own
        assert int(re.search(r"events: ([0-9]+)", result.out)[1]) < rounds, (network, result.err)


def test_waits_for_what_is_done_take_no_round_trips(server, app):
    """With commands behind the record, the server reports its end before the program waits."""
    result = run([app("late_waits")], client_env(server.address("tcp"), CRICKET_STATS="1", **over("rtt=10ms")))
    assert (result.status, result.out) == (0, "40 of 40 copies are there after the waits\n"), result.err
    calls, *_ = tables(result.err)
    count, *_, waited = calls["cuEventSynchronize"][:4]
    assert count == 40 and waited <= 20, result.err


def test_queries_over_a_network_are_as_right_as_near_by(run_app):
    result = run_app("polls", "tcp", **over("rtt=1ms"))
    assert result.status == 0, result.err
