"""tests/e2e/checkpoint_program.py - a program that trains in its own way, and whose result depends on every step of it.

    python3 checkpoint_program.py STEPS        with a client or a driver preloaded

Before the last ten steps its threads wait for the end of its input: a test finds all of them however slow the machine is.
Four threads, each with a context's stream of its own, pinned memory and an event: what comes back from the device goes to it again
in the next step. A host function counts. The last line is a hash of everything that came back.
"""
import ctypes
import hashlib
import sys
import threading

cuda = ctypes.CDLL(None)
SIZE = 1 << 18
THREADS = 4
input_ended = threading.Event()
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{name}: error {result}")


def make(kind, name, *arguments):
    made = kind()
    call(name, ctypes.byref(made), *arguments)
    return made


def train(number, steps, results):
    call("cuCtxSetCurrent", context)
    stream = make(ctypes.c_void_p, "cuStreamCreate", 0)
    event = make(ctypes.c_void_p, "cuEventCreate", 0)
    pointers = [make(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(SIZE)) for _ in range(2)]
    pinned = make(ctypes.c_void_p, "cuMemAllocHost_v2", ctypes.c_size_t(SIZE))
    host = (ctypes.c_uint32 * (SIZE // 4)).from_address(pinned.value)
    counted = []
    count = FUNCTION(lambda _: counted.append(1))
    digest = hashlib.blake2b()
    for step in range(steps):
        if step == steps - 10:
            input_ended.wait()
        words = ctypes.c_size_t(SIZE // 8)
        call("cuMemsetD32Async", pointers[0], ctypes.c_uint(step * THREADS + number), words, stream)
        call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(pointers[0].value + SIZE // 2), pinned,
             ctypes.c_size_t(SIZE // 2), stream)
        call("cuMemcpyDtoDAsync_v2", pointers[1], pointers[0], ctypes.c_size_t(SIZE), stream)
        call("cuLaunchHostFunc", stream, count, None)
        call("cuMemcpyDtoHAsync_v2", pinned, pointers[1], ctypes.c_size_t(SIZE), stream)
        call("cuEventRecord", event, stream)
        call("cuEventSynchronize", event)
        digest.update(bytes(host))
        host[step % 1024] += host[SIZE // 8] + 1     # the next step depends on this one
        if number == 0:
            print(f"step {step}", flush=True)
    call("cuStreamSynchronize", stream)
    results[number] = f"{digest.hexdigest()[:32]} {len(counted)}"


call("cuInit", 0)
device = make(ctypes.c_int, "cuDeviceGet", 0)
context = make(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", device)
found = [None] * THREADS
threads = [threading.Thread(target=train, args=(i, int(sys.argv[1]), found)) for i in range(THREADS)]
for thread in threads:
    thread.start()
sys.stdin.read()
input_ended.set()
for thread in threads:
    thread.join()
if None in found:
    sys.exit("a thread has failed")
print("result", *found, flush=True)
