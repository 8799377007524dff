"""tests/e2e/pool_direct_program.py - what the programs of test_pool_direct.py do with a device of each of two servers: CASE.

As in pool_program.py. The first device is on the first server, the last device on the last one.
"""
import sys
import threading

from pool_program import *      # the driver's calls
from pool_program import CUDA, C, Copy3D, call, devices, get, number, os, put, size

BIG = 9 << 20       # on all connections of a bridge


def ends():
    all_of_them = devices()
    return all_of_them[0], all_of_them[-1]


def flagged(device):
    """A stream that a kernel blocks, and a function that lets it go."""
    flag = device.memory(4)
    call("cuMemsetD8_v2", flag, C.c_ubyte(0), size(4))
    call("cuCtxSynchronize")
    busy, helper = device.stream(), device.stream()
    module = device.module()

    def go():
        device.use()
        call("cuMemsetD8Async", flag, C.c_ubyte(1), size(4), helper)
    return busy, go, lambda: device.launch(device.function(module, b"wait"), flag, stream=busy)


def in_order():
    """The call returns while its stream is blocked. The copy takes what the stream has written before it, and the stream's
    later work, also that of a stream of the other server that waits for it, finds the bytes. In both directions, in a
    stream of either server."""
    first, last = ends()
    for source, target in ((first, last), (last, first)):
        for streams in (source, target):
            for n in (1000, BIG):
                a, b, c = source.memory(n), target.memory(n), target.memory(n)
                for d, p in ((source, a), (target, b), (target, c)):
                    d.use()
                    call("cuMemsetD8_v2", p, C.c_ubyte(7), size(n))
                    call("cuCtxSynchronize")
                busy, go, block = flagged(streams)
                block()
                if streams is source:
                    call("cuMemsetD8Async", a, C.c_ubyte(9), size(n), busy)
                call("cuMemcpyPeerAsync", b, target.context, a, source.context, size(n), busy)
                event = streams.event(2)
                call("cuEventRecord", event, busy)
                other = target.stream()
                call("cuStreamWaitEvent", other, event, 0)
                call("cuMemcpyDtoDAsync_v2", c, b, size(n), other)
                call("cuStreamQuery", other, error=600)
                target.use()
                assert get(b, n) == bytes([7]) * n      # the copy has not begun
                if streams is target:
                    source.use()
                    call("cuMemsetD8_v2", a, C.c_ubyte(9), size(n))
                    call("cuCtxSynchronize")
                go()
                target.use()
                call("cuStreamSynchronize", other)
                assert get(c, n) == bytes([9]) * n
                streams.use()
                call("cuStreamSynchronize", busy)
                for p in (a, b, c):
                    call("cuMemFree_v2", p)


