#!/usr/bin/python3
"""tests/e2e/mps_daemon.py - a stand-in for nvidia-cuda-mps-control, by that name on PATH.

With -f it is the daemon: it makes the files of NVIDIA's in CUDA_MPS_PIPE_DIRECTORY, has a process with the name of
NVIDIA's server, and ends all its clients when one has a fault. The clients are processes with the emulated driver
(emu/core/mps.c). Without an option it sends the commands of its stdin to the daemon and prints the answers.

MPS_DAEMON=fail: it ends at once; deaf: it never listens; slow: it takes no client at first; stubborn: it ignores "quit". MPS_RECORD: a file with a line for
each event.
"""
import ctypes
import os
import pathlib
import selectors
import signal
import socket
import sys
import time

FOLDER = pathlib.Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
MODE = os.environ.get("MPS_DAEMON", "")


def record(*words):
    line = " ".join(map(str, words)) + "\n"
    with open(FOLDER / "control.log", "a", encoding="utf-8") as log:
        log.write(line)
    if "MPS_RECORD" in os.environ:
        with open(os.environ["MPS_RECORD"], "a", encoding="utf-8") as log:
            log.write(line)


def start_server():
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(15, b"nvidia-cuda-mps-server", 0, 0, 0)    # PR_SET_NAME
        while True:
            signal.pause()
    return pid


class Daemon:
    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.clients = {}
        self.faulty = set()     # clients that a fault has ended, and that have not ended themselves
        self.late = 2 if MODE == "slow" else 0
        self.server = start_server()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(FOLDER / "control"))
        self.socket.listen(64)
        self.selector.register(self.socket, selectors.EVENT_READ)
        (FOLDER / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))

    def drop(self, connection):
        self.selector.unregister(connection)
        self.clients.pop(connection, None)
        self.faulty.discard(connection)
        connection.close()

    def quit(self):
        os.kill(self.server, signal.SIGKILL)
        sys.exit(0)

    def obey(self, connection, words):
        if words[0] == "client":
            if self.late or self.faulty:
                self.late = max(0, self.late - 1)
                record("later", words[1])
                connection.sendall(b"later")
                return
            connection.sendall(b"ok")
            self.clients[connection] = words[1]
            record("client", words[1])
        elif words[0] == "fault":
            record("fault of", self.clients.get(connection))
            for client in self.clients:
                client.shutdown(socket.SHUT_WR)
            self.faulty |= set(self.clients)
            self.clients = {}
        elif words[0] == "get_server_list":
            connection.sendall(f"{self.server}\n".encode())
        elif words[0] == "quit":
            record("quit")
            if MODE != "stubborn":
                self.quit()

    def run(self):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.socket:
                    self.selector.register(self.socket.accept()[0], selectors.EVENT_READ)
                    continue
                try:
                    data = key.fileobj.recv(4096)
                except OSError:
                    data = b""
                for line in data.decode().splitlines():
                    if line.strip():
                        self.obey(key.fileobj, line.split())
                if not data and key.fileobj.fileno() >= 0:
                    self.drop(key.fileobj)


def send(text):
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(FOLDER / "control"))
        control.sendall(text.encode())
        control.shutdown(socket.SHUT_WR)
        while data := control.recv(4096):
            sys.stdout.write(data.decode())


if sys.argv[1:] == ["-f"]:
    assert FOLDER.stat().st_mode & 0o777 == 0o700, oct(FOLDER.stat().st_mode)
    record("start", os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    if MODE == "fail":
        record("no GPU here")
        sys.exit(1)
    while MODE == "deaf":
        time.sleep(60)
    Daemon().run()
send(sys.stdin.read())
