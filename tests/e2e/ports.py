"""tests/e2e/ports.py - TCP ports of the loopback interface for tests that run beside one another."""
import collections
import contextlib
import os
import pathlib
import random
import socket


# Of this process: a test may want one of them to stay without a listener.
LAST = collections.deque(maxlen=100)


def is_of_others(port):
    """Whether a test may take it that runs beside this one: in another process of pytest, or with another sanitizer."""
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    kind = next((i for i, name in enumerate(("SAN", "TSAN"), 1) if os.environ.get(f"CRICKET_TEST_{name}", "") not in ("", "0")), 0)
    return port % 3 != kind or port // 3 % workers != int(worker.removeprefix("gw"))


def free_port():
    """A TCP port of the loopback interface without a listener.

    Below the range from which the kernel takes ports by itself: one out of that range may be somebody's, a
    connecting client's for instance, before the test has used it.
    """
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(max(first - 20000, 1024), max(first, 2048))
        if port in LAST or is_of_others(port):
            continue
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            LAST.append(port)
            return port


def reserve_port():
    """A socket that is bound to a port of its own and refuses connections. Others of this process may listen there. While nothing
    listens, no other program gets the port: a client would come back to another server, which does not know its session."""
    while True:
        s = socket.socket()
        try:
            s.bind(("127.0.0.1", free_port()))
        except OSError:
            s.close()
            continue
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return s
