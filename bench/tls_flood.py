#!/usr/bin/env python3
"""bench/tls_flood.py - do programs with the token start while one address begins TLS handshakes and does not end them?

    make test-apps && bench/tls_flood.py [RATE [SECONDS]]

On loopback only, with a server of its own: RATE connections a second (1000), for at most SECONDS (10) for each kind. A row for
each kind of connection: the beginning of a handshake, the probe, a whole first message, and a handshake that is ended and followed
by nothing.
"""
import collections
import contextlib
import multiprocessing
import os
import pathlib
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from tls import PROBE, first_message, trusting  # noqa: E402  pylint: disable=wrong-import-position

OPEN = 4000     # connections of the flood at a time: more than the server keeps
PROGRAMS = 5


FIRST = {"beginning": b"\x16\x03\x01\x02\x00\x01", "probe": PROBE, "first message": first_message()}


def begin(kind, port):
    s = socket.create_connection(("127.0.0.1", port), 2)
    if kind == "whole handshake":
        return trusting().wrap_socket(s)
    s.sendall(FIRST[kind])
    return s


def flood(kind, port, rate, stop, made):
    """Begin RATE connections a second until STOP."""
    mine, due = collections.deque(), time.monotonic()
    while not stop.is_set():
        due += 1 / rate
        time.sleep(max(0, due - time.monotonic()))
        with contextlib.suppress(OSError, ssl.SSLError):
            mine.append(begin(kind, port))
            made.value += 1
        if len(mine) > OPEN:
            mine.popleft().close()


def start_program(port, folder):
    """How long a program needs from its start to its end."""
    env = {**os.environ, "REMOTE_GPU_ADDRESS": f"127.0.0.1:{port}", "LD_PRELOAD": str(ROOT / "cpu" / "cricket-client.so"),
           "CRICKET_TOKEN": "sesame", "CRICKET_TLS_CA": f"{folder}/cert.pem"}
    began = time.monotonic()
    done = subprocess.run([ROOT / "tests" / "test_apps" / "bin" / "vector_add"], env=env, capture_output=True, timeout=60, check=False)
    return done.returncode, time.monotonic() - began


def processes(pid):
    """The names of a process's descendants."""
    names = []
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        with contextlib.suppress(OSError):
            names += [pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip(), *processes(child)]
    return names


def row(kind, rate, seconds, server, port, folder):
    stop, made = multiprocessing.Event(), multiprocessing.Value("q", 0)
    attacker = multiprocessing.Process(target=flood, args=(kind, port, rate, stop, made), daemon=True)
    attacker.start()
    time.sleep(seconds / 4)
    began, before, results, relays = time.monotonic(), made.value, [], 0
    while len(results) < PROGRAMS and time.monotonic() - began < 3 * seconds / 4:
        results.append(start_program(port, folder))
        relays = max(relays, processes(server.pid).count("cricket-tls") - 1)
    pace = (made.value - before) / (time.monotonic() - began)
    stop.set()
    attacker.join(10)
    attacker.kill()
    times = sorted(t for _, t in results)
    print(f"{kind:16} {pace:6.0f}/s  {sum(status == 0 for status, _ in results)} of {len(results)} programs, "
          f"{times[0]:.2f} to {times[-1]:.2f} s; at most {relays} relays; load {os.getloadavg()[0]:.1f}", flush=True)


def main():
    rate, seconds = (int(x) for x in (sys.argv[1:] + ["1000", "10"][len(sys.argv) - 1:])[:2])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server_program = ROOT / "cpu" / "cricket-rpc-server"
        subprocess.run([server_program, "--new-cert", folder, "127.0.0.1"], check=True, capture_output=True)
        pathlib.Path(folder, "token").write_text("sesame\n", encoding="ascii")
        with open(f"{folder}/log", "wb") as log, subprocess.Popen(
                [server_program, "--driver", "emu", "--listen", f"127.0.0.1:{port}", "--unix", f"{folder}/s", "--cache-dir", f"{folder}/c",
                 "--token-file", f"{folder}/token", "--tls-cert", f"{folder}/cert.pem", "--tls-key", f"{folder}/key.pem"],
                stderr=log) as server:
            try:
                while start_program(port, folder)[0] != 0:
                    time.sleep(0.1)
                print(f"quiet            {'':10}{max(start_program(port, folder)[1] for _ in range(PROGRAMS)):.2f} s")
                for kind in ("beginning", "probe", "first message", "whole handshake"):
                    row(kind, rate, seconds, server, port, folder)
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
