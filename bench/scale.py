#!/usr/bin/env python3
"""bench/scale.py [OPTION...] - many sessions that do nothing on one supervisor: memory, processor time, connects.

    bench/scale.py --sessions 1000 --connects 400

Starts a server of its own, with the emulated GPU, and clients of bench/load.c beside it. Processor time is counted
besides seconds: that of connects holds on a busy machine too. Prints rows as JSON on the last line.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import tempfile
import time

import many

ROOT = pathlib.Path(__file__).resolve().parents[1]
SERVER = ROOT / "cpu" / "cricket-rpc-server"
CLIENTS_AT_A_TIME = 8
TICK = os.sysconf("SC_CLK_TCK")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=1000, help="sessions that wait at the same time")
    parser.add_argument("--connects", type=int, default=200, help="sessions to open and close, without and beside the waiting ones")
    parser.add_argument("--at-a-time", type=int, default=CLIENTS_AT_A_TIME, help="how many of these at a time")
    parser.add_argument("--idle-seconds", type=float, default=10, help="how long idle sessions' processor time is counted")
    parser.add_argument("--over", default="tcp", choices=["tcp", "unix", "shm"], help="transport")
    parser.add_argument("--server", type=pathlib.Path, default=SERVER,
                        help="another program, in a folder with libcuda-emu.so, to compare")
    parser.add_argument("--warm", type=int, default=0, help="spare workers")
    return parser.parse_args()


def available_kib():
    """What the kernel could give to further programs: also what sockets, page tables and stacks take is missing in it."""
    text = pathlib.Path("/proc/meminfo").read_text(encoding="utf-8")
    return int(text.split("MemAvailable:")[1].split()[0])


def processor_s(pids, ended=False):
    """User and system time of living processes; ENDED: with the children that they have waited for."""
    total = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue        # it has just ended
        total += sum(map(int, fields[11:15 if ended else 13]))
    return total / TICK


def client_s():
    """Processor time of clients that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def serve(folder, port, sessions, warm, program=SERVER):
    """The server's process, once its socket is there."""
    limit = str(2 * sessions + 64)
    path = f"{folder}/s"
    with open(f"{folder}/log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(
            [program, "--driver", "emu", "--listen", f"127.0.0.1:{port}", "--unix", path,
             "--max-sessions", limit, "--sessions-per-address", limit, "--sessions-per-identity", limit,
             "--warm", str(warm), "--standby", "0", "--log", "warning"],
            # Without that file the emulated GPU looks at no other process, so the figures are those of the server.
            env=dict(os.environ, CRICKET_CACHE_DIR=f"{folder}/cache", CRICKET_EMU="usage="), stdout=log, stderr=log)
    while not os.path.exists(path):
        if server.poll() is not None:
            sys.exit(f"the server has ended: {pathlib.Path(folder, 'log').read_text(encoding='utf-8')}")
        time.sleep(0.05)
    return server


def connects(server, count, at_a_time, row, name):
    """Whole sessions a second, from the start of a program to its end; the server's processor time for each."""
    before, client_before = processor_s([server.pid], ended=True), client_s()
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        list(pool.map(many.one_start, range(count)))
    seconds = time.monotonic() - begin
    time.sleep(many.SETTLE_S)
    row(f"{name}_connects", count / seconds, "/s")
    row(f"{name}_connect_cpu", (processor_s([server.pid], ended=True) - before) / count * 1e3, "ms")
    row(f"{name}_client_cpu", (client_s() - client_before) / count * 1e3, "ms")


def begin_idle(count, at_a_time):
    """Clients that have a session each and wait."""
    def one(_):
        client = many.start("idle")
        if client.stdout.readline() != "ready\n":
            raise RuntimeError("a client has no session")
        return client
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        return list(pool.map(one, range(count)))


def idle(server, clients, options, row, before, others):
    """What each waiting session costs."""
    count, pids = len(clients), many.family(server.pid)
    row("sessions", len(pids) - others, "")
    row("supervisor", many.memory_kib([server.pid]) / 1024, "MiB")
    row("supervisor_descriptors", many.descriptors(server.pid), "")
    row("session_server", many.memory_kib(pids[1:]) / 1024 / count, "MiB")
    row("session_client", many.memory_kib([c.pid for c in clients]) / 1024 / count, "MiB")
    row("session_all", (before - available_kib()) / 1024 / count, "MiB")
    used = processor_s(pids)
    time.sleep(options.idle_seconds)
    row("idle_cpu", (processor_s(pids) - used) / options.idle_seconds * 100, "% of a core")


def measure(server, options, row):
    connects(server, options.connects, options.at_a_time, row, "alone")
    others = len(many.family(server.pid))       # the server, and processes of its own
    before, begin = available_kib(), time.monotonic()
    clients = begin_idle(options.sessions, options.at_a_time)
    row("fill", options.sessions / (time.monotonic() - begin), "sessions/s")
    try:
        idle(server, clients, options, row, before, others)
        connects(server, options.connects, options.at_a_time, row, "beside")
    finally:
        for client in clients:
            client.stdin.close()
        for client in clients:
            client.wait(timeout=120)
    begin = time.monotonic()
    while len(many.family(server.pid)) > others and time.monotonic() - begin < 60:
        time.sleep(0.1)
    row("left_sessions", len(many.family(server.pid)) - others, "")


def main():
    options, rows = arguments(), {}

    def row(name, value, unit):
        rows[name] = {"value": round(value, 3), "unit": unit}
        print(f"{name:24} {value:10.2f} {unit}", flush=True)

    # Three descriptors for each client here, some for each session in the server.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        server = serve(folder, port, options.sessions + options.at_a_time, options.warm, options.server)
        os.environ["REMOTE_GPU_ADDRESS"] = f"127.0.0.1:{port}" if options.over == "tcp" else f"{options.over}:{folder}/s"
        os.environ["LD_PRELOAD"] = str(ROOT / "cpu" / "cricket-client.so")
        try:
            measure(server, options, row)
        finally:
            server.terminate()
            server.wait()
    print(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(main())
