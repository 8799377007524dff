"""tests/e2e/stranger.py - a client of the protocol that checks nothing and keeps no rule of its own.

For what no client of ours does. Messages are named as in rpc/driver.api; their arguments are built
with u32, u64 and opaque.
"""
import array
import hashlib
import re
import socket
import struct

from conftest import HANG, ROOT

HELLO, JOIN = 1, 2
COMMANDS, CALLS = 1, 2      # kinds of connections that join
NUMBERS = {name: int(number) for name, number in
           re.findall(r"PROC_(\w+)\(.*?= (\d+);", (ROOT / "rpc" / "cricket.x").read_text())}


def u32(value):
    return struct.pack(">I", value & 0xffffffff)


def u64(value):
    return struct.pack(">Q", value & 0xffffffffffffffff)


def padded(data):
    return data + bytes(-len(data) % 4)


def opaque(data):
    return u32(len(data)) + padded(data)


def name_of(image):
    """The hash by which an image is loaded."""
    return hashlib.blake2b(image, digest_size=32).digest()


def call(number, args, extra=0):
    """A record with one RPC call. EXTRA: bytes of payload that come behind it."""
    body = struct.pack(">10I", 1, 0, 2, 99, 1, number, 0, 0, 0, 0) + args
    return u32(0x80000000 | (len(body) + extra)) + body


def received(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError(f"closed after {len(data)} of {size} bytes")
        data += piece
    return data


def results(connection):
    """The results of the next reply."""
    data, mark = b"", 0
    while not mark & 0x80000000:
        mark, = struct.unpack(">I", received(connection, 4))
        data += received(connection, mark & 0x7fffffff)
    return data[24:]


class Refused(Exception):
    """The answer to the hello is no session; the arguments are its status and its message."""


def place(machine, ended=None):
    """Where process 1 is, for its hello: on MACHINE, an id of 16 bytes. ENDED: processes that have ended, as the server has asked."""
    nothing = bytes(4 + 16 + 8 + 32 + 8 + 4)    # as to queue, memory, prefix, need
    pids = ended or []
    return nothing + machine + u32(ended is not None) + u32(len(pids)) + b"".join(map(u32, pids))


class Session:
    """A session with its command connection, and one lane for calls. SOURCE: the address that it comes from; RESUME: the seconds
    that it should outlive its connections, which are lasting channels then; PLACE: see place(); PID: its process, as it says."""

    def __init__(self, server, transport="tcp", token=b"", commands=True, source="", protocol=1, resume=0, place=b"", pid=1):
        self.server, self.transport, self.source = server, transport, source
        self.connections = []
        self.lane = self.connect()
        self.lane.sendall(call(HELLO, u32(protocol) + opaque(b"test") + opaque(token) + opaque(b"stranger") +
                               opaque(b"here") + u32(pid) + u32(resume) + place))
        self.hello = results(self.lane)
        status, length = struct.unpack(">2I", self.hello[:8])
        message = self.hello[8:8 + length].decode()
        if status:
            self.end()
            raise Refused(status, message)
        at = 8 + len(padded(self.hello[8:8 + length])) + 4
        at += 4 + len(padded(bytes(struct.unpack(">I", self.hello[at:at + 4])[0])))
        self.name = self.hello[at:at + 32]
        self.sent = 0
        self.context = 0
        if commands:
            self.commands = self.join(COMMANDS)
            self.send("ck_primary_retain", u64(7) + u32(0))
            self.context = 7

    def connect(self):
        if self.transport == "tcp":
            connection = socket.create_connection(("127.0.0.1", self.server.port), HANG, (self.source, 0))
        else:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(self.server.unix))
        connection.settimeout(HANG)
        self.connections.append(connection)
        return connection

    def join(self, kind=CALLS):
        """One more connection of the session; EOFError or ConnectionError where it is refused."""
        connection = self.connect()
        connection.sendall(call(JOIN, self.name + u32(kind)))
        status, = struct.unpack(">I", results(connection)[:4])
        if status:
            raise ConnectionRefusedError(status)
        return connection

    def send(self, name, args, payload=b""):
        """A one-way message."""
        self.sent += 1
        message = call(NUMBERS[name], u64(self.sent) + u64(self.context) + args, len(padded(payload)))
        self.commands.sendall(message + padded(payload))

    def ask(self, name, args=b"", fd=None):
        """A call: its error, and what comes behind it."""
        message = call(NUMBERS[name], u64(self.sent) + u64(self.context) + args)
        files = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        sent = self.lane.sendmsg([message], files)
        self.lane.sendall(message[sent:])
        reply = results(self.lane)
        return struct.unpack(">i", reply[:4])[0], reply[12:]

    def error(self):
        """Waits for all that was sent; the error of the first that failed."""
        return self.ask("ck_wait")[0]

    def upload(self, image):
        self.send("ck_image", name_of(image) + u64(len(image)) + u64(0) + u32(len(image)), image)

    def build(self, module, name):
        """Makes a module of the image NAME; the error."""
        return self.ask("ck_module_build", u64(module) + u32(0) + name + u32(0))[0]

    def end(self):
        for connection in self.connections:
            connection.close()
