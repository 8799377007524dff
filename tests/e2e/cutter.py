"""tests/e2e/cutter.py - a TCP proxy that breaks one of its connections when so many bytes have gone through it."""
import select
import socket
import struct
import threading

PIECE = 1 << 16


class Cutter:
    """Passes connections on to PORT of the loopback interface. The connection over which the AFTER-th byte of all
    goes is broken in the middle of what was to be sent: with a reset (HOW is "rst") or in order ("fin"). The
    others stay as they are, as with a network that forgets a connection."""

    def __init__(self, port, how, after):
        self.to = ("127.0.0.1", port)
        self.how = how
        self.left = after
        self.cut = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.end, self.wake = socket.socketpair()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        other = {}
        while True:
            ready, _, _ = select.select([self.end, self.listener, *other], [], [])
            if self.end in ready:
                break
            for s in ready:
                if s is self.listener:
                    near, _ = s.accept()
                    far = socket.create_connection(self.to)
                    other.update({near: far, far: near})
                elif s in other and not self.pass_on(s, other[s]):
                    far = other.pop(s)
                    del other[far]
                    self.close(s, far)
        self.close(*other, self.listener, self.end)

    def pass_on(self, near, far):
        """False: the connection is at its end."""
        try:
            data = near.recv(PIECE)
            if data and len(data) > self.left and not self.cut.is_set():
                self.cut.set()
                far.sendall(data[:self.left])
                if self.how == "rst":
                    for s in (near, far):
                        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            self.left -= len(data)
            far.sendall(data)
        except OSError:
            return False
        return bool(data)

    @staticmethod
    def close(*sockets):
        for s in sockets:
            s.close()

    def stop(self):
        self.wake.close()
        self.thread.join()
