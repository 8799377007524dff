#!/usr/bin/env python3
"""bench/call_cost.py - the server's processor time for a call, a one-way command and a byte, over tcp.

Starts a server of its own with the emulated GPU; no side spins. Processor time holds on a busy machine too. bench/model.py
has the results as constants. The emulated GPU's own work is in them: a copy in memory for each byte.
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile

import many
import scale

CALLS, COMMANDS, COPIES, SIZE = 20000, 200000, 16, 64 << 20


def client(server):
    """Runs as a program of Cricket: prints what the server's processes have used."""
    cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(SIZE)) == 0
    bytes_here, free, total = ctypes.create_string_buffer(SIZE), ctypes.c_size_t(), ctypes.c_size_t()
    del os.environ["LD_PRELOAD"]        # what runs `ps` below is no client

    def used(count, call):
        before = scale.processor_s(many.family(server))
        for _ in range(count):
            assert call() == 0
        assert cuda.cuCtxSynchronize() == 0
        return scale.processor_s(many.family(server)) - before

    size = ctypes.c_size_t(SIZE)
    print(json.dumps({
        "call": used(CALLS, lambda: cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))) / CALLS * 1e6,
        "command": used(COMMANDS, lambda: cuda.cuMemsetD8Async(memory, 0, ctypes.c_size_t(1), None)) / COMMANDS * 1e6,
        "up": COPIES * SIZE / 1e9 / used(COPIES, lambda: cuda.cuMemcpyHtoD_v2(memory, bytes_here, size)),
        "down": COPIES * SIZE / 1e9 / used(COPIES, lambda: cuda.cuMemcpyDtoH_v2(bytes_here, memory, size))}))


def main():
    if len(sys.argv) == 2:
        client(int(sys.argv[1]))
        return
    os.environ["CRICKET_DEBUG"] = "spin=0,no-compress"
    with tempfile.TemporaryDirectory() as folder:
        port = scale.free_port()
        server = scale.serve(folder, port, 8, 0)
        env = dict(os.environ, REMOTE_GPU_ADDRESS=f"tcp://127.0.0.1:{port}",
                   LD_PRELOAD=str(scale.ROOT / "cpu" / "cricket-client.so"))
        try:
            said = subprocess.run([sys.executable, __file__, str(server.pid)], env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
        finally:
            server.terminate()
            server.wait()
    costs = json.loads(said.stdout)
    for name, unit in (("call", "us"), ("command", "us"), ("up", "GB a core's second"), ("down", "GB a core's second")):
        print(f"{name:12} {costs[name]:8.2f} {unit}")
    print(json.dumps(costs))


if __name__ == "__main__":
    main()
