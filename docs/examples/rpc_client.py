#!/usr/bin/env python3
"""docs/examples/rpc_client.py ADDRESS PORT - a client of cricket-rpc-server in Python's standard library alone.

It begins a session, allocates memory, uploads numbers, runs a kernel on them, downloads and compares them.
docs/protocol.md explains the steps; rpc/cricket.x has all messages.
"""
import hashlib
import os
import socket
import struct
import sys

HELLO, JOIN = 1, 2
# Numbers of procedures, from rpc/cricket.x.
UPLOAD, DOWNLOAD, IMAGE, MODULE_BUILD, FUNCTION, LAUNCH, PRIMARY_RETAIN, MEM_ALLOC = 10, 11, 15, 17, 18, 20, 25, 310
COMMANDS, CALLS = 1, 2      # kinds of connections
CONTEXT, MODULE_ID, FUNCTION_ID = 1, 2, 3   # ids that this client chooses
COUNT = 1000

PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry triple(.param .u64 data, .param .u32 n)
{
    .reg .u64 %a<3>;
    .reg .u32 %r<6>;
    .reg .pred %p<2>;
    ld.param.u64 %a0, [data];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r3, %r1, %r2, %r3;
    setp.ge.u32 %p0, %r3, %r0;
    @%p0 bra done;
    mul.wide.u32 %a1, %r3, 4;
    add.u64 %a1, %a0, %a1;
    ld.global.u32 %r4, [%a1];
    mul.lo.u32 %r4, %r4, 3;
    st.global.u32 [%a1], %r4;
done:
    ret;
}
\0"""


def u32(*values):
    return struct.pack(f">{len(values)}I", *values)


def u64(*values):
    return struct.pack(f">{len(values)}Q", *values)


def opaque(data):
    """XDR: length, bytes, zeros up to a multiple of 4. Strings are the same."""
    return u32(len(data)) + data + bytes(-len(data) % 4)


class Connection:
    """RPC calls over TCP: each message is one record, whose length and a bit for the last fragment come first."""

    def __init__(self, address):
        self.socket = socket.create_connection(address)
        self.xid = 0

    def send(self, procedure, arguments):
        self.xid += 1
        message = u32(self.xid, 0, 2, 99, 1, procedure, 0, 0, 0, 0) + arguments
        self.socket.sendall(u32(0x80000000 | len(message)) + message)

    def receive(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                sys.exit("the server has closed the connection")
            data += piece
        return data

    def call(self, procedure, arguments):
        """The bytes of the result."""
        self.send(procedure, arguments)
        while True:
            message, last = b"", False
            while not last:
                mark, = struct.unpack(">I", self.receive(4))
                last = bool(mark & 0x80000000)
                message += self.receive(mark & 0x7fffffff)
            xid, _, reply_status, _, _, accept_status = struct.unpack_from(">6I", message)
            if xid != self.xid:     # data that the server sends ahead of a reply
                continue
            if reply_status or accept_status:
                sys.exit(f"procedure {procedure}: refused by RPC")
            return message[24:]

    def cuda(self, procedure, arguments):
        """A result that begins with a CUresult; what is behind the head of three words."""
        result = self.call(procedure, arguments)
        error, = struct.unpack_from(">i", result)
        if error:
            sys.exit(f"procedure {procedure}: CUDA error {error}")
        return result[12:]


class Session:
    """The two connections of a session, and the numbers of its commands."""

    def __init__(self, address):
        self.calls = Connection(address)
        token = os.environ.get("CRICKET_TOKEN", "").encode()
        result = self.calls.call(HELLO, u32(1) + opaque(b"example") + opaque(token) + opaque(b"rpc_client.py") +
                                 opaque(socket.gethostname().encode()) + u32(os.getpid()))
        status, length = struct.unpack_from(">2I", result)
        if status:
            sys.exit(result[8:8 + length].decode())
        at = 8 + length + -length % 4 + 4                   # behind message and protocol
        length, = struct.unpack_from(">I", result, at)      # of the release
        at += 4 + length + -length % 4
        key = result[at:at + 32]                            # session id and key
        self.commands = Connection(address)
        if self.commands.call(JOIN, key + u32(COMMANDS)) != u32(0):
            sys.exit("the server does not let us join")
        self.last = 0

    def command(self, procedure, arguments):
        """One-way: no reply. Commands have numbers from 1 on."""
        self.last += 1
        self.commands.send(procedure, u64(self.last, CONTEXT) + arguments)

    def call(self, procedure, arguments):
        """Started when the last command has been carried out."""
        return self.calls.cuda(procedure, u64(self.last, CONTEXT) + arguments)


def main():
    session = Session((sys.argv[1], int(sys.argv[2])))
    name = hashlib.blake2b(PTX, digest_size=32).digest()
    session.command(PRIMARY_RETAIN, u64(CONTEXT) + u32(0))
    session.command(IMAGE, name + u64(len(PTX), 0) + opaque(PTX))
    session.call(MODULE_BUILD, u64(MODULE_ID) + u32(0) + name + opaque(b""))
    session.command(FUNCTION, u64(FUNCTION_ID, MODULE_ID) + opaque(b"triple"))
    numbers = struct.pack(f"<{COUNT}i", *range(COUNT))
    memory, = struct.unpack(">Q", session.call(MEM_ALLOC, u64(len(numbers))))
    session.command(UPLOAD, u64(memory, 0) + u32(0) + opaque(numbers))
    parameters = struct.pack("<QI", memory, COUNT)          # as the kernel declares them
    session.command(LAUNCH, u64(FUNCTION_ID) + u32((COUNT + 127) // 128, 1, 1, 128, 1, 1, 0) + u64(0) +
                    opaque(b"") + opaque(parameters))
    result = session.call(DOWNLOAD, u64(memory, 0, len(numbers)) + u32(0))
    length, = struct.unpack_from(">I", result)
    moved, = struct.unpack_from(">i", result, 4 + length)
    if moved or length != len(numbers):
        sys.exit(f"download: CUDA error {moved}, {length} bytes")
    got = struct.unpack_from(f"<{COUNT}i", result, 4)
    wrong = sum(value != 3 * i for i, value in enumerate(got))
    print(f"{COUNT} numbers, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
