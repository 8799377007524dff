#!/usr/bin/env python3
"""bench/tls_rows.py - where TLS ends: plain TCP, TLS in the worker, and TLS in a relay process for each connection.

    make cpu && bench/tls_rows.py [RUNS]

On loopback only, with a server of its own and the emulated GPU; the ways take turns, RUNS times (5). A row for each way and run: a call
with a reply (a read of 4 bytes, median of 10,000), the best of 12 copies of 64 MiB, the first call, and the processes of the session
besides the program. At last the medians of all runs.
"""
import ctypes
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZE = 64 << 20
ROWS = ("first call ms", "read 4 B us", "up GB/s", "down GB/s")


def measure():
    """In a program of its own: prints the numbers, then waits for the end of stdin."""
    d, n, small = ctypes.CDLL(None), ctypes.c_size_t(SIZE), ctypes.c_size_t(4)
    began = time.perf_counter()
    assert d.cuInit(0) == 0
    first = (time.perf_counter() - began) * 1e3
    context, at, data = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.create_string_buffer(SIZE)
    assert d.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and d.cuCtxSetCurrent(context) == 0
    assert d.cuMemAlloc_v2(ctypes.byref(at), n) == 0
    time.sleep(0.3)         # the first connection is replaced meanwhile

    def timed(call):
        began = time.perf_counter()
        assert call() == 0
        return time.perf_counter() - began
    read = statistics.median(timed(lambda: d.cuMemcpyDtoH_v2(data, at, small)) for _ in range(10000)) * 1e6
    up = SIZE / min(timed(lambda: d.cuMemcpyHtoD_v2(at, data, n)) for _ in range(12)) / 1e9
    down = SIZE / min(timed(lambda: d.cuMemcpyDtoH_v2(data, at, n)) for _ in range(12)) / 1e9
    print(first, read, up, down, flush=True)
    sys.stdin.read()


def descendants(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return sum(1 + descendants(child) for child in children)


def run(address, server, idle, **env):
    """The numbers of one program, and the processes of its session."""
    with subprocess.Popen([sys.executable, __file__, "measure"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "REMOTE_GPU_ADDRESS": address, "LD_PRELOAD": str(ROOT / "cpu" / "cricket-client.so"),
                               **env}) as program:
        numbers = [float(word) for word in program.stdout.readline().split()]
        more = descendants(server.pid) - idle
        program.stdin.close()
    return numbers, more


def show(way, numbers, more):
    print(f"{way:8}" + "".join(f"  {name} {number:7.2f}" for name, number in zip(ROWS, numbers)) + f"  processes {more}", flush=True)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        program = ROOT / "cpu" / "cricket-rpc-server"
        made = subprocess.run([program, "--new-cert", folder, "127.0.0.1"], check=True, capture_output=True, text=True).stdout
        pin = made.rpartition("CRICKET_TLS_PIN=")[2].strip()
        ways = {"plain": {"CRICKET_TLS": "off"}, "worker": {"CRICKET_TLS_PIN": pin},
                "relay": {"CRICKET_TLS_PIN": pin, "CRICKET_DEBUG": "relay"}}
        with open(f"{folder}/log", "wb") as log, subprocess.Popen(
                [program, "--driver", "emu", "--listen", address, "--unix", f"{folder}/s", "--tls", "offered",
                 "--tls-cert", f"{folder}/cert.pem", "--tls-key", f"{folder}/key.pem"], stderr=log) as server:
            try:
                run_all(address, server, ways, runs)
            finally:
                server.terminate()


def run_all(address, server, ways, runs):
    results = {way: [] for way in ways}
    while len(run(address, server, 0, **ways["plain"])[0]) < len(ROWS):     # the server starts
        time.sleep(0.1)
    time.sleep(0.5)
    idle = descendants(server.pid)
    for _ in range(runs):
        for way, env in ways.items():
            numbers, more = run(address, server, idle, **env)
            results[way].append(numbers)
            show(way, numbers, more)
            time.sleep(0.3)
    for way, rows in results.items():
        show("= " + way, [statistics.median(column) for column in zip(*rows)], "-")


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["measure"] else main()
