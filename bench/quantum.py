#!/usr/bin/env python3
"""bench/quantum.py - what it costs that two programs take turns on a GPU which has room for one of them.

    bench/quantum.py [--driver emu|cuda] [--gb N] [--rounds N] [--quantum S]

Each program holds N GiB, and fills them so many times. A holder takes the rest of the GPU's memory, so that both do not fit.
The rows: seconds of one after the other, seconds of both at once with `--suspend-for-others --quantum`, how often a
session was suspended, and when each program began and ended.
"""
import argparse
import os
import subprocess
import sys
import time

from suspend import ROOT, Server, row

LIMIT_S = 60     # for each wait

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


def start(server, options):
    env = dict(os.environ, LD_PRELOAD=str(ROOT / "cpu" / "cricket-client.so"), REMOTE_GPU_ADDRESS=f"127.0.0.1:{server.port}",
               CRICKET_WAIT="10m")
    hide = [] if options.driver == "emu" else [str(ROOT / "bench" / "no-gpu.sh")]
    return subprocess.Popen([*hide, sys.executable, "-c", WORK, str(options.gb), str(options.rounds)], env=env)


def ended(server, processes):
    """Seconds until each has ended; stops at a failure."""
    begin, at = time.monotonic(), {}
    while len(at) < len(processes):
        if time.monotonic() - begin > LIMIT_S:
            for process in processes:
                process.kill()
            print((server.home / "log").read_text()[-6000:], file=sys.stderr)
            sys.exit(f"not within {LIMIT_S} s")
        for i, process in enumerate(processes):
            if i not in at and process.poll() is not None:
                at[i] = round(time.monotonic() - begin, 2)
                if process.returncode:
                    sys.exit(f"program {i} has failed")
        time.sleep(0.01)
    return [at[i] for i in range(len(processes))]


def hold(options):
    """A native process that leaves room for one program and a half; None on the emulated GPU, which has a limit."""
    if options.driver == "emu":
        os.environ.update(CRICKET_EMU=f"memory={int(options.gb * 1.5 * 1024)}M,shared")
        return None
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(options.gb * 1.5 + 2)], text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    row("free", mib=int(holder.stdout.readline()))
    return holder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--gb", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=10000)
    parser.add_argument("--quantum", default="5s")
    options = parser.parse_args()
    holder = hold(options)
    server = Server(options.driver, "--suspend-for-others", "--quantum", options.quantum)
    alone = [ended(server, [start(server, options)])[0] for _ in range(2)]
    row("in_sequence", s=round(sum(alone), 2), each=alone)
    both = ended(server, [start(server, options) for _ in range(2)])
    row("at_once", s=max(both), each=both, suspends=(server.home / "log").read_text().count(" is suspended: "))
    row("ratio", value=round(max(both) / sum(alone), 2))
    server.end()
    if holder:
        holder.stdin.close()
        holder.wait()


if __name__ == "__main__":
    main()
