"""tests/e2e/pool_program.py - what the programs of test_pool.py do with the devices of several servers: CASE [ARGUMENTS].

It calls the driver API through the preloaded client. A case raises when something is wrong; the program says "CASE:
right" at its end.
"""
import ctypes as C
import os
import sys
import threading

CUDA = C.CDLL(None)
SIZE = 40 << 20         # more than a copy between servers holds at a time

NOT_READY, INVALID_HANDLE, UNSUPPORTED, UNAVAILABLE, NOT_SUPPORTED = 600, 400, 217, 46, 801

SPIN = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .entry wait(.param .u64 flag) {
    .reg .pred p; .reg .u32 v; .reg .u64 a;
    ld.param.u64 a, [flag];
LOOP:
    ld.volatile.global.u32 v, [a];
    setp.eq.u32 p, v, 0;
    @p bra LOOP;
    ret;
}
.visible .entry fill(.param .u64 to, .param .u32 value) {
    .reg .u32 v, i; .reg .u64 a, o;
    ld.param.u64 a, [to];
    ld.param.u32 v, [value];
    mov.u32 i, %tid.x;
    mul.wide.u32 o, i, 4;
    add.u64 a, a, o;
    st.global.u32 [a], v;
    ret;
}
\0"""


def call(name, *arguments, error=0):
    """Makes a call of the driver; it must return ERROR."""
    result = getattr(CUDA, name)(*arguments)
    assert result == error, f"{name} returned {result}, not {error}"


def number(name, *arguments, kind=C.c_int):
    out = kind()
    call(name, C.byref(out), *arguments)
    return out.value


def size(n):
    return C.c_size_t(n)


class Device:
    """A device with its primary context, which it makes current."""

    def __init__(self, ordinal):
        self.ordinal = ordinal
        self.context = C.c_void_p(number("cuDevicePrimaryCtxRetain", ordinal, kind=C.c_void_p))
        self.use()

    def use(self):
        call("cuCtxSetCurrent", self.context)
        return self

    def memory(self, n=SIZE):
        self.use()
        return C.c_uint64(number("cuMemAlloc_v2", size(n), kind=C.c_uint64))

    def stream(self):
        self.use()
        return C.c_void_p(number("cuStreamCreate", 1, kind=C.c_void_p))

    def event(self, flags=0):
        self.use()
        return C.c_void_p(number("cuEventCreate", flags, kind=C.c_void_p))

    def module(self):
        self.use()
        return C.c_void_p(number("cuModuleLoadData", SPIN, kind=C.c_void_p))

    def function(self, module, name):
        return C.c_void_p(number("cuModuleGetFunction", module, name, kind=C.c_void_p))

    def launch(self, function, *arguments, stream=None, threads=1):
        self.use()
        pointers = (C.c_void_p * len(arguments))(*(C.addressof(a) for a in arguments))
        call("cuLaunchKernel", function, 1, 1, 1, threads, 1, 1, 0, stream, pointers, None)


def devices():
    call("cuInit", 0)
    return [Device(i) for i in range(number("cuDeviceGetCount"))]


def put(address, data):
    call("cuMemcpyHtoD_v2", address, data, size(len(data)))


def get(address, n=SIZE):
    out = C.create_string_buffer(n)
    call("cuMemcpyDtoH_v2", out, address, size(n))
    return out.raw


def uuid(ordinal):
    out = (C.c_ubyte * 16)()
    call("cuDeviceGetUuid_v2", out, ordinal)
    return bytes(out)


def bus(ordinal):
    out = C.create_string_buffer(32)
    call("cuDeviceGetPCIBusId", out, 32, ordinal)
    return out.value.decode()


def show():
    """The devices: memory, UUID, PCI address."""
    call("cuInit", 0)
    for i in range(number("cuDeviceGetCount")):
        total = number("cuDeviceTotalMem_v2", i, kind=C.c_size_t)
        assert number("cuDeviceGetByPCIBusId", bus(i).encode()) == i
        print(i, total >> 20, uuid(i).hex(), bus(i))


def arrays():
    """Each device has memory of its own, at addresses that no other has."""
    all_of_them = devices()
    pieces = [(d, d.memory(1 << 20)) for d in all_of_them for _ in range(3)]
    ranges = sorted((p.value, p.value + (1 << 20)) for _, p in pieces)
    assert all(a[1] <= b[0] for a, b in zip(ranges, ranges[1:]))
    for i, (d, p) in enumerate(pieces):
        d.use()
        call("cuMemsetD8_v2", p, C.c_ubyte(i + 1), size(1 << 20))
    for i, (d, p) in enumerate(pieces):
        d.use()
        assert get(p, 1 << 20) == bytes([i + 1]) * (1 << 20)
        assert number("cuPointerGetAttribute", 9, p) == d.ordinal
    all_of_them[0].use()
    for _, p in pieces:         # with any context current
        call("cuMemFree_v2", p)


def kernels():
    """A module of each context, and one library for all."""
    all_of_them = devices()
    library = number("cuLibraryLoadData", SPIN, None, None, 0, None, None, 0, kind=C.c_void_p)
    kernel = C.c_void_p(number("cuLibraryGetKernel", C.c_void_p(library), b"fill", kind=C.c_void_p))
    for d in all_of_them:
        own = d.function(d.module(), b"fill")
        p = d.memory(4096)
        for f, value in ((own, 7 + d.ordinal), (kernel, 70 + d.ordinal)):
            d.launch(f, p, C.c_uint32(value), threads=1024)
            assert get(p, 4096) == (value).to_bytes(4, "little") * 1024
        assert number("cuKernelGetAttribute", 0, kernel, d.ordinal) >= 1024
    call("cuLibraryUnload", C.c_void_p(library))


def copies():
    """Between all pairs of devices, in all forms, exact to the byte."""
    all_of_them = devices()
    memory = [d.memory() for d in all_of_them]
    stream = all_of_them[0].stream()
    for a, from_ in zip(all_of_them, memory):
        for b, to in zip(all_of_them, memory):
            if a is b:
                continue
            for form in range(6):
                data = os.urandom(SIZE)
                a.use()
                put(from_, data)
                b.use()
                call("cuMemsetD8_v2", to, C.c_ubyte(0), size(SIZE))
                call("cuCtxSynchronize")        # the stream below does not wait for it
                n = size(SIZE - 2)
                source, target = C.c_uint64(from_.value + 1), C.c_uint64(to.value + 1)
                all_of_them[0].use()
                if form == 0:
                    call("cuMemcpyPeer", target, b.context, source, a.context, n)
                elif form == 1:
                    call("cuMemcpyPeerAsync", target, b.context, source, a.context, n, stream)
                elif form == 2:
                    call("cuMemcpyDtoD_v2", target, source, n)
                elif form == 3:
                    call("cuMemcpyDtoDAsync_v2", target, source, n, stream)
                elif form == 4:
                    call("cuMemcpy", target, source, n)
                else:
                    call("cuMemcpyAsync", target, source, n, stream)
                call("cuStreamSynchronize", stream)
                b.use()
                assert get(to) == b"\0" + data[1:-1] + b"\0", (a.ordinal, b.ordinal, form)
    all_of_them[0].use()
    put(memory[-1], b"over there" * 100)        # memory of a device that is not current
    assert get(memory[-1], 1000) == b"over there" * 100
    call("cuMemcpyDtoD_v2", memory[-1], memory[0], size(SIZE + 1), error=1)
    assert get(memory[-1], 1000) == b"over there" * 100


class Copy3D(C.Structure):
    """CUDA_MEMCPY3D_PEER."""
    _fields_ = [(side + name, kind) for side in ("src", "dst") for name, kind in (
        ("X", C.c_size_t), ("Y", C.c_size_t), ("Z", C.c_size_t), ("LOD", C.c_size_t), ("Type", C.c_int),
        ("Host", C.c_void_p), ("Device", C.c_uint64), ("Array", C.c_void_p), ("Context", C.c_void_p),
        ("Pitch", C.c_size_t), ("Height", C.c_size_t))] + [
            ("Width", C.c_size_t), ("Rows", C.c_size_t), ("Depth", C.c_size_t)]


def boxes():
    """A box of rows with gaps, from the first device to the last one."""
    all_of_them = devices()
    first, last = all_of_them[0], all_of_them[-1]
    pitch, rows, depth = 5000, 1200, 5      # together more than a piece
    data = os.urandom(pitch * rows * depth)
    a, b = first.memory(len(data)), last.memory(len(data))
    last.use()
    call("cuMemsetD8_v2", b, C.c_ubyte(0), size(len(data)))
    first.use()
    put(a, data)
    box = Copy3D(srcX=3, srcType=2, srcDevice=a.value, srcContext=first.context, srcPitch=pitch, srcHeight=rows,
                 dstX=5, dstType=2, dstDevice=b.value, dstContext=last.context, dstPitch=pitch, dstHeight=rows,
                 Width=4001, Rows=rows - 1, Depth=depth)
    call("cuMemcpy3DPeer", C.byref(box))
    out = get(b, len(data))
    for i in range(rows * depth):
        row = out[i * pitch:(i + 1) * pitch]
        inside = i % rows < rows - 1
        wanted = data[i * pitch + 3:i * pitch + 4004] if inside else bytes(4001)
        assert row == bytes(5) + wanted + bytes(pitch - 4006), i


def peers():
    """No access between servers: PAIRS of devices have some."""
    all_of_them = devices()
    pairs = {tuple(map(int, p.split("-"))) for p in sys.argv[2:]}
    for a in all_of_them:
        for b in all_of_them:
            if a is b:
                continue
            connected = tuple(sorted((a.ordinal, b.ordinal))) in pairs
            assert number("cuDeviceCanAccessPeer", a.ordinal, b.ordinal) == connected
            assert number("cuDeviceGetP2PAttribute", 2, a.ordinal, b.ordinal) == connected
            a.use()
            call("cuCtxEnablePeerAccess", b.context, 0, error=0 if connected else UNSUPPORTED)
            call("cuCtxDisablePeerAccess", b.context, error=0 if connected else 705)


def events():
    """A stream of the last device waits for work of the first one, which ends when this program lets it."""
    all_of_them = devices()
    first, last = all_of_them[0], all_of_them[-1]
    flag = first.memory(4)
    call("cuMemsetD8_v2", flag, C.c_ubyte(0), size(4))
    call("cuCtxSynchronize")        # the other streams do not wait for the default one
    busy, helper, there = first.stream(), first.stream(), last.stream()
    event, start, end = first.event(), first.event(), last.event()
    module = first.module()
    first.launch(first.function(module, b"wait"), flag, stream=busy)
    call("cuEventRecord", event, busy)
    last.use()
    call("cuEventQuery", event, error=NOT_READY)
    call("cuStreamWaitEvent", there, event, 0)
    call("cuEventRecord", end, there)
    call("cuStreamQuery", there, error=NOT_READY)
    call("cuEventQuery", end, error=NOT_READY)
    first.use()
    call("cuEventRecord", event, busy)      # the wait is for the earlier record
    call("cuMemsetD8Async", flag, C.c_ubyte(1), size(4), helper)
    last.use()
    call("cuStreamSynchronize", there)
    call("cuEventSynchronize", event)
    call("cuEventQuery", event)
    call("cuStreamWaitEvent", there, event, 0)      # is done: no wait
    call("cuStreamSynchronize", there)
    call("cuEventRecord", event, there, error=INVALID_HANDLE)
    first.use()
    call("cuEventRecord", start, busy)
    time = C.c_float()
    call("cuEventElapsedTime", C.byref(time), start, end, error=INVALID_HANDLE)
    call("cuEventSynchronize", start)


def counts():
    """Commands of one server do not count for another: after a copy between them, a wait still waits."""
    all_of_them = devices()
    first, last = all_of_them[0], all_of_them[-1]
    a, b, flag = first.memory(4096), last.memory(4096), first.memory(4)
    last.use()
    for _ in range(2000):
        call("cuMemsetD8Async", b, C.c_ubyte(1), size(16), None)
    helper = first.stream()
    call("cuMemsetD8_v2", a, C.c_ubyte(0), size(4096))
    call("cuMemcpyPeer", b, last.context, a, first.context, size(4096))
    call("cuMemsetD8_v2", flag, C.c_ubyte(0), size(4))
    first.launch(first.function(first.module(), b"wait"), flag)

    def wait():
        first.use()
        call("cuStreamSynchronize", None)
    waiter = threading.Thread(target=wait)
    waiter.start()
    waiter.join(0.5)
    assert waiter.is_alive()
    call("cuMemsetD8Async", flag, C.c_ubyte(1), size(4), helper)
    waiter.join(60)
    assert not waiter.is_alive()


def ping_pong():
    """Two servers in turn, each behind the other's last event, which are recorded again and again."""
    all_of_them = devices()
    first, last = all_of_them[0], all_of_them[-1]
    streams = [first.stream(), last.stream()]
    marks = [first.event(2), last.event(2)]
    memory = [first.memory(1 << 20), last.memory(1 << 20)]
    for turn in range(40):
        me = turn % 2
        (first, last)[me].use()
        call("cuStreamWaitEvent", streams[me], marks[1 - me], 0)
        if turn > 0:
            call("cuMemcpyDtoDAsync_v2", memory[me], memory[1 - me], size(1 << 20), streams[me])
        call("cuMemsetD8Async", memory[me], C.c_ubyte(turn), size(1 << (20 - turn // 4)), streams[me])
        call("cuEventRecord", marks[me], streams[me])
    call("cuStreamSynchronize", streams[1])
    last.use()
    expected = bytearray(1 << 20)
    for turn in range(40):
        n = 1 << (20 - turn // 4)
        expected[:n] = bytes([turn]) * n
    assert get(memory[1], 1 << 20) == bytes(expected)


def threads():
    """A thread for each device at the same time."""
    import threading
    all_of_them = devices()
    wrong = []

    def work(d):
        try:
            p = d.memory(1 << 20)
            s = d.stream()
            for turn in range(50):
                call("cuMemsetD8Async", p, C.c_ubyte(turn + d.ordinal), size(1 << 20), s)
                call("cuStreamSynchronize", s)
                assert get(p, 100) == bytes([turn + d.ordinal]) * 100
            call("cuMemFree_v2", p)
        except AssertionError as e:
            wrong.append(e)

    every = [threading.Thread(target=work, args=(d,)) for d in all_of_them]
    for t in every:
        t.start()
    for t in every:
        t.join()
    assert not wrong, wrong


def lost():
    """The server of the last device goes when this program has said so; the others go on."""
    all_of_them = devices()
    first, last = all_of_them[0], all_of_them[-1]
    here, there = first.memory(), last.memory()
    data = os.urandom(SIZE)
    first.use()
    put(here, data)
    last.use()
    print("ready", flush=True)
    sys.stdin.readline()
    out = C.create_string_buffer(SIZE)
    call("cuMemcpyDtoH_v2", out, there, size(SIZE), error=UNAVAILABLE)
    call("cuCtxSynchronize", error=UNAVAILABLE)
    call("cuMemcpyPeer", there, last.context, here, first.context, size(SIZE), error=UNAVAILABLE)
    assert number("cuDeviceGetCount") == len(all_of_them)
    first.use()
    assert get(here) == data
    more = first.memory(1 << 20)
    call("cuMemFree_v2", more)
    call("cuMemcpyDtoD_v2", there, here, size(SIZE), error=UNAVAILABLE)
    last.use()
    call("cuMemAlloc_v2", C.byref(C.c_uint64()), size(1 << 20), error=UNAVAILABLE)
    first.use()
    call("cuCtxSynchronize")


def waits_for_lost():
    """A stream waits for work of a server that goes meanwhile: an error, and no success."""
    all_of_them = devices()
    first, last = all_of_them[0], all_of_them[-1]
    flag = last.memory(4)
    call("cuMemsetD8_v2", flag, C.c_ubyte(0), size(4))
    busy, here = last.stream(), first.stream()
    event = last.event()
    last.launch(last.function(last.module(), b"wait"), flag, stream=busy)
    call("cuEventRecord", event, busy)
    first.use()
    call("cuStreamWaitEvent", here, event, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    result = CUDA.cuStreamSynchronize(here)
    if result == 0:         # the error has come behind the wait
        result = CUDA.cuStreamSynchronize(here)
    assert result == UNAVAILABLE, result


def managed():
    """Managed memory of each server's devices."""
    all_of_them = devices()
    for d in all_of_them:
        d.use()
        at = number("cuMemAllocManaged", size(1 << 20), 1, kind=C.c_uint64)
        view = (C.c_ubyte * (1 << 20)).from_address(at)
        view[5] = 9
        d.launch(d.function(d.module(), b"fill"), C.c_uint64(at + 4096), C.c_uint32(0x01010101 * (d.ordinal + 1)),
                 threads=4)
        call("cuCtxSynchronize")
        all_of_them[0].use()    # the page is fetched from its own server
        assert bytes(view[4096:4113]) == bytes([d.ordinal + 1]) * 16 + b"\0" and view[5] == 9


def pinned():
    """Pinned memory of one context serves copies of all devices."""
    all_of_them = devices()
    all_of_them[0].use()
    at = number("cuMemHostAlloc", size(1 << 20), 1, kind=C.c_void_p)
    view = (C.c_ubyte * (1 << 20)).from_address(at)
    for d in all_of_them:
        p, s = d.memory(1 << 20), d.stream()
        for n in (100, 1 << 20):
            C.memset(at, d.ordinal + 40, n)
            call("cuMemcpyHtoDAsync_v2", p, C.c_void_p(at), size(n), s)
            call("cuStreamSynchronize", s)
            C.memset(at, 0, n)
            call("cuMemcpyDtoHAsync_v2", C.c_void_p(at), p, size(n), s)
            call("cuStreamSynchronize", s)
            assert bytes(view[:n]) == bytes([d.ordinal + 40]) * n
    all_of_them[0].use()
    call("cuMemFreeHost", C.c_void_p(at))


def functions():
    """Functions of the host, in streams of all devices."""
    kind = C.CFUNCTYPE(None, C.c_void_p)
    called = []
    note = kind(called.append)
    all_of_them = devices()
    streams = [d.stream() for d in all_of_them]
    for turn in range(5):
        for d, s in zip(all_of_them, streams):
            d.use()
            call("cuLaunchHostFunc", s, note, C.c_void_p(100 * turn + d.ordinal + 1))
    for d, s in zip(all_of_them, streams):
        d.use()
        call("cuStreamSynchronize", s)
    assert sorted(called) == sorted(100 * t + d.ordinal + 1 for t in range(5) for d in all_of_them), called


def forks():
    """A child has sessions of its own if the parent has only asked NVML, and none if it has used CUDA."""
    ml = C.CDLL(None)
    assert ml.nvmlInit_v2() == 0
    for begun in (False, True):
        child = os.fork()
        if child == 0:
            if begun:
                call("cuInit", 0, error=3)
            else:
                arrays()
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        arrays()


def nvml():
    """NVML's devices in the order of the list, each with its own UUID, found by all names."""
    ml = C.CDLL(None)
    assert ml.nvmlInit_v2() == 0
    count = C.c_uint()
    assert ml.nvmlDeviceGetCount_v2(C.byref(count)) == 0
    seen = set()
    for i in range(count.value):
        device, again, index = C.c_void_p(), C.c_void_p(), C.c_uint()
        text, info = C.create_string_buffer(96), C.create_string_buffer(68)
        assert ml.nvmlDeviceGetHandleByIndex_v2(i, C.byref(device)) == 0
        assert ml.nvmlDeviceGetIndex(device, C.byref(index)) == 0 and index.value == i
        assert ml.nvmlDeviceGetUUID(device, text, 96) == 0
        assert ml.nvmlDeviceGetHandleByUUID(text, C.byref(again)) == 0 and again.value == device.value
        assert ml.nvmlDeviceGetPciInfo_v3(device, info) == 0
        address = info.raw[36:68].split(b"\0")[0]
        assert ml.nvmlDeviceGetHandleByPciBusId_v2(address, C.byref(again)) == 0 and again.value == device.value
        memory = (C.c_ulonglong * 3)()
        assert ml.nvmlDeviceGetMemoryInfo(device, memory) == 0
        print(i, memory[0] >> 20, text.value.decode(), address.decode())
        seen.add(text.value)
    assert len(seen) == count.value
    device = C.c_void_p()
    assert ml.nvmlDeviceGetHandleByIndex_v2(count.value, C.byref(device)) == 2
    assert ml.nvmlShutdown() == 0


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"{sys.argv[1]}: right")
