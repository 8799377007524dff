#!/usr/bin/env python3
"""bench/sessions.py - what sessions that do nothing cost the server, and how long starts take.

    bench/sessions.py [--driver emu|cuda] [--sessions N] [--warm N]

Starts a server of its own. Each session has called cuInit and has a context and 1 MiB of memory. PSS shares
what processes have in common, the libraries above all; private memory is a session's alone.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLIENT = """
import ctypes, time
begin = time.monotonic()
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
print((time.monotonic() - begin) * 1e3, flush=True)
input()
"""


def children(pid, name):
    """Children of a process that have this name."""
    found = subprocess.run(["pgrep", "-P", str(pid), "-x", name], capture_output=True, text=True,
                           check=False)
    return [int(line) for line in found.stdout.split()]


def memory(pid):
    """RSS, PSS and private memory in MiB, and threads and descriptors."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    field = {k: int(v) / 1024 for k, v in re.findall(r"^(\w+): +(\d+) kB", rollup, re.MULTILINE)}
    return (field["Rss"], field["Pss"], field["Private_Clean"] + field["Private_Dirty"],
            len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd")))


def gpu_memory():
    """MiB in use on the first GPU, or None."""
    if not shutil.which("nvidia-smi"):
        return None
    out = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=memory.used",
                          "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False)
    return int(out.stdout) if out.returncode == 0 else None


def row(what, pids):
    """One line: the mean of processes."""
    if not pids:
        return
    means = [sum(column) / len(pids) for column in zip(*map(memory, pids))]
    print(f"{what:12} {len(pids):5} {means[0]:9.1f} {means[1]:9.1f} {means[2]:9.1f} "
          f"{means[3]:8.0f} {means[4]:12.0f}")


def measure(server, sessions, env, spares):
    """Prints the tables."""
    while len(children(server.pid, "cricket-spare")) < spares or spares and not ready(server, spares):
        time.sleep(0.05)
    clients, times, used = [], [], gpu_memory()
    for _ in range(sessions):
        client = subprocess.Popen([sys.executable, "-c", CLIENT], env=env, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        times.append(float(client.stdout.readline()))
        clients.append(client)
    time.sleep(3)
    after = gpu_memory()
    print(f"{'MiB':12} {'count':>5} {'RSS':>9} {'PSS':>9} {'private':>9} {'threads':>8} "
          f"{'descriptors':>12}")
    row("supervisor", [server.pid])
    row("session", children(server.pid, "cricket-worker"))
    row("spare", children(server.pid, "cricket-spare"))
    if used is not None:
        print(f"GPU memory: {used} MiB before the first session, {after} MiB after the last")
    times = ", ".join(f"{t:.1f}" for t in times)
    print(f"ms from loading the library to the first allocation, one after the other: {times}")
    for client in clients:
        client.communicate("\n")


def ready(server, spares):
    """Whether so many spares have said that they are ready."""
    return pathlib.Path(server.log).read_text(encoding="utf-8").count("is ready") >= spares


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="emu")
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--warm", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log, path = f"{folder}/log", f"{folder}/s"
        env = dict(os.environ, CRICKET_CACHE_DIR=f"{folder}/cache")
        with open(log, "w", encoding="utf-8") as out:
            server = subprocess.Popen([ROOT / "cpu" / "cricket-rpc-server", "--driver", options.driver,
                                       "--listen", f"unix:{path}", "--no-unix", "--log", "debug",
                                       "--warm", str(options.warm), "--standby", "0"],
                                      env=env, stdout=out, stderr=out)
        server.log = log
        try:
            while not os.path.exists(path):
                time.sleep(0.05)
            measure(server, options.sessions, dict(
                os.environ, REMOTE_GPU_ADDRESS=f"unix:{path}",
                LD_PRELOAD=str(ROOT / "cpu" / "cricket-client.so")), options.warm)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
