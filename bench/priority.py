#!/usr/bin/env python3
"""bench/priority.py - a program that answers requests beside one that trains, on one GPU.

    bench/priority.py [--driver cuda|emu] [--seconds N] [--every MS] [--ways 'native no-policy priority'] [--services N]

A small transformer answers a request every so many ms. A larger one trains as fast as it can. The rows: the latency of a
request and the speed of training, each alone and both at once; natively, through a server without a policy, and with a
policy in which the first program has the higher priority. p50 and p99 are in ms, the rate in steps a second. With --services,
so many programs answer requests, and "alone" is without training. The programs reach the server over a unix socket and over
TCP, so that they are two identities. Without PyTorch (--driver emu), all launch kernels that spin.
"""
import argparse
import json
import os
import pwd
import subprocess
import sys
import tempfile
import time

from suspend import ROOT, Server, row

POLICY = 'identities: ( {{ user = "{user}"; priority = 10; }}, {{ address = "127.0.0.1"; }} );'

WORK = """
import json, sys, time
import torch
kind, seconds, every = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]) / 1e3
serve = kind == "serve"
width, layers, batch, length = (1024, 16, 32, 256) if serve else (2048, 12, 16, 512)
layer = torch.nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True)
model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()
x = torch.randn(batch, length, width, device="cuda")
if serve:
    model = model.eval().half()
    x = x.half()
optimizer = torch.optim.SGD(model.parameters(), 1e-4)
def step():
    if serve:
        with torch.no_grad():
            return model(x).float().sum().item()
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
"""
SPIN = """
import ctypes, json, sys, time
c = ctypes.CDLL("libcuda.so.1")
PTX = b'''.version 7.0
.target sm_70
.address_size 64
.visible .entry work(.param .u32 n)
{ .reg .pred %q; .reg .b32 %r<3>; ld.param.u32 %r1, [n];
A: sub.u32 %r1, %r1, 1; setp.ne.u32 %q, %r1, 0; @%q bra A; ret; }'''
def ok(err):
    assert err == 0, err
kind, seconds, every = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]) / 1e3
serve = kind == "serve"
context, module, work, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint(5000)
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
ok(c.cuModuleLoadData(ctypes.byref(module), PTX)); ok(c.cuModuleGetFunction(ctypes.byref(work), module, b"work"))
args = (ctypes.c_void_p * 1)(ctypes.addressof(n))
def step():
    for _ in range(5 if serve else 200):
        ok(c.cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, None, args, None))
    ok(c.cuCtxSynchronize())
"""
LOOP = """
for _ in range(5):
    step()
print("ready", flush=True)
sys.stdin.readline()
begin = time.monotonic()
while time.monotonic() < begin + 2:     # turns begin when both have reported their use
    step()
times, begin = [], time.monotonic()
due = begin
while time.monotonic() < begin + seconds:
    if serve:
        due += every
        time.sleep(max(0, due - time.monotonic()))
    start = time.monotonic()
    step()
    times.append((time.monotonic() - start) * 1e3)
    due = max(due, time.monotonic() - every)
elapsed = time.monotonic() - begin
times.sort()
print(json.dumps({"p50": times[len(times) // 2], "p99": times[int(len(times) * 0.99)],
                  "rate": len(times) / elapsed}), flush=True)
"""


def begin(kind, args, address):
    env, command = dict(os.environ), []
    if address:
        env.update(REMOTE_GPU_ADDRESS=address, LD_PRELOAD=str(ROOT / "cpu/cricket-client.so"))
        if args.driver != "emu":
            command = [ROOT / "bench/no-gpu.sh"]
    elif args.driver == "emu":
        env.update(LD_LIBRARY_PATH=args.native)
    code = (SPIN if args.driver == "emu" else WORK) + LOOP
    command += [sys.executable, "-c", code, kind, str(args.seconds), str(args.every)]
    return subprocess.Popen([str(c) for c in command], env=env, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def result(program, args):
    """What a program that runs prints at its end."""
    return json.loads(program.communicate(timeout=args.seconds + 60)[0])


def run(kinds, args, addresses):
    """The results of programs that run at the same time, in this order."""
    programs = [begin(kind, args, addresses[kind]) for kind in kinds]
    for program in programs:
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        print(file=program.stdin, flush=True)
    return [result(program, args) for program in programs]


def measure(name, args, addresses):
    services = ["serve"] * args.services
    alone = run(services, args, addresses) + run(["train"], args, addresses)
    both = run([*services, "train"], args, addresses)
    titles = ["serve"] if args.services == 1 else [f"serve {i + 1}" for i in range(args.services)]
    whats = [(i, title, what) for i, title in enumerate(titles) for what in ("p50", "p99")]
    for i, title, what in (*whats, (-1, "train", "rate")):
        a, b = alone[i][what], both[i][what]
        row(f"{name}: {title} {what}", alone=round(a, 2), beside=round(b, 2), ratio=round(b / a, 2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--every", type=float, default=40)
    parser.add_argument("--ways", default="native no-policy priority")
    parser.add_argument("--services", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        args.native = folder
        os.symlink(ROOT / "cpu/libcuda-emu.so", f"{folder}/libcuda.so.1")
        if "native" in args.ways.split():
            measure("native", args, {"serve": None, "train": None})
        policy = f"{folder}/policy"
        with open(policy, "w", encoding="utf-8") as file:
            file.write(POLICY.format(user=pwd.getpwuid(os.getuid()).pw_name))
        for name, options in (("no-policy", ()), ("priority", ("--policy", policy))):
            if name not in args.ways.split():
                continue
            server = Server(args.driver, *options)
            try:
                measure(name, args, {"serve": f"unix:{server.home}/s", "train": f"tcp://127.0.0.1:{server.port}"})
            finally:
                server.end()


if __name__ == "__main__":
    main()
