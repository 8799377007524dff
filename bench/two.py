#!/usr/bin/env python3
"""bench/two.py - one server with two GPUs and a policy: weights and priorities on both at the same time, and a wait for both.

    bench/two.py [--driver cuda|emu] [--seconds N] [--every MS]

weights: two programs train on each GPU, of weights 3 and 1; the first one's part of the GPU's steps is to be 0.75. priority: on each
GPU a program answers requests beside one that trains, as in priority.py; the p99 of both GPUs' requests, alone and beside. queue: a
program that wants both GPUs waits while another has the server's only place; the seconds that it waits after the other's end.
"""
import argparse
import os
import pwd
import subprocess
import sys
import tempfile
import time

import priority
from suspend import ROOT, Server, row

GPUS = 2
POLICY = 'identities: ( {{ user = "{user}"; {first}; }}, {{ address = "127.0.0.1"; {second}; }} );'
COUNT = """
import ctypes, sys
c, n, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
assert c.cuInit(0) == 0 and c.cuDeviceGetCount(ctypes.byref(n)) == 0
for i in range(n.value):
    assert c.cuDevicePrimaryCtxRetain(ctypes.byref(context), i) == 0
print(n.value, flush=True)
sys.stdin.readline()
"""


def begin(kind, args, address, gpu):
    """A program of priority.py on one GPU of the server."""
    return priority.begin(kind, args, f"{address}{'//' if address.startswith('unix:') else '/'}{gpu}")


def results(programs, args):
    for program in programs:
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        print(file=program.stdin, flush=True)
    return [priority.result(program, args) for program in programs]


def with_server(args, folder, first, second, *options):
    path = f"{folder}/policy"
    with open(path, "w", encoding="utf-8") as file:
        file.write(POLICY.format(user=pwd.getpwuid(os.getuid()).pw_name, first=first, second=second))
    return Server(args.driver, "--policy", path, *options)


def weights(args, folder):
    server = with_server(args, folder, "weight = 3", "weight = 1")
    try:
        heavy, light = f"unix:{server.home}/s", f"tcp://127.0.0.1:{server.port}"
        programs = [begin("train", args, address, gpu) for gpu in range(GPUS) for address in (heavy, light)]
        rates = [r["rate"] for r in results(programs, args)]
    finally:
        server.end()
    for gpu in range(GPUS):
        one, other = rates[2 * gpu:2 * gpu + 2]
        row(f"weights 3:1, GPU {gpu}", part=round(one / (one + other), 3), rates=[round(one, 2), round(other, 2)])


def priorities(args, folder):
    server = with_server(args, folder, "priority = 10", "priority = 0")
    try:
        high, low = f"unix:{server.home}/s", f"tcp://127.0.0.1:{server.port}"
        alone = results([begin("serve", args, high, gpu) for gpu in range(GPUS)], args)
        both = results([begin("serve", args, high, gpu) for gpu in range(GPUS)] +
                       [begin("train", args, low, gpu) for gpu in range(GPUS)], args)
    finally:
        server.end()
    for gpu in range(GPUS):
        a, b = alone[gpu]["p99"], both[gpu]["p99"]
        row(f"priority, GPU {gpu}: p99 of requests", alone=round(a, 2), beside=round(b, 2), ratio=round(b / a, 2))


def waiting(args, server, *options):
    command = [str(ROOT / "cpu/cricket"), "run", "-s", f"unix:{server.home}/s", "--gpus", str(GPUS), *options, "--",
               sys.executable, "-c", COUNT]
    if args.driver != "emu":
        command.insert(0, str(ROOT / "bench/no-gpu.sh"))
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def queue(args):
    server = Server(args.driver, "--max-sessions", "1")
    try:
        first = waiting(args, server)
        assert first.stdout.readline() == f"{GPUS}\n"
        second = waiting(args, server, "--wait", "1m")
        time.sleep(2)
        first.communicate("\n", timeout=60)
        ended = time.monotonic()
        count = second.stdout.readline().strip()
        row("queue with --gpus 2", gpus=count, waited_s=round(time.monotonic() - ended, 3))
        second.communicate("\n", timeout=60)
    finally:
        server.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--every", type=float, default=40)
    args = parser.parse_args()
    os.environ["CRICKET_EMU"] = f"devices={GPUS}"
    with tempfile.TemporaryDirectory() as folder:
        weights(args, folder)
        priorities(args, folder)
        queue(args)


if __name__ == "__main__":
    main()
