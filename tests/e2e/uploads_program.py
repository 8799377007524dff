"""tests/e2e/uploads_program.py - one-way uploads of pinned memory between other work, in an order that shows: uploads_program.py
ROUNDS SEED. It prints "ready", "round N" after each round, and "right" at the end.

Two streams write the same memory by turns, and events order them. The memory is compared with the same work in Python.
"""
import ctypes
import random
import sys

ROUNDS, SEED = map(int, sys.argv[1:])
SIZE = 4 << 20
STEPS = 12      # of a round, before it waits for what it has done

c = ctypes.CDLL("libcuda.so.1")
rng = random.Random(SEED)
context, event, host = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
streams = [ctypes.c_void_p(), ctypes.c_void_p()]


def ok(err):
    assert err == 0, err


def size_t(n):
    return ctypes.c_size_t(n)


def allocate(size):
    at = ctypes.c_uint64()
    ok(c.cuMemAlloc_v2(ctypes.byref(at), size_t(size)))
    return at


ok(c.cuInit(0))
ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
ok(c.cuCtxSetCurrent(context))
for stream in streams:
    ok(c.cuStreamCreate(ctypes.byref(stream), 1))
ok(c.cuEventCreate(ctypes.byref(event), 2))
ok(c.cuMemHostAlloc(ctypes.byref(host), size_t(SIZE), 0))
memory = allocate(SIZE)
model = bytearray(SIZE)
ok(c.cuMemsetD8_v2(memory, 0, size_t(SIZE)))
ok(c.cuCtxSynchronize())
noise = random.Random(7).randbytes(2 * SIZE)
stream = streams[0]
print("ready", flush=True)


def place(most=3 << 20):
    size = rng.randint(1, most)
    return rng.randrange(SIZE - size + 1), size


def device(at):
    return ctypes.c_uint64(memory.value + at)


def upload():
    at, size = place()
    data = noise[rng.randrange(SIZE):][:size]
    ctypes.memmove(host.value + at, data, size)
    ok(c.cuMemcpyHtoDAsync_v2(device(at), ctypes.c_void_p(host.value + at), size_t(size), stream))
    ctypes.memset(host.value + at, 0xee, 16)    # the bytes have been taken over
    model[at:at + size] = data


def fill():
    at, size = place()
    byte = rng.randrange(256)
    ok(c.cuMemsetD8Async(device(at), byte, size_t(size), stream))
    model[at:at + size] = bytes([byte]) * size


def move():
    size = rng.randint(1, SIZE // 2)
    to, come = rng.randrange(SIZE // 2 - size + 1), SIZE // 2 + rng.randrange(SIZE // 2 - size + 1)
    ok(c.cuMemcpyDtoDAsync_v2(device(to), device(come), size_t(size), stream))
    model[to:to + size] = model[come:come + size]


def change_stream():
    global stream
    ok(c.cuEventRecord(event, stream))
    stream = streams[stream is streams[0]]
    ok(c.cuStreamWaitEvent(stream, event, 0))


def use_and_free():
    """Memory that is freed while bytes are on their way to it, and memory that may get the same place."""
    at = allocate(1 << 20)
    ok(c.cuMemcpyHtoDAsync_v2(at, host, size_t(1 << 20), stream))
    ok(c.cuMemFree_v2(at))
    at = allocate(1 << 20)
    back = ctypes.create_string_buffer(1 << 20)
    ok(c.cuMemsetD8_v2(at, 5, size_t(1 << 20)))
    ok(c.cuMemcpyDtoH_v2(back, at, size_t(1 << 20)))
    assert back.raw == b"\5" * (1 << 20)
    ok(c.cuMemFree_v2(at))


def capture():
    """An upload into one stream while another one is captured, and the graph after it."""
    graph, run = ctypes.c_void_p(), ctypes.c_void_p()
    other = streams[stream is streams[0]]
    ok(c.cuStreamBeginCapture_v2(other, 2))
    ok(c.cuMemsetD8Async(device(100), 9, size_t(50000), other))
    upload()
    ok(c.cuStreamEndCapture(other, ctypes.byref(graph)))
    ok(c.cuGraphInstantiateWithFlags(ctypes.byref(run), graph, ctypes.c_ulonglong(0)))
    ok(c.cuGraphLaunch(run, stream))
    model[100:50100] = b"\x09" * 50000
    ok(c.cuGraphExecDestroy(run))
    ok(c.cuGraphDestroy(graph))


def check():
    back = ctypes.create_string_buffer(SIZE)
    ok(c.cuMemcpyDtoHAsync_v2(back, memory, size_t(SIZE), stream))
    ok(c.cuStreamSynchronize(stream))
    wrong = next((i for i in range(SIZE) if back.raw[i] != model[i]), None) if back.raw != model else None
    assert wrong is None, wrong


for number in range(ROUNDS):
    for _ in range(STEPS):
        rng.choices((upload, fill, move, change_stream, use_and_free, capture), (10, 3, 3, 3, 1, 1))[0]()
    check()
    print("round", number, flush=True)
print("right", flush=True)
