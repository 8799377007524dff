"""tests/e2e/event_times_program.py - a program that asks for the times between many events, then times 50 steps one by one.

test_start.py counts its round trips, and test_evolution.py runs it with a server that lacks the messages.
"""
import ctypes as C

cuda, context = C.CDLL("libcuda.so.1"), C.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(C.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0


def record(event):
    assert cuda.cuEventRecord(event, None) == 0


def between(start, end):
    ms = C.c_float(-1)
    assert cuda.cuEventElapsedTime_v2(C.byref(ms), start, end) == 0 and ms.value >= 0
    return ms.value


events = [C.c_void_p() for _ in range(200)]
for e in events:
    assert cuda.cuEventCreate(C.byref(e), 0) == 0
    record(e)
assert cuda.cuCtxSynchronize() == 0
parts = [between(a, b) for a, b in zip(events, events[1:])]
assert abs(sum(parts) - between(events[0], events[-1])) < 0.01
for _ in range(50):
    record(events[0])
    record(events[1])
    assert cuda.cuEventSynchronize(events[1]) == 0
    between(events[0], events[1])
