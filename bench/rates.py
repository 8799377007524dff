#!/usr/bin/env python3
"""bench/rates.py [--out FILE] [WORK...] - bytes, calls and commands a second of clients, as the server counts them, for bench/model.py.

    bench/rates.py --out rates.json                        a machine with a GPU and PyTorch
    bench/rates.py --driver emu copies                     without

Starts a server of its own. Each kind of work runs alone, over tcp, in a steady state: its batches come from the host in each step, and
its results go back as programs want them. Two replies of the status socket, some seconds apart, make the rates.
"""
import argparse
import ctypes
import json
import os
import pathlib
import select
import socket
import subprocess
import sys
import tempfile
import time

import scale

ROOT = pathlib.Path(__file__).resolve().parents[1]
EVERY = 10      # steps between two losses that are printed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", nargs="*", help="kinds of work; default: all of PyTorch's")
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--seconds", type=float, default=10, help="how long each is counted (10)")
    parser.add_argument("--out", help="file for bench/model.py --rates")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    return parser.parse_args()


# --- the client: each function returns a step

def training(model, optimizer, batch, loss_of):
    count = 0

    def step():
        nonlocal count
        optimizer.zero_grad()
        loss = loss_of(model, batch.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        count += 1
        return loss.item() if count % EVERY == 0 else None
    return step


def resnet50_train():
    import torch
    import torchvision
    model = torchvision.models.resnet50().cuda()
    labels = torch.arange(32).cuda()
    return training(model, torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(32, 3, 224, 224),
                    lambda m, x: torch.nn.functional.cross_entropy(m(x), labels))


def resnet50_infer_b1():
    import torch
    import torchvision
    model, image = torchvision.models.resnet50().cuda().eval(), torch.randn(1, 3, 224, 224)

    def step():
        with torch.no_grad():
            return model(image.cuda()).cpu()
    return step


def gpt2_train_8x512():
    import torch
    import torch_models
    model = torch_models.gpt2()
    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-4), torch.arange(8 * 512).reshape(8, 512) * 7 % 50257,
                    lambda m, x: m(x, labels=x).loss)


def gpt2_generate_32():
    import torch
    import torch_models
    model, prompt = torch_models.gpt2().eval(), torch.arange(16).reshape(1, 16) * 7 % 50257

    def step():
        with torch.no_grad():
            return model.generate(prompt.cuda(), max_new_tokens=32, min_new_tokens=32, do_sample=False, pad_token_id=0)[0].tolist()
    return step


def copies():
    """Without PyTorch: a copy of 1 MiB up, ten fills, and 4 bytes back."""
    cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    size, here = 1 << 20, ctypes.create_string_buffer(1 << 20)
    for error in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
                  cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size))):
        assert error == 0

    def step():
        assert cuda.cuMemcpyHtoD_v2(memory, here, ctypes.c_size_t(size)) == 0
        for _ in range(10):
            assert cuda.cuMemsetD8Async(memory, 0, ctypes.c_size_t(64), None) == 0
        assert cuda.cuMemcpyDtoH_v2(here, memory, ctypes.c_size_t(4)) == 0
    return step


TORCH = [resnet50_train, resnet50_infer_b1, gpt2_train_8x512, gpt2_generate_32]
WORK = {f.__name__: f for f in [*TORCH, copies]}


def client(name):
    """Works until standard input ends."""
    step, count = WORK[name](), 0
    for _ in range(2 * EVERY):
        step()
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        step()
        count += 1
    print(count, flush=True)


# --- the measurement

def status(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(f"{path}.status")
        s.sendall(b'{"command": "status"}\n')
        return json.loads(s.makefile().readline())


def measure(name, path, env, seconds):
    """The rates of one kind of work. A worker reports once a second, so both replies are about as old as each other."""
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, __file__, "--step", name], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, cwd=ROOT / "bench")
    if process.stdout.readline() != "ready\n":
        sys.exit(f"rates.py: error: {name} did not begin")
    begun = time.monotonic()
    time.sleep(2)
    before = status(path)
    time.sleep(seconds)
    after = status(path)
    steps, _ = process.communicate("\n", timeout=300)
    span = after["time"] - before["time"]
    (old,), (new,) = before["sessions"], after["sessions"]
    rates = {field: (new[field] - old[field]) / span for field in ("received", "sent", "calls", "commands")}
    return {"name": name, "steps": int(steps) / (time.monotonic() - begun), **rates}


def main():
    options = arguments()
    if options.step:
        return client(options.step)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path, port = f"{folder}/s", scale.free_port()
        with open(f"{folder}/log", "w", encoding="utf-8") as log:
            server = subprocess.Popen([ROOT / "cpu" / "cricket-rpc-server", "--driver", options.driver, "--listen", f"127.0.0.1:{port}",
                                       "--unix", path, "--standby", "0", "--log", "warning"], stdout=log, stderr=log,
                                      env=dict(os.environ, CRICKET_CACHE_DIR=f"{folder}/cache"))
        env = dict(os.environ, REMOTE_GPU_ADDRESS=f"tcp://127.0.0.1:{port}", LD_PRELOAD=str(ROOT / "cpu" / "cricket-client.so"),
                   CRICKET_DEBUG="no-compress")
        try:
            while not os.path.exists(f"{path}.status"):
                if server.poll() is not None:
                    sys.exit(f"rates.py: error: {pathlib.Path(folder, 'log').read_text(encoding='utf-8')}")
                time.sleep(0.05)
            for name in options.work or [f.__name__ for f in TORCH]:
                rows.append(measure(name, path, env, options.seconds))
                print({k: v if k == "name" else round(v, 2) for k, v in rows[-1].items()}, flush=True)
        finally:
            server.terminate()
            server.wait()
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
