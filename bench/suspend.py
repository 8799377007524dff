#!/usr/bin/env python3
"""bench/suspend.py - how long a session takes to leave the GPU and to come back, and what it leaves there.

    bench/suspend.py [--driver emu|cuda] [--gb N] [--turns N] [--user UID] [--torch] [--park]

Starts a server of its own, as user UID if that is given (which needs root), and one program that holds N GiB, or with
--torch a small training run. Each turn suspends the program's session by --ctl and resumes it; with --park, further ones
park it and resume it. A row has the median time of the command, how much of it worker and driver took, and the time of
the first turn, in which host memory is made. Another row has the MiB of GPU memory that nvidia-smi lists for the worker,
followed by those of each GPU. A second program, without a server, is moved by the driver's calls alone. At the end the program says whether its memory, or its losses, are what they should be.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Fills its memory with a pattern, and compares it with that when it gets a line.
HOLD = """
import ctypes, sys
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
context, piece = ctypes.c_void_p(), 1 << 28
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
pieces = []
for i in range(max(1, int(float(sys.argv[1]) * 4))):
    at = ctypes.c_uint64()
    ok(c.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(piece)))
    ok(c.cuMemsetD32_v2(at, 1000 + i, ctypes.c_size_t(piece // 4)))
    pieces.append(at)
ok(c.cuCtxSynchronize())
print("ready", flush=True)
for line in sys.stdin:
    good = True
    for i, at in enumerate(pieces):
        for offset in (0, piece // 2, piece - 4096):
            data = (ctypes.c_uint32 * 1024)()
            ok(c.cuMemcpyDtoH_v2(data, ctypes.c_uint64(at.value + offset), ctypes.c_size_t(4096)))
            good &= set(data) == {1000 + i}
    print("the same memory" if good else "OTHER MEMORY", flush=True)
"""
# Trains until it gets a line; the second run, alone, shows whether the losses are the same.
TORCH = """
import hashlib, os, sys, threading, torch
def train(steps, stop=None):
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    hold, losses = torch.ones(int(float(sys.argv[1]) * 2**28), device="cuda"), []
    while len(losses) < steps and not (stop and stop.is_set()):
        x = torch.randn(64, 4096, device="cuda")
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        losses.append(loss.item())
        if len(losses) == 3 and stop:
            print("ready", flush=True)
    return losses, hold.sum().item()
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
first, held = train(10**9, stop)
again, _ = train(len(first))
good = first == again and held == int(float(sys.argv[1]) * 2**28)
print(f"the same {len(first)} losses" if good else "OTHER LOSSES", flush=True)
"""


def row(name, **values):
    print(json.dumps({"name": name, **values}), flush=True)


class Server:
    """A server of its own, at a free port, as user USER if that is given; the words BEFORE run it."""

    def __init__(self, driver, *options, user=None, before=()):
        self.home = pathlib.Path(tempfile.mkdtemp())
        self.command = [str(ROOT / "cpu" / "cricket-rpc-server"), "--unix", str(self.home / "s")]
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.env = env = dict(os.environ, CRICKET_CACHE_DIR=str(self.home / "cache"), HOME=str(self.home),
                              CRICKET_EMU=f"usage={self.home}/usage," + os.environ.get("CRICKET_EMU", ""))
        env["LD_LIBRARY_PATH"] = f"{os.environ.get('LIBS', ROOT / 'build/lib')}:{env.get('LD_LIBRARY_PATH', '')}"
        if user:
            os.chown(self.home, user, user)
            before = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        with open(self.home / "log", "w") as log:
            self.process = subprocess.Popen([*before, *self.command, "--driver", driver, "--listen",
                                             f"127.0.0.1:{self.port}", *options], env=env, stdout=log, stderr=log)
        for _ in range(200):
            if (self.home / "s.ctl").exists():
                return
            time.sleep(0.1)
        sys.exit("the server did not come up:\n" + (self.home / "log").read_text())

    def ask(self, **request):
        """One command on the control socket; the reply, and the seconds that it took."""
        begin = time.monotonic()
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.home / "s.ctl"))
            s.sendall(json.dumps(request).encode() + b"\n")
            reply = json.loads(s.makefile().readline())
        return reply, time.monotonic() - begin

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def end(self):
        self.stop()
        for line in (self.home / "log").read_text().splitlines():     # with CRICKET_LOG=server:debug: what took the time
            if "copies: " in line:
                print(line.split("DEBUG:")[-1].strip(), file=sys.stderr)
        shutil.rmtree(self.home)


def smi(query):
    """The rows of an answer of nvidia-smi; none without it."""
    try:
        found = subprocess.run(["nvidia-smi", f"--query-{query}", "--format=csv,noheader,nounits"], capture_output=True,
                               text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [line.split(", ") for line in found.strip().splitlines()]


def gpu_memory(pid):
    """MiB that nvidia-smi lists for a process (0: it does not list it), and as used on all GPUs."""
    processes = dict(row[:2] for row in smi("compute-apps=pid,used_memory") if len(row) == 2)
    return [processes.get(str(pid), "0"), *(used for (used,) in smi("gpu=memory.used"))]


def program(server, options):
    env = dict(os.environ, LD_PRELOAD=str(ROOT / "cpu" / "cricket-client.so"), REMOTE_GPU_ADDRESS=f"127.0.0.1:{server.port}",
               CUBLAS_WORKSPACE_CONFIG=":4096:8")
    hide = [] if options.driver == "emu" else [str(ROOT / "bench" / "no-gpu.sh")]
    process = subprocess.Popen([*hide, sys.executable, "-c", TORCH if options.torch else HOLD, str(options.gb)], env=env,
                               text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if process.stdout.readline() != "ready\n":
        print((server.home / "log").read_text(), file=sys.stderr)
        sys.exit("the program did not begin")
    return process


def move(server, command, session, times):
    """Notes the seconds of the command, and of worker and driver in it. False: refused."""
    reply, seconds = server.ask(command=command, session=session)
    if not reply["ok"]:
        row(command, refused=reply["error"])
        return False
    times.append((seconds, reply["ms"] / 1e3))
    return True


def report(name, options, times):
    command, moved = (statistics.median(column) for column in zip(*times))
    row(name, gb=options.gb, s=round(command, 3), moved=moved, first=round(times[0][0], 3))


def turns(server, options, leave, back):
    """Leaves by the command, and resumes, as often as asked; @back: the name for that in the rows. False: refused."""
    out, home = [], []
    for _ in range(options.turns):
        (session,) = server.ask(command="sessions")[0]["sessions"]
        before = gpu_memory(session["pid"])
        if not move(server, leave, session["session"], out):
            return False
        left = gpu_memory(session["pid"])
        if not move(server, "resume", session["session"], home):
            return False
        row("memory", before=before, left=left, after=gpu_memory(session["pid"]))
    report(leave, options, out)
    report(back, options, home)
    return True


# Suspends and resumes the process of its first argument by the driver's calls; a pair of seconds a line.
CHECKPOINT = """
import ctypes, sys, time
c, pid = ctypes.CDLL("libcuda.so.1"), int(sys.argv[1])
def ok(err):
    assert err == 0, err
for _ in range(int(sys.argv[2])):
    begin = time.monotonic()
    ok(c.cuCheckpointProcessLock(pid, None)); ok(c.cuCheckpointProcessCheckpoint(pid, None))
    middle = time.monotonic()
    ok(c.cuCheckpointProcessRestore(pid, None)); ok(c.cuCheckpointProcessUnlock(pid, None))
    print(middle - begin, time.monotonic() - middle, flush=True)
"""


def natively(options):
    """The same program without a server, moved by the same calls of the driver."""
    process = subprocess.Popen([sys.executable, "-c", TORCH if options.torch else HOLD, str(options.gb)], text=True,
                               env=dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "ready\n"
        times = subprocess.run([sys.executable, "-c", CHECKPOINT, str(process.pid), str(options.turns)], stdout=subprocess.PIPE,
                               text=True, check=True).stdout
        columns = zip(*(map(float, line.split()) for line in times.splitlines()))
        for command, seconds in zip(("suspend", "resume"), columns):
            row(f"{command}, native", gb=options.gb, s=round(statistics.median(seconds), 3))
    finally:
        process.communicate("\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--user", type=int)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--park", action="store_true")
    options = parser.parse_args()
    server = Server(options.driver, user=options.user)
    process = program(server, options)
    done = turns(server, options, "suspend", "resume") and (not options.park or turns(server, options, "park", "return"))
    process.stdin.write("\n")
    process.stdin.close()
    words = process.stdout.readline().strip()
    row("result", is_=words or "NONE: the program has ended", user=options.user or os.geteuid())
    if not done or not words.startswith("the same"):
        print((server.home / "log").read_text()[-3000:], file=sys.stderr)
    process.wait()
    server.end()
    if options.driver != "emu" and not options.user:
        natively(options)
    return 0 if words.startswith("the same") else 1


if __name__ == "__main__":
    sys.exit(main())
