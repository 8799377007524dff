#!/usr/bin/env python3
"""bench/quantum.py - the cost of turns on a GPU that has room for one of several programs.

    bench/quantum.py [--driver emu|cuda] [--gb N] [--rounds N] [--quantum S] [--overcommit]

Each program holds N GiB, and fills them so many times. A holder takes the rest of the GPU's memory, so that two do not fit.
The rows: seconds of one after the other, seconds of all at once with `--suspend-for-others --quantum`, how often a
session was moved out, and when each program ended. Another row has the median times of exchanges, in which one session
left for another: of the whole, of the way out, and of the way back, parts of which are at the same time.

With --overcommit, there are four programs of 60 % of the memory, and a policy with `memory_overcommit`. A fifth program
comes in a further run: it reads a little of as much memory every 15 s. Its row has the seconds that it waited.
"""
import argparse
import datetime
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from suspend import ROOT, Server, row

LIMIT_S = 600    # for each wait

WORK = """
import ctypes, sys, time
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
context, piece, pieces = ctypes.c_void_p(), 1 << 26, []
begin = time.monotonic()
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
for i in range(int(float(sys.argv[1]) * 16)):
    at = ctypes.c_uint64()
    ok(c.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(piece)))
    pieces.append(at)
for i in range(int(sys.argv[2])):
    for at in pieces:
        ok(c.cuMemsetD32_v2(at, i, ctypes.c_size_t(piece // 4)))
    ok(c.cuCtxSynchronize())
last = (ctypes.c_uint32 * 16)()
for at in pieces:
    ok(c.cuMemcpyDtoH_v2(last, at, ctypes.c_size_t(64)))
    assert set(last) == {i}
"""
# Works rarely: says how long a read took, until its stdin ends.
RARE = """
import ctypes, select, sys, time
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
context, at, data = ctypes.c_void_p(), ctypes.c_uint64(), (ctypes.c_uint32 * 16)()
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
size = int(float(sys.argv[1]) * 2**30)
ok(c.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
ok(c.cuMemsetD32_v2(at, 7, ctypes.c_size_t(size // 4)))
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 15)[0]:
    begin = time.monotonic()
    ok(c.cuMemcpyDtoH_v2(data, at, ctypes.c_size_t(64)))
    assert set(data) == {7}
    print(round(time.monotonic() - begin, 2), flush=True)
"""
# Leaves free what it is asked to, and says so.
HOLD = """
import ctypes, sys
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
leave, piece = int(float(sys.argv[1]) * 2**30), 1 << 28
while True:
    ok(c.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    if free.value < leave + piece:
        break
    ok(c.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(piece)))
print(free.value >> 20, flush=True)
sys.stdin.readline()
"""


def start(server, options, source=WORK, **pipes):
    env = dict(os.environ, LD_PRELOAD=str(ROOT / "cpu" / "cricket-client.so"), REMOTE_GPU_ADDRESS=f"127.0.0.1:{server.port}",
               CRICKET_WAIT="10m")
    hide = [] if options.driver == "emu" else [str(ROOT / "bench" / "no-gpu.sh")]
    return subprocess.Popen([*hide, sys.executable, "-c", source, str(options.gb), str(options.rounds)], env=env, **pipes)


def give_up(server, processes, why):
    for process in processes:
        process.kill()
    print((server.home / "log").read_text()[-6000:], file=sys.stderr)
    sys.exit(why)


def ended(server, processes):
    """Seconds until each has ended; stops at a failure."""
    begin, at = time.monotonic(), {}
    while len(at) < len(processes):
        if time.monotonic() - begin > LIMIT_S:
            give_up(server, processes, f"not within {LIMIT_S} s")
        for i, process in enumerate(processes):
            if i not in at and process.poll() is not None:
                at[i] = round(time.monotonic() - begin, 2)
                if process.returncode:
                    give_up(server, processes, f"program {i} has failed")
        time.sleep(0.01)
    return [at[i] for i in range(len(processes))]


def exchanges(server):
    """Milliseconds that each exchange took, and its way out and its way back, from the server's log."""
    began, out, times = {}, {}, []
    for line in (server.home / "log").read_text().splitlines():
        at, _, text = line.partition(" ")
        if (found := re.search(r"session (\S+) leaves the GPU for (\S+) after", text)) and found[2] in out:    # it was there before
            began[found[2]] = (found[1], datetime.datetime.fromisoformat(at.rstrip("Z")))
        elif found := re.search(r"session (\S+) is \w+: .* moved out of GPU memory in (\d+) ms", text):
            out[found[1]] = int(found[2])
        elif (found := re.search(r"session (\S+) goes on: .* moved back in (\d+) ms", text)) and found[1] in began:
            leaver, begin = began.pop(found[1])
            whole = datetime.datetime.fromisoformat(at.rstrip("Z")) - begin
            times.append((round(whole.total_seconds() * 1000), out.get(leaver, 0), int(found[2])))
    return times


def hold(options, room):
    """A native process that leaves @room GiB; None on the emulated GPU, which has a limit."""
    if options.driver == "emu":
        os.environ.update(CRICKET_EMU=f"memory={int(room * 1024)}M,shared")
        return None
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(room)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    row("free", mib=int(holder.stdout.readline()))
    return holder


def begin_server(options):
    if not options.overcommit:
        return Server(options.driver, "--suspend-for-others", "--quantum", options.quantum)
    with tempfile.NamedTemporaryFile("w", suffix=".policy") as policy:
        print("default: { memory_overcommit = true; };", file=policy, flush=True)
        return Server(options.driver, "--policy", policy.name)


def rare_one(server, options, count):
    """One that works rarely beside the others: how long it waits, and they all take."""
    rare = start(server, options, RARE, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if rare.stdout.readline() != "ready\n":
        sys.exit("the program that works rarely has failed")
    each = ended(server, [start(server, options) for _ in range(count)])
    waits = [float(line) for line in rare.communicate("\n")[0].split()]
    row("beside_a_rare_one", s=max(each), each=each, waits=waits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--gb", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=10000)
    parser.add_argument("--quantum", default="5s")
    parser.add_argument("--overcommit", action="store_true")
    options = parser.parse_args()
    count = 4 if options.overcommit else 2
    context = 0 if options.driver == "emu" else 1       # GiB of each program, about
    holder = hold(options, (options.gb / 0.6 if options.overcommit else options.gb * 1.5) + count * context)
    server = begin_server(options)
    alone = [ended(server, [start(server, options)])[0] for _ in range(count)]
    row("in_sequence", s=round(sum(alone), 2), each=alone)
    together = ended(server, [start(server, options) for _ in range(count)])
    row("at_once", s=max(together), each=together, moves=(server.home / "log").read_text().count(" moved out of GPU memory "))
    if times := exchanges(server):
        whole, out, back = (statistics.median(each) for each in zip(*times))
        row("exchange", gb=options.gb, ms=whole, out_ms=out, back_ms=back, count=len(times))
    row("ratio", value=round(max(together) / sum(alone), 2))
    if options.overcommit:
        rare_one(server, options, count)
    server.end()
    if holder:
        holder.stdin.close()
        holder.wait()


if __name__ == "__main__":
    main()
