"""tests/e2e/names.py - a small DNS server on the loopback interface: SRV, A and NS of a table, over UDP and TCP."""
import contextlib
import socket
import struct
import threading

TYPES = {"A": 1, "SRV": 33}


def encoded(name):
    """A name as labels."""
    return b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split(".") if label) + b"\0"


def data_of(kind, value):
    if kind == "A":
        return socket.inet_aton(value)
    priority, weight, port, target = value
    return struct.pack("!HHH", priority, weight, port) + encoded(target)


def question_in(message):
    """Name, type, and where the question ends."""
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode())
        at += 1 + message[at]
    return ".".join(labels).lower(), struct.unpack("!H", message[at + 1:at + 3])[0], at + 5


class Names:
    """Answers for TABLE: {(name, "SRV"): [(priority, weight, port, target), ...], (name, "A"): [address, ...]}."""

    def __init__(self, table, port=0, truncates=False):
        self.table, self.truncates, self.asked = table, truncates, []
        while not self.bind(port):      # until both have the same number
            assert port == 0
        self.port = self.udp.getsockname()[1]
        for run in (self.serve_udp, self.serve_tcp):
            threading.Thread(target=run, daemon=True).start()

    def bind(self, port):
        self.tcp = socket.create_server(("127.0.0.1", port))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self.udp.bind(("127.0.0.1", self.tcp.getsockname()[1]))
        except OSError:
            self.tcp.close()
            self.udp.close()
            return False
        return True

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def answer(self, message, short=False):
        name, kind, end = question_in(message)
        self.asked.append((name, kind))
        known = any(n == name for n, _ in self.table)
        records = [(t, v) for (n, t), values in self.table.items() for v in values if n == name and TYPES[t] == kind]
        if short:
            return message[:2] + struct.pack("!HHHHH", 0x8780, 1, 0, 0, 0) + message[12:end]
        body = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", TYPES[t], 1, 5, len(data_of(t, v))) + data_of(t, v)
                        for t, v in records)
        return message[:2] + struct.pack("!HHHHH", 0x8580 if known else 0x8583, 1, len(records), 0, 0) + message[12:end] + body

    def serve_udp(self):
        with contextlib.suppress(OSError):
            while True:
                message, client = self.udp.recvfrom(4096)
                self.udp.sendto(self.answer(message, self.truncates), client)

    def serve_tcp(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.tcp.accept()
                with connection:
                    size = struct.unpack("!H", connection.recv(2, socket.MSG_WAITALL))[0]
                    reply = self.answer(connection.recv(size, socket.MSG_WAITALL))
                    connection.sendall(struct.pack("!H", len(reply)) + reply)

    def close(self):
        self.tcp.shutdown(socket.SHUT_RDWR)
        self.tcp.close()
        self.udp.close()
