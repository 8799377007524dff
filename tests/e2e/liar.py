"""tests/e2e/liar.py - a TCP proxy that changes what a server answers: bytes of its replies, never how long they are.

A changed length would only let the client wait for bytes that do not come, as it may with any server.
"""
import random
import socket
import struct
import threading

SILENCE = 3     # seconds
HEAD = 4 + 24   # a record's mark; a reply's xid, kind, status, verifier and result


class Liar:
    """Passes connections on to PORT, and changes one record of LIES, by dice of SEED: some bytes behind its head, to
    random ones, or to those that a wrong check takes for valid."""

    def __init__(self, port, seed, lies=4):
        self.to = ("127.0.0.1", port)
        self.dice = random.Random(seed)
        self.lies = lies
        self.told = 0
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.to)
            except OSError:
                return
            self.sockets += [client, server]
            threading.Thread(target=self.copy, args=(client, server), daemon=True).start()
            threading.Thread(target=self.answer, args=(server, client), daemon=True).start()

    def copy(self, source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass
        self.close(source, target)

    def answer(self, source, target):
        """Records, whole. After a lie the client may wait for what never comes: a silent connection is closed."""
        try:
            source.settimeout(SILENCE if self.lies < float("inf") else None)
            stream = source.makefile("rb")
            while len(mark := stream.read(4)) == 4:
                body = stream.read(struct.unpack(">I", mark)[0] & 0x7fffffff)
                target.sendall(self.changed(mark + body))
        except OSError:
            pass
        self.close(source, target)

    @staticmethod
    def close(*sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def changed(self, record):
        if len(record) <= HEAD or self.dice.random() * self.lies >= 1:
            return record
        self.told += 1
        record = bytearray(record)
        for _ in range(self.dice.choice((1, 1, 2, 8))):
            at = self.dice.randrange(HEAD, len(record))
            if self.dice.random() < 0.5:
                record[at] = self.dice.randrange(256)
            else:   # a word: nothing, the most, a sign, one
                at -= at % 4
                record[at:at + 4] = self.dice.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x01"))[:len(record) - at]
        return bytes(record)

    def end(self):
        self.close(self.listener)
        self.listener.close()
        self.close(*self.sockets)
        for s in self.sockets:
            s.close()