def many():
    """Copies of several threads and streams at the same time, both ways."""
    first, last = ends()
    wrong = []

    def work(source, target, seed):
        try:
            stream = source.stream()
            for turn in range(6):
                n = (BIG, 300000, 17)[turn % 3]
                a, b = source.memory(n), target.memory(n)
                data = os.urandom(n)
                source.use()
                put(a, data)
                call("cuMemcpyAsync", b, a, size(n), stream)
                call("cuMemFree_v2", a)
                call("cuStreamSynchronize", stream)
                target.use()
                assert get(b, n) == data, (seed, turn)
                call("cuMemFree_v2", b)
        except AssertionError as e:
            wrong.append(e)
    threads = [threading.Thread(target=work, args=(*((first, last)[::1 if i % 2 else -1]), i)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong


def forms():
    """2D and 3D, synchronous and in a stream, between ranges and arrays."""
    first, last = ends()
    pitch, rows, depth = 3000, 40, 7
    n = pitch * rows * depth
    for source, target in ((first, last), (last, first)):
        a, b = source.memory(n), target.memory(n)
        data = os.urandom(n)
        source.use()
        put(a, data)
        stream = source.stream()
        for form in range(4):
            target.use()
            call("cuMemsetD8_v2", b, C.c_ubyte(0), size(n))
            call("cuCtxSynchronize")
            source.use()
            box = Copy3D(srcX=3, srcY=1, srcType=2, srcDevice=a.value, srcContext=source.context, srcPitch=pitch,
                         srcHeight=rows, dstX=5, dstY=2, dstType=2, dstDevice=b.value, dstContext=target.context,
                         dstPitch=pitch, dstHeight=rows, Width=2001, Rows=rows - 2, Depth=depth if form < 2 else 1)
            if form == 0:
                call("cuMemcpy3DPeer", C.byref(box))
            elif form == 1:
                call("cuMemcpy3DPeerAsync", C.byref(box), stream)
            else:
                flat = (C.c_uint64 * 16)(3, 1, 2, 0, a.value, 0, pitch, 5, 2, 2, 0, b.value, 0, pitch, 2001, rows - 2)
                if form == 2:
                    call("cuMemcpy2D_v2", flat)
                else:
                    call("cuMemcpy2DAsync_v2", flat, stream)
            call("cuStreamSynchronize", stream)
            target.use()
            out = get(b, n)
            for i in range(rows * (depth if form < 2 else 1)):
                row, y = out[i * pitch:(i + 1) * pitch], i % rows
                inside = data[(i - 1) * pitch + 3:(i - 1) * pitch + 2004] if y >= 2 else bytes(2001)
                assert row == bytes(5) + inside + bytes(pitch - 2006), (form, i)
    array_there_and_back(first, last)


def array_there_and_back(first, last):
    descriptor = (C.c_uint64 * 3)(1000, 50, 1 | 1 << 32)      # of bytes, one channel
    data = os.urandom(50000)
    arrays = []
    for d in (first, last):
        d.use()
        arrays.append(C.c_void_p(number("cuArrayCreate_v2", descriptor, kind=C.c_void_p)))
    a, b = first.memory(50000), last.memory(50000)
    first.use()
    put(a, data)
    call("cuMemcpy3D_v2", C.byref(Copy3D(srcType=2, srcDevice=a.value, srcPitch=1000, srcHeight=50, dstType=3,
                                         dstArray=arrays[1], Width=1000, Rows=50, Depth=1)))
    call("cuMemcpy3D_v2", C.byref(Copy3D(srcType=3, srcArray=arrays[1], dstType=3, dstArray=arrays[0], Width=1000,
                                         Rows=50, Depth=1)))
    call("cuMemcpy3D_v2", C.byref(Copy3D(srcType=3, srcArray=arrays[0], dstType=2, dstDevice=b.value, dstPitch=1000,
                                         dstHeight=50, Width=1000, Rows=50, Depth=1)))
    last.use()
    assert get(b, 50000) == data


def crossed():
    """One stream of a device waits for the other server's answer, to which another stream of the device sends a copy. The
    wait begins first."""
    first, last = ends()
    for turn in range(4):
        a, b = first.memory(BIG), last.memory(BIG)
        waiting, sending, there = first.stream(), first.stream(), last.stream()
        busy, go, block = flagged(first)
        block()
        start, sent, answer = first.event(2), first.event(2), last.event(2)
        first.use()
        call("cuMemsetD8Async", a, C.c_ubyte(turn + 1), size(BIG), busy)
        call("cuEventRecord", start, busy)
        call("cuStreamWaitEvent", sending, start, 0)
        call("cuMemcpyPeerAsync", b, last.context, a, first.context, size(BIG), sending)
        call("cuEventRecord", sent, sending)
        last.use()
        call("cuStreamWaitEvent", there, sent, 0)
        call("cuMemsetD8Async", b, C.c_ubyte(77), size(1), there)
        call("cuEventRecord", answer, there)
        first.use()
        call("cuStreamWaitEvent", waiting, answer, 0)
        call("cuMemcpyPeerAsync", a, first.context, b, last.context, size(BIG), waiting)
        go()
        call("cuStreamSynchronize", waiting)
        assert get(a, BIG) == bytes([77]) + bytes([turn + 1]) * (BIG - 1)


def freed():
    """Memory of both ends that is freed while the copy waits: the free waits too, as for work of the memory's own GPU."""
    first, last = ends()
    for streams in (first, last):
        a, b = first.memory(BIG), last.memory(BIG)
        busy, go, block = flagged(streams)
        block()
        call("cuMemcpyPeerAsync", b, last.context, a, first.context, size(BIG), busy)
        mine, other = (a, b) if streams is first else (b, a)
        there = last if streams is first else first
        ended = []

        def free():
            there.use()
            call("cuMemFree_v2", other)
            ended.append(True)
        waiter = threading.Thread(target=free)
        waiter.start()
        waiter.join(0.3)
        assert not ended
        go()
        waiter.join(60)
        assert ended
        streams.use()
        call("cuStreamSynchronize", busy)
        call("cuMemFree_v2", mine)


def never():
    """A copy behind a kernel that faults does not come: memory of its other end can be freed, and its context has failed."""
    first, last = ends()
    a, b = first.memory(BIG), last.memory(BIG)
    busy, go, block = flagged(first)
    fill = first.function(first.module(), b"fill")
    block()
    first.launch(fill, C.c_uint64(64), C.c_uint32(1), stream=busy)
    call("cuMemcpyPeerAsync", b, last.context, a, first.context, size(BIG), busy)
    go()
    last.use()
    call("cuMemFree_v2", b)
    again = last.memory(BIG)
    call("cuMemsetD8_v2", again, C.c_ubyte(3), size(BIG))
    assert get(again, BIG) == bytes([3]) * BIG
    first.use()
    assert CUDA.cuStreamSynchronize(busy) in (700, 719)
    assert CUDA.cuMemAlloc_v2(C.byref(C.c_uint64()), size(100)) in (700, 719)


def wrong():
    """A copy beyond the memory is refused, and the next one works."""
    first, last = ends()
    n = 1 << 20
    a, b = first.memory(n), last.memory(n)
    first.use()
    put(a, b"\5" * n)
    for _ in range(2):
        call("cuMemcpyPeer", b, last.context, a, first.context, size(n + 1), error=1)
        call("cuMemcpyPeerAsync", b, last.context, a, first.context, size(n + 1), None, error=1)
        call("cuMemcpyPeer", b, last.context, a, first.context, size(n))
    last.use()
    assert get(b, n) == b"\5" * n


def big():
    """One large copy, which may take another way in the middle."""
    first, last = ends()
    n = 64 << 20
    a, b = first.memory(n), last.memory(n)
    data = os.urandom(1 << 20) * 64
    first.use()
    put(a, data)
    stream = first.stream()
    call("cuMemcpyPeerAsync", b, last.context, a, first.context, size(n), stream)
    call("cuStreamSynchronize", stream)
    last.use()
    assert get(b, n) == data


def lost_in_the_middle():
    """The last server is killed while a copy to it is on its way: an error, and no success."""
    first, last = ends()
    n = 64 << 20
    a, b = first.memory(n), last.memory(n)
    first.use()
    call("cuMemsetD8_v2", a, C.c_ubyte(1), size(n))
    call("cuCtxSynchronize")
    stream = first.stream()
    if sys.argv[2] == "stream":
        call("cuMemcpyPeerAsync", b, last.context, a, first.context, size(n), stream)
        result = CUDA.cuStreamSynchronize(stream)
        if result == 0:         # the error has come behind the wait
            result = CUDA.cuStreamSynchronize(stream)
        assert result == 46, result
    else:
        call("cuMemcpyPeer", b, last.context, a, first.context, size(n), error=46)
        call("cuStreamSynchronize", stream)     # the first server goes on


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"{sys.argv[1]}: right")
