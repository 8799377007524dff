#!/usr/bin/env python3
"""bench/spin.py - how long to look before sleeping: what CRICKET_DEBUG=spin=US costs and brings, on one, two or all processors.

    bench/spin.py [--driver emu|cuda] [--spin=-1,0,10,...] [--processors 1,2] [--seconds S] [--idle S]

For each number of processors and each setting, over shared memory, a server and a client that may use no others:

    step   us of a launch and a synchronise, median
    beside the same while another process computes on each of these processors; and how much that one still gets,
           of what it gets alone (a fair scheduler's half or more: no process is starved)
    busy   processor seconds a second of client and server together while they step
    idle   processor seconds of both while the client does nothing for --idle seconds
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BURN = """
import sys, time
end, n = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    for _ in range(1000):
        n += 1
print(n)
"""
TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(pids):
    """What each process that is there has used."""
    used = {}
    for pid in pids:
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            continue
        used[pid] = sum(map(int, stat.rpartition(")")[2].split()[11:13])) / TICK
    return used


def used_since(before):
    """Since then, by those that are still there."""
    return sum(seconds - before[pid] for pid, seconds in processor_seconds(before).items())


class Pair:
    """A server on some processors, and clients on the same."""

    def __init__(self, options, spin, cpus, folder):
        self.socket = folder / "s"
        self.cpus = cpus
        self.env = dict(os.environ, CRICKET_CACHE_DIR=str(folder / "cache"))
        if spin >= 0:  # else the default
            self.env["CRICKET_DEBUG"] = f"spin={spin}"
        self.server = self.start([ROOT / "cpu" / "cricket-rpc-server", "--driver", options.driver, "--unix", self.socket,
                                  "--listen", "127.0.0.1:0", "--warm", "0"], self.env)
        for _ in range(200):
            if self.socket.exists():
                break
            time.sleep(0.05)

    def start(self, command, env, **options):
        """A process that may use our processors only."""
        return subprocess.Popen([str(c) for c in command], env=env, stderr=subprocess.DEVNULL,
                                preexec_fn=lambda: os.sched_setaffinity(0, self.cpus), **options)

    def client(self, *arguments):
        env = dict(self.env, REMOTE_GPU_ADDRESS=f"shm:{self.socket}", LD_PRELOAD=str(ROOT / "cpu" / "cricket-client.so"))
        return self.start([ROOT / "cpu" / "build" / "bench-load", *arguments], env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE)

    def processes(self, client):
        workers = subprocess.run(["pgrep", "-P", str(self.server.pid)], capture_output=True, text=True, check=False)
        return [client.pid, self.server.pid, *map(int, workers.stdout.split())]

    def steps(self, seconds):
        """us of a step, processor seconds a second."""
        client = self.client("steps", seconds, 1, 1)
        time.sleep(seconds * 0.3)
        pids, began = self.processes(client), time.monotonic()
        used = processor_seconds(pids)
        time.sleep(seconds * 0.4)
        used = used_since(used) / (time.monotonic() - began)
        out = client.communicate()[0]
        return json.loads(out)["ms"] * 1000, used

    def burn(self, seconds):
        """Counts of one process on each of the processors."""
        burners = [subprocess.Popen(["python3", "-c", BURN, str(seconds)], stdout=subprocess.PIPE,
                                    preexec_fn=lambda c=c: os.sched_setaffinity(0, {c})) for c in self.cpus]
        return burners

    def idle(self, seconds):
        client = self.client("idle")
        client.stdout.readline()
        time.sleep(0.5)
        pids = self.processes(client)
        used = processor_seconds(pids)
        time.sleep(seconds)
        used = used_since(used)
        client.communicate(b"")
        return used

    def end(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait()


def counted(burners):
    return sum(int(b.communicate()[0]) for b in burners)


def measure(options, spin, cpus):
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(options, spin, cpus, pathlib.Path(folder))
        try:
            step, busy = pair.steps(options.seconds)
            alone = counted(pair.burn(options.seconds))
            burners = pair.burn(options.seconds)
            beside, _ = pair.steps(options.seconds)
            left = counted(burners) / alone
            idle = pair.idle(options.idle) if options.idle else float("nan")
        finally:
            pair.end()
    print(f"| {len(cpus)} | {spin if spin >= 0 else 'default'} | {step:.1f} | {busy:.2f} | {beside:.1f} | {left:.2f} | {idle:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", default="emu")
    parser.add_argument("--spin", default="-1,0,10,50,200,1000")
    parser.add_argument("--processors", default="1,2")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--idle", type=float, default=0)
    options = parser.parse_args()
    have = sorted(os.sched_getaffinity(0))
    print("| processors | spin | step, us | busy | step beside others, us | others get | idle |\n" + "|---" * 7 + "|")
    for count in map(int, options.processors.split(",")):
        for spin in map(int, options.spin.split(",")):
            measure(options, spin, set(have[:count]))


if __name__ == "__main__":
    main()
