#!/usr/bin/env python3
"""bench/many.py [OPTION...] - many client processes on one GPU: throughput, fairness, memory, connects.

Prints rows as JSON on the last line; run it natively and through Cricket, as bench/gpu.sh does. Its children
inherit its environment, and so the driver that they find. --server PID adds what only a server can tell: its
memory, and what connects leave behind.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

LOAD = pathlib.Path(__file__).resolve().parents[1] / "cpu" / "build" / "bench-load"
SETTLE_S = 1.0      # until a server has cleared away what has ended


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default="1,2,4,8,16", help="how many at a time, a list")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each number of clients works")
    parser.add_argument("--launches", type=int, default=20, help="kernels of a step, which a synchronise ends")
    parser.add_argument("--work", type=int, default=2000, help="what a kernel counts to")
    parser.add_argument("--connects", type=int, default=0, help="sessions to open and close, 8 at a time")
    parser.add_argument("--idle", type=int, default=0, help="sessions that wait while their memory is looked at")
    parser.add_argument("--server", type=int, help="process id of the server")
    return parser.parse_args()


def start(*command):
    return subprocess.Popen([str(LOAD), *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)


def work_together(count, options):
    """Steps a second of each of COUNT clients that work at the same time: all have begun before any works."""
    clients = [start("meet", options.seconds, options.launches, options.work) for _ in range(count)]
    if any(c.stdout.readline() != "ready\n" for c in clients):
        raise RuntimeError(f"not all of {count} clients began")
    for c in clients:
        c.stdin.write("\n")
        c.stdin.flush()
    said = [json.loads(c.communicate(timeout=120)[0] or "{}") for c in clients]
    if not all(said):
        raise RuntimeError(f"of {count} clients {sum(not s for s in said)} failed")
    return [s["steps"] / s["seconds"] for s in said]


def one_start(_):
    """How long a session takes from the process's start to its end, in ms; what it says of its parts."""
    begin = time.monotonic()
    done = subprocess.run([LOAD, "start"], stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    return (time.monotonic() - begin) * 1e3, json.loads(done.stdout)


def family(pid):
    """The process and its children."""
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True,
                              check=False).stdout.split()
    return [pid, *map(int, children)]


def memory_kib(pids):
    """What they hold for themselves and their share of the rest (PSS), in KiB."""
    total = 0
    for pid in pids:
        try:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue        # it has just ended
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def gpu_mib():
    """Used memory of the first GPU, or None where nvidia-smi is not there or sees none."""
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"],
                             capture_output=True, text=True, check=True, timeout=30).stdout
        return int(out.split()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def idle_sessions(options, row):
    """Memory of the server, of the client and of the GPU for each session that does nothing."""
    server, gpu = memory_kib(family(options.server)) if options.server else 0, gpu_mib()
    clients = [start("idle") for _ in range(options.idle)]
    try:
        for c in clients:
            assert c.stdout.readline() == "ready\n"
        row("idle_client", memory_kib([c.pid for c in clients]) / 1024 / options.idle, "MiB")
        if options.server:
            row("idle_server", (memory_kib(family(options.server)) - server) / 1024 / options.idle, "MiB")
        if gpu is not None and gpu_mib() is not None:
            row("idle_gpu", (gpu_mib() - gpu) / options.idle, "MiB")
    finally:
        for c in clients:
            c.communicate(timeout=60)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def connects(options, row):
    """Sessions a second, eight at a time; what is left of them on the server."""
    if options.server:
        time.sleep(SETTLE_S)
        before = (len(family(options.server)), descriptors(options.server), memory_kib([options.server]))
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one_start, range(options.connects)))
    row("connects", options.connects / (time.monotonic() - begin), "/s")
    if options.server:
        time.sleep(SETTLE_S)
        row("left_processes", len(family(options.server)) - before[0], "")
        row("left_descriptors", descriptors(options.server) - before[1], "")
        row("left_memory", (memory_kib([options.server]) - before[2]) / 1024, "MiB")


def main():
    options, rows = arguments(), {}

    def row(name, value, unit):
        rows[name] = {"value": round(value, 3), "unit": unit}
        print(f"{name:24} {value:10.2f} {unit}", flush=True)

    for count in map(int, options.clients.split(",")):
        each = work_together(count, options)
        row(f"many_{count}", sum(each), "steps/s")
        row(f"many_{count}_fair", min(each) / max(each), "")
    if options.idle:
        idle_sessions(options, row)
    if options.connects:
        connects(options, row)
    print(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(main())
