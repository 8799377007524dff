#!/usr/bin/env python3
"""bench/pool.py [MIB] - copies between two GPUs by the driver API, as JSON on the last line.

Through Cricket with a pool of two servers with one GPU each, or natively on two GPUs. Needs no PyTorch. The bytes are
compared. Rows: GB/s of one copy in a stream, of two at the same time, one each way (in all), and of copies of 1 KiB: us
until a stream has done one, and until the call has returned.
"""
import ctypes as C
import json
import os
import sys
import time

SIZE = (int(sys.argv[1]) if len(sys.argv) > 1 else 256) << 20
CUDA = C.CDLL("libcuda.so.1") if "LD_PRELOAD" not in os.environ else C.CDLL(None)


def call(name, *arguments):
    result = getattr(CUDA, name)(*arguments)
    assert result == 0, f"{name} returned {result}"


class Device:
    def __init__(self, ordinal):
        self.context = C.c_void_p()
        call("cuDevicePrimaryCtxRetain", C.byref(self.context), ordinal)
        self.use()
        self.memory = [C.c_uint64(), C.c_uint64()]
        for m in self.memory:
            call("cuMemAlloc_v2", C.byref(m), C.c_size_t(SIZE))
        self.stream = C.c_void_p()
        call("cuStreamCreate", C.byref(self.stream), 1)

    def use(self):
        call("cuCtxSetCurrent", self.context)

    def send(self, other, size):
        """From the first memory to the second one of OTHER."""
        self.use()
        call("cuMemcpyPeerAsync", other.memory[1], other.context, self.memory[0], self.context, C.c_size_t(size), self.stream)

    def wait(self):
        self.use()
        call("cuStreamSynchronize", self.stream)


def seconds(step, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return sorted(times)[count // 2]


def same(source, target):
    """Do all bytes of the last copy match?"""
    out = [C.create_string_buffer(SIZE) for _ in range(2)]
    for d, i in ((source, 0), (target, 1)):
        d.use()
        call("cuMemcpyDtoH_v2", out[i], d.memory[i], C.c_size_t(SIZE))
    return out[0].raw == out[1].raw


def main():
    call("cuInit", 0)
    a, b = Device(0), Device(1)
    for d in (a, b):
        d.use()
        call("cuMemcpyHtoD_v2", d.memory[0], os.urandom(1 << 20) * (SIZE >> 20), C.c_size_t(SIZE))
    rows = {}
    for name, x, y in (("copy_there", a, b), ("copy_back", b, a)):
        once = seconds(lambda x=x, y=y: (x.send(y, SIZE), x.wait()), 7)
        rows[name] = {"value": SIZE / once / 1e9, "unit": "GB/s", "check": [same(x, y)]}
    both = seconds(lambda: (a.send(b, SIZE), b.send(a, SIZE), a.wait(), b.wait()), 5)
    rows["copies_both_ways"] = {"value": 2 * SIZE / both / 1e9, "unit": "GB/s", "check": [same(a, b), same(b, a)]}
    rows["copy_1K"] = {"value": seconds(lambda: (a.send(b, 1024), a.wait()), 200) * 1e6, "unit": "us"}
    rows["copy_1K_call"] = {"value": seconds(lambda: a.send(b, 1024), 200) * 1e6, "unit": "us"}
    a.wait()
    print(json.dumps(rows))


main()
