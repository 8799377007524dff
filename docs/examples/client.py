#!/usr/bin/env python3
"""docs/examples/client.py - a client of cricket-rpc-server in Python, with its standard library alone.

    client.py HOST PORT add_one.ptx

It uploads numbers, runs a kernel on them and downloads them. docs/protocol.md explains the rules.
"""
import hashlib
import os
import socket
import struct
import sys

PROGRAM, VERSION, PROTOCOL = 99, 1, 1
# Numbers of procedures, from rpc/cricket.x
HELLO, JOIN, UPLOAD, DOWNLOAD, IMAGE, LOAD, FUNCTION, LAUNCH, RETAIN = 1, 2, 10, 11, 15, 16, 18, 20, 25
ALLOC = 310             # cuMemAlloc_v2
COMMANDS, CALLS = 1, 2  # kinds of connections
LAST = 0x80000000       # in a record's mark: its last fragment


def u32(*values):
    return struct.pack(f">{len(values)}I", *values)


def u64(*values):
    return struct.pack(f">{len(values)}Q", *values)


def padded(data):
    return data + bytes(-len(data) % 4)


def opaque(data):
    """opaque<> and string<>: the length, the bytes, zeros up to a multiple of 4."""
    return u32(len(data)) + padded(data)


class Reader:
    """XDR values, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, size):
        self.at += size + -size % 4
        return self.data[self.at - (size + -size % 4):][:size]

    def u32(self):
        return struct.unpack(">I", self.bytes(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.bytes(8))[0]

    def opaque(self):
        return self.bytes(self.u32())


class Connection:
    """A connection that carries RPC records."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), 30)
        self.xid = 0

    def send(self, number, args):
        """One call in a record of one fragment: no credentials, no verifier."""
        self.xid += 1
        body = u32(self.xid, 0, 2, PROGRAM, VERSION, number, 0, 0, 0, 0) + args
        self.socket.sendall(u32(LAST | len(body)) + body)

    def receive(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError("the server has closed the connection")
            data += piece
        return data

    def call(self, number, args):
        """Send a call and wait for its reply, whose fragments are joined."""
        self.send(number, args)
        data, mark = b"", 0
        while not mark & LAST:
            mark = struct.unpack(">I", self.receive(4))[0]
            data += self.receive(mark & ~LAST)
        reply = Reader(data)
        xid, _, denied, _, verifier, stat = (reply.u32() for _ in range(6))
        if xid != self.xid or denied or verifier or stat:
            raise RuntimeError(f"RPC refused: {denied}, {stat}")
        return reply


class Session:
    """A session: the connection of its hello, one for one-way messages and one for calls."""

    def __init__(self, host, port):
        self.hello = Connection(host, port)
        args = u32(PROTOCOL) + opaque(b"example") + opaque(b"") + opaque(b"client.py") + \
            opaque(b"example") + u32(os.getpid())
        r = self.hello.call(HELLO, args)
        status, message = r.u32(), r.opaque().decode()
        if status:
            raise RuntimeError(message)
        r.u32()                         # the server's protocol
        self.release = r.opaque().decode()
        self.name = r.bytes(32)         # session and key
        self.sent, self.context = 0, 1
        self.commands, self.calls = Connection(host, port), Connection(host, port)
        for connection, kind in ((self.commands, COMMANDS), (self.calls, CALLS)):
            if connection.call(JOIN, self.name + u32(kind)).u32():
                raise RuntimeError("cannot join the session")

    def send(self, number, args):
        """A one-way message: nothing comes back."""
        self.sent += 1
        self.commands.send(number, u64(self.sent, self.context) + args)

    def ask(self, number, args):
        """A call: it waits for all one-way messages so far, and reports the first of their errors."""
        r = self.calls.call(number, u64(self.sent, self.context) + args)
        err = r.u32()
        r.u32(), r.u32()                # output, delivered
        if err:
            raise RuntimeError(f"CUDA error {err}")
        return r


def main():
    if len(sys.argv) != 4 or not sys.argv[2].isdigit():
        sys.exit("usage: client.py HOST PORT add_one.ptx")
    host, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(path, "rb") as f:
        image = f.read()
    name = hashlib.blake2b(image, digest_size=32).digest()
    numbers = [3 * i for i in range(1000)]
    data = struct.pack("<1000i", *numbers)
    module, function = 2, 3             # the client chooses the numbers of its objects

    s = Session(host, port)
    print(f"server {s.release}")
    s.send(RETAIN, u64(s.context) + u32(0))
    address = s.ask(ALLOC, u64(len(data))).u64()
    s.send(UPLOAD, u64(address, 0) + u32(0) + opaque(data))
    s.send(IMAGE, name + u64(len(image), 0) + opaque(image))
    s.send(LOAD, u64(module) + u32(0) + name)
    s.send(FUNCTION, u64(function, module) + opaque(b"add_one"))
    params = struct.pack("<QI", address, len(numbers))
    s.send(LAUNCH, u64(function) + u32(8, 1, 1, 128, 1, 1, 0) + u64(0) + opaque(b"") + opaque(params))
    r = s.ask(DOWNLOAD, u64(address, 0, len(data)) + u32(0))
    back, moved = r.opaque(), r.u32()
    if moved or list(struct.unpack("<1000i", back)) != [n + 1 for n in numbers]:
        sys.exit("the data are wrong")
    print(f"{len(numbers)} numbers are right")


if __name__ == "__main__":
    main()
