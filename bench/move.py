#!/usr/bin/env python3
"""bench/move.py - how long a program waits while its session moves to another server, and how long the move takes.

    bench/move.py [--driver emu|cuda] [--gb N] [--changes PERCENT] [--turns N] [--folder DIR]

Starts two servers for one GPU, the second one in a network namespace of its own, which NVIDIA's driver needs; and one program that holds
N GiB of random bytes, of which it changes PERCENT of the 2 MiB pieces once a second. Each turn moves the session to the other server. A row
has medians: the time of the command; the pause as the command and as the program sees it (the longest read of 8 bytes); the MiB that were
sent, and the rounds beside the program. At the end the program says whether its memory is the same. Both servers need GPU memory for the
session at the same time only for its contexts. CRIU's files of the receiver are in DIR (/dev/shm). Needs root and CRIU.
"""
import argparse
import contextlib
import ctypes
import os
import pathlib
import re
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from checkpoint import program, tell
from suspend import ROOT, Server, row
from survive import KEEP, criu

sys.path.append(str(ROOT / "tests" / "e2e"))
from namespaces import LOOPBACK

NEW_NETWORK = 0x40000000


def copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 20):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(listener, port):
    """Passes connections on to PORT of this thread's network."""
    while True:
        here, there = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
        for end in (here, there):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=copy, args=(here, there), daemon=True).start()
        threading.Thread(target=copy, args=(there, here), daemon=True).start()


def door(server):
    """A port of this network that leads to a server in another one. Its threads stay there."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        space = os.open(f"/proc/{server.process.pid}/ns/net", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(space, NEW_NETWORK):
            sys.exit(f"move: no way into the server's network: {os.strerror(ctypes.get_errno())}")
        serve(listener, server.port)
    threading.Thread(target=run, daemon=True).start()
    return listener.getsockname()[1]


def move(here, there, port, tool, folder):
    """One move: the row's columns, or None."""
    (session,) = here.ask(command="sessions")[0]["sessions"]
    receive = [there.command[0], "--unix", str(there.home / "s"), "--criu", tool, "--ctl", "receive", folder]
    begin = time.monotonic()
    done = subprocess.run([ROOT / "cpu" / "cricket", "move", "-s", f"unix:{here.home}/s", session["session"], f"127.0.0.1:{port}",
                           shlex.join(receive)], capture_output=True, text=True)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        row("move", refused=done.stderr.strip())
        return None

    def number(pattern):
        found = re.search(pattern, done.stdout)
        return int(found[1]) if found else 0
    return {"s": round(seconds, 2), "pause_ms": number(r"a pause of (\d+) ms"), "sent_mib": number(r"(\d+) MiB were sent"),
            "rounds": number(r"(\d+) rounds?")}


def moves(servers, ports, process, tool, options):
    rows = []
    if options.changes:
        tell(process, f"churn {round(100 / options.changes)}")
    for turn in range(options.turns):
        here, there = turn % 2, 1 - turn % 2
        tell(process, "gap")
        done = move(servers[here], servers[there], ports[there], tool, options.folder)
        if not done:
            return False
        rows.append({**done, "program_ms": int(tell(process, "gap"))})
    row("move", gb=options.gb, changes=f"{options.changes:g}%/s", turns=len(rows), first_s=rows[0]["s"],
        **{name: statistics.median(r[name] for r in rows) for name in rows[0]})
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--changes", type=float, default=1)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--folder", default="/dev/shm")
    options = parser.parse_args()
    options.content = "random"
    tool, obstacle = criu()
    if obstacle:
        row("move", refused=obstacle)
        return 1
    apart = ["unshare", "-n", "sh", "-ec", f"{sys.executable} -c '{LOOPBACK}'\nexec \"$@\"", "sh"]
    with contextlib.ExitStack() as ends:
        options.folder = ends.enter_context(tempfile.TemporaryDirectory(dir=options.folder))
        servers = []
        for before in ([], apart):
            servers.append(Server(options.driver, "--keep", KEEP, "--criu", tool, before=before))
            ends.callback(servers[-1].end)
        process = program(servers[0], options)
        ends.callback(process.kill)
        assert process.stdout.readline() == "ready\n", (servers[0].home / "log").read_text()
        good = moves(servers, [servers[0].port, door(servers[1])], process, tool, options)
        if not good:
            for server in servers:
                print((pathlib.Path(server.home) / "log").read_text()[-3000:], file=sys.stderr)
        words = process.communicate("rest\n\n")[0].strip().split("\n")[-1]
    row("result", is_=words or "NONE: the program has ended")
    return 0 if good and words == "the same memory" else 1


if __name__ == "__main__":
    sys.exit(main())
