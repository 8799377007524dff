#!/usr/bin/env python3
"""bench/nccl_rate.py [--ranks N] - rates of NCCL, one process a GPU, as JSON on the last line; it needs no PyTorch.

Natively on the GPUs of one machine; and through Cricket, with NCCL in the workers, on a pool of servers with one GPU each. Sizes: 64 KiB
to 256 MiB, or BENCH_SIZES (bytes). Up to 1 MiB a row is us, above it GB/s of the buffer (all_reduce: "algorithm bandwidth").
"""
import ctypes
import os
import time

import ranks

SIZES = [int(s) for s in os.environ.get("BENCH_SIZES", "").split()] or [1 << n for n in (16, 18, 20, 22, 24, 26, 28)]
STEPS_S = float(os.environ.get("BENCH_STEPS", "0.3"))   # that each size takes
FLOAT, SUM = 7, 0

u64, ptr, size_t = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def ok(ret, what=""):
    if ret != 0:
        raise RuntimeError(f"Error {ret} {what}")


class Rank:
    """A context, a stream and a communicator."""

    def __init__(self, rank, count, folder):
        self.cu = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
        self.nccl = ctypes.CDLL("libnccl.so.2", ctypes.RTLD_GLOBAL)
        self.nccl.ncclGetLastError.restype = ctypes.c_char_p
        self.nccl.ncclGetLastError.argtypes = [ptr]
        self.nccl.ncclCommInitRank.argtypes = [ptr, ctypes.c_int, UniqueId, ctypes.c_int]
        self.nccl.ncclAllReduce.argtypes = [ptr, ptr, size_t, ctypes.c_int, ctypes.c_int, ptr, ptr]
        self.nccl.ncclBroadcast.argtypes = [ptr, ptr, size_t, ctypes.c_int, ctypes.c_int, ptr, ptr]
        self.nccl.ncclCommDestroy.argtypes = [ptr]
        self.rank, self.count = rank, count
        context, self.stream, self.comm = ptr(), ptr(), ptr()
        ok(self.cu.cuInit(0), "cuInit")
        ok(self.cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank), "cuDevicePrimaryCtxRetain")
        ok(self.cu.cuCtxSetCurrent(context))
        ok(self.cu.cuStreamCreate(ctypes.byref(self.stream), 1))
        ok(self.nccl.ncclCommInitRank(ctypes.byref(self.comm), count, self.meet(folder), rank), self.why())

    def why(self):
        return self.nccl.ncclGetLastError(None)

    def meet(self, folder):
        """The unique id, by a file of rank 0."""
        file, unique = folder / "id", UniqueId()
        if self.rank == 0:
            ok(self.nccl.ncclGetUniqueId(ctypes.byref(unique)), self.why())
            (folder / "id.new").write_bytes(bytes(unique))
            (folder / "id.new").rename(file)
        while not file.exists():
            time.sleep(0.005)
        return UniqueId.from_buffer_copy(file.read_bytes())

    def buffer(self, size, value):
        at = u64()
        ok(self.cu.cuMemAlloc_v2(ctypes.byref(at), size_t(size)), "cuMemAlloc")
        word = ctypes.c_uint32.from_buffer_copy(ctypes.c_float(value))
        ok(self.cu.cuMemsetD32_v2(at, word, size_t(size // 4)))
        ok(self.cu.cuCtxSynchronize())      # the stream does not wait for it
        return at

    def first(self, at):
        value = ctypes.c_float()
        ok(self.cu.cuMemcpyDtoH_v2(ctypes.byref(value), at, size_t(4)))
        return value.value

    def wait(self):
        ok(self.cu.cuStreamSynchronize(self.stream))

    def all_reduce(self, source, target, size):
        ok(self.nccl.ncclAllReduce(source.value, target.value, size // 4, FLOAT, SUM, self.comm, self.stream), "ncclAllReduce")

    def broadcast(self, source, target, size):
        ok(self.nccl.ncclBroadcast(source.value, target.value, size // 4, FLOAT, 0, self.comm, self.stream), "ncclBroadcast")


def measure(r, step):
    """Seconds a step. All ranks take as many, which rank 0's first ones determine: it broadcasts their number."""
    for _ in range(5):
        step()
    r.wait()
    began = time.perf_counter()
    for _ in range(5):
        step()
    r.wait()
    wish = r.buffer(4, min(2000.0, max(5.0, STEPS_S / max((time.perf_counter() - began) / 5, 1e-6))))
    r.broadcast(wish, wish, 4)
    r.wait()
    steps = int(r.first(wish))
    began = time.perf_counter()
    for _ in range(steps):
        step()
    r.wait()
    return (time.perf_counter() - began) / steps


def row(size, seconds, check):
    if size > 1 << 20:
        return {"value": size / seconds / 1e9, "unit": "GB/s", "check": check}
    return {"value": seconds * 1e6, "unit": "us", "check": check}


def name_of(size):
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"


def rates(rank, count, folder):
    r, rows = Rank(rank, count, folder), {}
    for size in SIZES:
        source, target = r.buffer(size, rank + 1.0), r.buffer(size, 0)
        seconds = measure(r, lambda: r.all_reduce(source, target, size))
        rows[f"all_reduce_{name_of(size)}"] = row(size, seconds, [r.first(target)])
        if size == SIZES[0]:
            seconds = measure(r, lambda: (r.all_reduce(source, target, size), r.wait()))
            rows[f"all_reduce_wait_{name_of(size)}"] = row(size, seconds, [])
        ok(r.cu.cuMemFree_v2(source) or r.cu.cuMemFree_v2(target))
    small = r.buffer(1024, 0)
    r.all_reduce(small, small, 1024)
    r.wait()
    began = time.perf_counter()
    for _ in range(500):
        r.all_reduce(small, small, 1024)
    enqueue = (time.perf_counter() - began) / 500
    r.wait()
    rows["all_reduce_enqueue"] = {"value": enqueue * 1e6, "unit": "us"}
    ok(r.nccl.ncclCommDestroy(r.comm))
    return rows if rank == 0 else None


def devices():
    count, cu = ctypes.c_int(), ctypes.CDLL("libcuda.so.1")
    ok(cu.cuInit(0))
    ok(cu.cuDeviceGetCount(ctypes.byref(count)))
    return count.value


if __name__ == "__main__":
    ranks.main(__file__, {"rates": rates}, devices)
