"""tests/e2e/test_evolution.py - client and server of different releases with one CK_PROTOCOL."""
import socket
import struct
import sys
import threading

import pytest

import stock
from conftest import HANG, KIND, ROOT, clean_env, client_env, run
from stranger import COMMANDS, HELLO, JOIN, NUMBERS, Session, call, opaque, received, results, u32, u64

PROC_UNAVAIL = 3
NOT_SUPPORTED = 801
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL(None)
context, dptr, free, total = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(dptr), ctypes.c_size_t(4096)) == 0
back = ctypes.create_string_buffer(4096)
for _ in range(2):
    print(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
          cuda.cuMemsetD8Async(dptr, ctypes.c_ubyte(1), ctypes.c_size_t(4096), None),
          cuda.cuMemcpyHtoD_v2(dptr, b"x" * 4096, ctypes.c_size_t(4096)),
          cuda.cuMemcpyDtoH_v2(back, dptr, ctypes.c_size_t(4096)), back.raw == b"x" * 4096)
"""


def record(connection):
    """The next record, without its marks."""
    data, mark = b"", 0
    while not mark & 0x80000000:
        mark, = struct.unpack(">I", received(connection, 4))
        data += received(connection, mark & 0x7fffffff)
    return data


def known_field():
    """The bits in the reply to hello, one for each message."""
    size = max(NUMBERS.values()) // 8 + 1
    bits = bytearray(size)
    for number in NUMBERS.values():
        bits[number // 8] |= 1 << number % 8
    return u32(size) + bits


class Elder:
    """What today's server would be without some messages: a proxy that knows none of UNKNOWN, and says so in the
    reply to hello where it TELLS. A call of them gets PROC_UNAVAIL; a one-way message ends the connection."""

    def __init__(self, server, unknown, tells):
        self.server, self.tells = server, tells
        self.unknown = {NUMBERS[name] for name in unknown}
        self.field = known_field()
        self.asked = []         # the numbers of UNKNOWN that have come all the same
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.server.port))
            kinds = []
            for work in (self.requests, self.replies):
                threading.Thread(target=self.guarded, args=(work, near, far, kinds), daemon=True).start()

    @staticmethod
    def guarded(work, near, far, kinds):
        try:
            work(near, far, kinds)
        except (EOFError, OSError):
            pass
        for s in (near, far):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def requests(self, near, far, kinds):
        commands = False
        while True:
            data = record(near)
            number, = struct.unpack(">I", data[20:24])
            kinds.append(number)
            commands = commands or number == JOIN and data[-4:] == u32(COMMANDS)
            if number not in self.unknown:
                far.sendall(u32(0x80000000 | len(data)) + data)
                continue
            self.asked.append(number)
            if commands:
                return
            near.sendall(u32(0x80000000 | 24) + data[:4] + struct.pack(">5I", 1, 0, 0, 0, PROC_UNAVAIL))

    def replies(self, near, far, kinds):
        while True:
            data = record(far)
            if kinds[0] == HELLO and self.tells and self.field in data:     # else the server asks whether earlier programs have ended
                data = self.without(data)
                kinds[0] = None
            near.sendall(u32(0x80000000 | len(data)) + data)

    def without(self, data):
        """The reply to hello without the bits of UNKNOWN in the field that has one for each message."""
        at = data.index(self.field) + 4
        bits = bytearray(data)
        for number in self.unknown:
            assert bits[at + number // 8] >> number % 8 & 1
            bits[at + number // 8] &= ~(1 << number % 8)
        return bytes(bits)

    def end(self):
        self.listener.close()


@pytest.mark.parametrize("unknown, tells, first, asked", [
    ((), True, "0 0", 0),
    (("cuMemGetInfo_v2", "cuMemsetD8Async"), True, f"{NOT_SUPPORTED} {NOT_SUPPORTED}", 0),
    (("cuMemGetInfo_v2",), False, f"{NOT_SUPPORTED} 0", 2),
], ids=["all known", "told", "not told"])
def test_a_client_goes_on_with_a_server_that_lacks_messages(server, unknown, tells, first, asked):
    elder = Elder(server, unknown, tells)
    result = run([sys.executable, "-c", PROGRAM], client_env(elder.address, CRICKET_RESUME="0"))      # which reads records
    elder.end()
    assert result.status == 0, result.err
    assert result.out.splitlines() == [f"{first} 0 0 True"] * 2
    assert len(elder.asked) == asked
    for name in unknown:
        assert len(result.lines_about(f"does not know {name}:")) == 1, result.err


def test_times_between_events_come_one_by_one_from_an_older_server(server):
    elder = Elder(server, ("ck_event_times", "ck_wait_times"), True)
    result = run([sys.executable, ROOT / "tests/e2e/event_times_program.py"],
                 client_env(elder.address, CRICKET_RESUME="0"))
    elder.end()
    assert (result.status, result.err, elder.asked) == (0, "", [])


@pytest.mark.skipif(bool(KIND), reason="the client is not ours to instrument")
def test_the_client_of_0_1_0_computes(server, tmp_path):
    client = stock.build(tmp_path, ROOT / "tests" / "data" / "protocol" / "client-0.1.0.x")
    result = run([client, "127.0.0.1", server.port, stock.IMAGE, stock.name_of_image()], clean_env())
    assert result.status == 0 and result.out.endswith("are right\n"), result.err + server.log()


@pytest.mark.parametrize("payload", [b"", b"x" * 100_000], ids=["short", "long"])
def test_an_unknown_call_is_refused_and_the_session_lives(server, payload):
    session = Session(server)
    body = u64(session.sent) + u64(7) + opaque(payload)
    session.lane.sendall(call(9999, body))
    reply = record(session.lane)
    assert reply[4:] == struct.pack(">5I", 1, 0, 0, 0, PROC_UNAVAIL)
    assert session.error() == 0
    session.end()


def test_a_newer_hello_is_taken(server):
    connection = socket.create_connection(("127.0.0.1", server.port), HANG)
    args = u32(1) + opaque(b"9.9") + opaque(b"") + opaque(b"newer") + opaque(b"here") + u32(1)
    connection.sendall(call(HELLO, args + opaque(b"a field of 9.9") + u32(7)))
    reply = results(connection)
    assert reply[:4] == u32(0)
    connection.close()


def test_a_reply_to_hello_with_more_behind_it_is_taken(server):
    class Newer(Elder):
        def without(self, data):
            return data + opaque(b"a field of 9.9") + u32(7)

    newer = Newer(server, (), True)
    result = run([sys.executable, "-c", PROGRAM], client_env(newer.address, CRICKET_RESUME="0"))
    newer.end()
    assert result.out.splitlines() == ["0 0 0 0 True"] * 2, result.err
