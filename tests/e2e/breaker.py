"""tests/e2e/breaker.py - a TCP proxy that breaks connections again and again, in the middle of what they carry."""
import random
import select
import socket
import struct
import threading

from ports import reserve_port

PIECE = 1 << 16
RESET = struct.pack("ii", 1, 0)


class Breaker:
    """Passes connections on to PORT of the loopback interface, and cuts CUTS times: each time when a further number
    of bytes, LEAST to MOST, has gone through it in both directions together. A cut is in the middle of a piece, so
    at any byte. The first exchange, on the first connection that is used, is left alone: before it there is no session. A
    cut breaks all connections, or only the one that carries that byte; with a reset, or in order.

    dark(): from now on, break all and refuse new ones; light(): let them through again.
    """

    def __init__(self, port, cuts=0, most=20000, seed=1, hows=("rst", "fin"), least=1):
        self.to = ("127.0.0.1", port)
        self.rng = random.Random(seed)
        self.hows, self.least, self.most = hows, least, most
        self.cuts = self.wanted = cuts
        self.left = self.next()
        self.is_dark = False
        self.place = None
        self.listener = self.listen(0)
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.other = {}
        self.speakers = set()   # connections on which a client has said something
        self.near = set()
        self.end, self.wake = socket.socketpair()
        self.jobs = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def listen(self, port):
        if not port:
            self.place = reserve_port()
            port = self.place.getsockname()[1]
        return socket.create_server(("127.0.0.1", port), backlog=128)

    def connect(self):
        return socket.create_connection(self.to)

    def next(self):
        return self.rng.randint(self.least, self.most)

    @property
    def done(self):
        """How many cuts there have been."""
        return self.wanted - self.cuts

    def serve(self):
        while True:
            watched = [self.end, *self.other] + ([self.listener] if self.listener else [])
            ready, _, _ = select.select(watched, [], [], 1)
            if self.end in ready:
                job = self.end.recv(1)
                if not job:
                    break
                self.jobs.pop(0)()
                continue
            for s in ready:
                if s is self.listener:
                    self.accept()
                elif s in self.other and not self.pass_on(s):
                    self.drop(s)
        self.drop_all("fin")
        for s in (self.listener, self.place, self.end):
            if s:
                s.close()

    def accept(self):
        near, _ = self.listener.accept()
        try:
            far = self.connect()
        except OSError:
            near.close()
            return
        for s in (near, far):
            if s.family != socket.AF_UNIX:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.other.update({near: far, far: near})
        self.near.add(near)

    def pass_on(self, near):
        """False: the connection is at its end."""
        try:
            data = near.recv(PIECE)
            if near in self.near:
                self.speakers.add(near)
            if len(self.speakers) < 2:
                self.other[near].sendall(data)
                return bool(data)
            if self.cuts > 0 and len(data) >= self.left:
                self.other[near].sendall(data[:self.left])
                self.cut(near)
                return True
            self.left -= len(data)
            self.other[near].sendall(data)
        except OSError:
            return False
        return bool(data)

    def cut(self, near):
        self.cuts -= 1
        self.left = self.next()
        how = self.rng.choice(self.hows)
        if self.rng.random() < 0.5:
            self.drop(near, how)
        else:
            self.drop_all(how)

    def drop(self, near, how="fin"):
        far = self.other.pop(near)
        del self.other[far]
        for s in (near, far):
            if how == "rst":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            s.close()

    def drop_all(self, how):
        while self.other:
            self.drop(next(iter(self.other)), how)

    def do(self, job):
        """Has the thread of the proxy do JOB, and waits for it."""
        done = threading.Event()
        self.jobs.append(lambda: (job(), done.set()))
        self.wake.send(b"j")
        assert done.wait(100)     # as HANG in conftest.py, which needs pytest; bench/ does without

    def dark(self, how="rst"):
        def job():
            self.listener.close()
            self.listener = None
            self.drop_all(how)
        self.do(job)

    def light(self):
        def job():
            self.listener = self.listen(self.port)
        self.do(job)

    def stop(self):
        self.wake.close()
        self.thread.join()
