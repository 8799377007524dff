"""tests/e2e/test_profile.py - a program that profiles itself through CUPTI: records of the GPU come from the server."""
import pathlib
import textwrap

import pytest

from conftest import DRIVER, PRODUCTS, ROOT, TRANSPORTS, Server, clean_env, client_env, run

EXPECTED = """\
result 64
buffers in use 1
kernels 6, with the id 1, names _Z5scalePff
copies some, 2097152 bytes, fills 1
untied 0, outside of the time 0, before the call 0, dropped 0
launched by cudaLaunchKernel_v7000
driver some, runtime some
result 64
afterwards 0
"""

# What a profiler asks for beside activities: one subscriber, callbacks by domain, errors by name.
QUESTIONS = """
    import ctypes
    cupti = ctypes.CDLL("libcupti.so.12")
    handle, text, version = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_uint32()
    callback = ctypes.CFUNCTYPE(None)(lambda: None)
    print(cupti.cuptiSubscribe(ctypes.byref(handle), callback, None))
    print(cupti.cuptiSubscribe(ctypes.byref(handle), callback, None))
    print(cupti.cuptiEnableCallback(1, handle, 3, 1), cupti.cuptiEnableCallback(1, handle, 5, 1))
    print(cupti.cuptiUnsubscribe(handle), cupti.cuptiUnsubscribe(handle))
    print(cupti.cuptiActivityEnable(6), cupti.cuptiActivityEnable(1000), cupti.cuptiGetLastError())
    for i in range(2):
        print(cupti.cuptiMetricGetNumEvents(1, None))
    print(cupti.cuptiGetResultString(27, ctypes.byref(text)), text.value.decode())
    print(cupti.cuptiGetVersion(ctypes.byref(version)), cupti.cuptiActivityFlushAll(0))
"""

CALLS = """
from cupti_program import *
begin()
memory = made(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(64))
enable(DRIVER, MEMSET)
wanted = {name_of(1, n): n for n in range(1, 800) if cupti.cuptiGetCallbackName(1, n, ctypes.byref(ctypes.c_char_p())) == 0}
call("cuptiActivityEnableDriverApi", wanted["cuCtxGetCurrent"], 0)
made(ctypes.c_void_p, "cuCtxGetCurrent")
made(ctypes.c_int, "cuCtxGetDevice")
call("cuMemsetD8_v2", memory, 1, ctypes.c_size_t(64))
cuda.cuMemFree_v2(ctypes.c_uint64(1))
calls = records(DRIVER)
call("cuCtxSynchronize")
(fill,) = records(MEMSET)
assert [name_of(1, c.call) for c in calls] == ["cuCtxGetDevice", "cuMemsetD8_v2", "cuMemFree_v2"], calls
assert [c.result for c in calls] == [0, 0, 1], calls
assert fill.correlation == calls[1].correlation != calls[0].correlation
"""

WAITS = """
from cupti_program import *
begin()
enable(SYNCHRONIZATION, DEVICE, CONTEXT, DRIVER, MEMSET)
memory = made(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(64))
stream, event = made(ctypes.c_void_p, "cuStreamCreate", 1), made(ctypes.c_void_p, "cuEventCreate", 0)
call("cuMemsetD8Async", memory, 1, ctypes.c_size_t(64), stream)
call("cuEventRecord", event, stream)
call("cuStreamWaitEvent", None, event, 0)
call("cuEventSynchronize", event)
call("cuStreamSynchronize", stream)
call("cuCtxSynchronize")
assert cuda.cuStreamSynchronize(ctypes.c_void_p(77)) == 400
calls, waits = {c.correlation: c for c in records(DRIVER)}, records(SYNCHRONIZATION)
(fill,), (context,), devices = records(MEMSET), records(CONTEXT), records(DEVICE)
none = 0xffffffff
assert [(w.type, w.result, w.context) for w in waits] == [(t, r, fill.context) for t, r in ((2, 0), (1, 0), (3, 0), (4, 0), (3, 400))]
assert [w.stream for w in waits] == [context.null_stream, none, fill.stream, none, none], waits
assert waits[0].event == waits[1].event != none == waits[2].event
for w in waits:
    c = calls[w.correlation]
    assert c.start <= w.start <= w.end and "Synchronize" in name_of(1, c.call) or "WaitEvent" in name_of(1, c.call)
assert context.context == fill.context and context.device == 0 and context.api == 1 and fill.stream != context.null_stream
assert len(devices) == 1 and (devices[0].major, devices[0].id, devices[0].warp) == (9, 0, 32)
"""
CALLBACKS = """
from cupti_program import *
class Data(ctypes.Structure):
    _fields_ = [("site", ctypes.c_int), ("function", ctypes.c_char_p), ("given", ctypes.c_void_p), ("result", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("context", ctypes.c_void_p), ("context_number", ctypes.c_uint32),
                ("data", ctypes.POINTER(ctypes.c_uint64)), ("correlation", ctypes.c_uint32)]
seen = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(Data))
def callback(userdata, domain, number, data):
    d = data[0]
    if d.site == 0:
        d.data[0] = 1000 + d.correlation
    else:
        assert d.data[0] == 1000 + d.correlation
    words = ctypes.cast(d.given, ctypes.POINTER(ctypes.c_uint64)) if d.given else None
    result = ctypes.c_int.from_address(d.result).value if d.result else None
    seen.append((userdata, domain, d.function.decode(), d.site, words[0] if words else None, result, d.context, d.correlation))
    made(ctypes.c_int, "cuCtxGetDevice")        # a callback's own calls are not reported
context = begin()
memory = made(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(64))
subscriber = made(ctypes.c_void_p, "cuptiSubscribe", callback, ctypes.c_void_p(42))
numbers = {name_of(1, n): n for n in range(1, 800) if cupti.cuptiGetCallbackName(1, n, ctypes.byref(ctypes.c_char_p())) == 0}
call("cuptiEnableCallback", 1, subscriber, 1, numbers["cuMemFree_v2"])
assert made(ctypes.c_uint32, "cuptiGetCallbackState", subscriber, 1, numbers["cuMemFree_v2"]).value == 1
made(ctypes.c_int, "cuCtxGetDevice")
call("cuMemFree_v2", memory)
assert cuda.cuMemFree_v2(ctypes.c_uint64(5)) == 1
assert [s[:7] for s in seen] == [(42, 1, "cuMemFree_v2", site, at, result, context.value)
                                 for at, error in ((memory.value, 0), (5, 1)) for site, result in ((0, None), (1, error))], seen
assert seen[0][7] == seen[1][7] != seen[2][7]
seen.clear()
call("cuptiEnableDomain", 1, subscriber, 1)
made(ctypes.c_int, "cuCtxGetDevice")
assert [s[2:4] for s in seen] == [("cuCtxGetDevice", 0), ("cuCtxGetDevice", 1)]
call("cuptiEnableDomain", 0, subscriber, 1)
made(ctypes.c_int, "cuCtxGetDevice")
call("cuptiEnableDomain", 1, subscriber, 1)
call("cuptiUnsubscribe", subscriber)
made(ctypes.c_int, "cuCtxGetDevice")
assert len(seen) == 2
"""

MARKERS = """
from cupti_program import *
begin()
u64, text = ctypes.c_uint64, ctypes.c_char_p
nvtx = Nvtx()
assert nvtx(1, "push", text(b"early")) == -2      # nothing wants it
enable(MARKER, DRIVER)
domain = nvtx(5, "create_domain", text(b"mine"), result=u64)
registered = nvtx(5, "register", u64(domain), text(b"inner"), result=u64)
assert nvtx(1, "push", text(b"outer")) == 0
inner = event(registered, 3)
assert nvtx(5, "push", u64(domain), u64(ctypes.addressof(inner))) == 1
made(ctypes.c_int, "cuCtxGetDevice")
assert nvtx(1, "pop") == -2         # the innermost range is of the domain
assert nvtx(5, "pop", u64(domain)) == 1 and nvtx(1, "pop") == 0 and nvtx(1, "pop") == -2
nvtx(1, "mark", text(b"now"))
wide = ctypes.create_string_buffer(b"free")
free = event(ctypes.addressof(wide))
identity = nvtx(1, "start_ex", u64(ctypes.addressof(free)), result=u64)
nvtx(1, "end", u64(identity))
markers, (call_record,) = records(MARKER), records(DRIVER)
def string(at):
    return ctypes.string_at(at).decode() if at else None
shown = [(m.flags, string(m.name), string(m.domain)) for m in markers]
assert shown == [(2, "outer", None), (2, "inner", "mine"), (4, None, None), (4, None, None), (1, "now", None), (2, "free", None),
                 (4, None, None)], shown
ids = [m.id for m in markers]
assert ids[0] == ids[3] and ids[1] == ids[2] and ids[5] == ids[6] == identity and len(set(ids)) == 4
assert markers[1].time <= call_record.start <= call_record.end <= markers[2].time
assert {(m.process, m.thread, m.object) for m in markers} == {(call_record.process, call_record.thread, 2)}
"""

# A graph of a fill, a copy and a kernel that follow each other.
GRAPHS = """
from cupti_program import *
import pathlib
begin()
size = ctypes.c_size_t
enable(DRIVER, MEMSET, MEMCPY, KERNEL, OVERHEAD)
module = made(ctypes.c_void_p, "cuModuleLoadData", pathlib.Path("PTX").read_bytes() + bytes(1))
function = made(ctypes.c_void_p, "cuModuleGetFunction", module, b"add_one")
a, b = [made(ctypes.c_uint64, "cuMemAlloc_v2", size(4096)) for _ in "ab"]
stream, graph, executable = made(ctypes.c_void_p, "cuStreamCreate", 1), ctypes.c_void_p(), ctypes.c_void_p()
data, count = ctypes.c_uint64(b.value), ctypes.c_uint32(4)
parameters = (ctypes.c_void_p * 2)(ctypes.addressof(data), ctypes.addressof(count))
call("cuStreamBeginCapture_v2", stream, 0)
call("cuMemsetD8Async", a, 3, size(4096), stream)
call("cuMemcpyDtoDAsync_v2", b, a, size(4096), stream)
call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, None)
call("cuStreamEndCapture", stream, ctypes.byref(graph))
call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
def launch(times):
    for _ in range(times):
        call("cuGraphLaunch", executable, stream)
    call("cuStreamSynchronize", stream)
    taken = records()
    return taken, [r for r in taken if r.kind == DRIVER and name_of(1, r.call) == "cuGraphLaunch"]
taken, calls = launch(2)
assert len(calls) == 2
nodes = []
for c in calls:
    work = [r for r in taken if r.kind in (MEMSET, MEMCPY, KERNEL) and r.correlation == c.correlation]
    assert [r.kind for r in work] == [MEMSET, MEMCPY, KERNEL], work
    assert c.start <= work[0].start and all(x.end <= y.start for x, y in zip(work, work[1:])) and work[2].start <= work[2].end
    assert work[1].bytes == 4096 and ctypes.string_at(work[2].name) == b"add_one"
    nodes.append([(r.graph, r.node) for r in work])
assert nodes[0] == nodes[1] and len(set(nodes[0])) == 3 and len({graph for graph, _ in nodes[0]}) == 1 and all(map(all, nodes[0])), nodes
number = ctypes.c_uint32()
call("cuptiGetGraphExecId", executable, ctypes.byref(number))
assert number.value == nodes[0][0][0]
call("cuptiGetGraphId", executable, ctypes.byref(number))
assert number.value == nodes[0][0][0]
call("cuptiGetGraphId", graph, ctypes.byref(number))
assert number.value not in (0, nodes[0][0][0])
assert cupti.cuptiGetGraphExecId(ctypes.c_void_p(5), ctypes.byref(number)) == cupti.cuptiGetGraphId(graph, None) == 1
overheads = [(r.overhead, r.object, r.first) for r in taken if r.kind == OVERHEAD]
assert (1, 1, os.getpid()) in overheads and (1 << 16, 2, os.getpid()) in overheads, overheads
# of a launch as a whole there is one record, and then none of its nodes
call("cuptiActivityEnable", GRAPH)
taken, (c,) = launch(1)
assert not [r for r in taken if r.kind in (MEMSET, MEMCPY, KERNEL)]
(whole,) = [r for r in taken if r.kind == GRAPH]
assert (whole.correlation, whole.graph, whole.end_context) == (c.correlation, nodes[0][0][0], whole.context)
assert c.start <= whole.start <= whole.end
# work that no graph launches has no node
call("cuMemsetD8_v2", a, 3, size(4096))
call("cuCtxSynchronize")
(fill,) = [r for r in records() if r.kind == MEMSET]
assert (fill.node, fill.graph) == (0, 0)
""".replace("PTX", str(ROOT / "docs/examples/add_one.ptx"))

# Large copies, which several threads of the client send; each piece belongs to the call.
LARGE = """
from cupti_program import *
begin()
size = ctypes.c_size_t(24 << 20)
a = made(ctypes.c_uint64, "cuMemAlloc_v2", size)
pinned, plain = made(ctypes.c_void_p, "cuMemHostAlloc", size, 0), ctypes.create_string_buffer(size.value)
enable(DRIVER, MEMCPY)
for host in (pinned, plain):
    call("cuMemcpyHtoDAsync_v2", a, host, size, None)
    call("cuMemcpyDtoHAsync_v2", host, a, size, None)
call("cuCtxSynchronize")
calls, copies = [c.correlation for c in records(DRIVER)[:4]], records(MEMCPY)
assert {c.correlation for c in copies} == set(calls), (calls, copies)
assert [sum(c.bytes for c in copies if c.correlation == number) for number in calls] == [size.value] * 4
"""

# What XLA, and so JAX, asks for: the numbers of a callback's context, copies between devices, the calls that name a subscriber.
NUMBERS = """
import cupti_program
from cupti_program import *
begin()
context = made(ctypes.c_void_p, "cuCtxGetCurrent")
stream, memory = made(ctypes.c_void_p, "cuStreamCreate", 1), made(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(64))
subscriber = made(ctypes.c_void_p, "cuptiSubscribe_v2", None, None, None)
@ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
def request(buffer, size, records, info):
    assert ctypes.c_size_t.from_address(info).value == 8
    cupti_program._request(*[ctypes.cast(p, t) for p, t in zip((buffer, size, records), cupti_program._request.argtypes)])
@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
def complete(buffer, size, valid, info):
    assert ctypes.c_size_t.from_address(info).value == 32
    cupti_program._complete(None, 0, buffer, size, valid)
call("cuptiActivityRegisterCallbacks_v2", subscriber, request, complete)
call("cuptiActivityEnable_v2", subscriber, MEMSET, None)
call("cuptiActivityEnable_v2", subscriber, PEER, None)
fields = struct.pack("<5Q", 40, 24, 1, 0, 0)
assert cupti.cuptiActivityEnable_v2(subscriber, DRIVER, fields) == 27       # records of some fields
call("cuMemsetD8Async", memory, 1, ctypes.c_size_t(64), stream)
call("cuCtxSynchronize")
call("cuMemsetD8Async", memory, 1, ctypes.c_size_t(64), None)
call("cuCtxSynchronize")
first, second = records(MEMSET)
def number(name, *arguments):
    out = ctypes.c_uint32(77)
    call(name, *arguments, ctypes.byref(out))
    return out.value
assert number("cuptiGetDeviceId", context) == first.device == 0
assert number("cuptiGetContextId", context) == first.context
assert number("cuptiGetStreamId", context, stream) == first.stream != second.stream == number("cuptiGetStreamIdEx", context, None, 0)
assert cupti.cuptiGetDeviceId(None, ctypes.byref(ctypes.c_uint32())) == 1
assert cupti.cuptiGetContextId(ctypes.c_void_p(5), ctypes.byref(ctypes.c_uint32())) == 1
assert cupti.cuptiActivityEnable_v2(ctypes.c_void_p(5), MEMSET, None) == 1
clock = ctypes.c_uint64()
call("cuptiGetTimestamp_v2", subscriber, ctypes.byref(clock))
assert clock.value + 10000000 > second.end       # times of the GPU have an error
call("cuptiActivityDisable_v2", subscriber, MEMSET, None)
call("cuMemsetD8Async", memory, 1, ctypes.c_size_t(64), None)
call("cuCtxSynchronize")
assert len(records(MEMSET)) == 2
"""

BETWEEN = """
from cupti_program import *
size = ctypes.c_size_t(1 << 20)
contexts, memory = [], []
call("cuInit", 0)
for device in range(2):
    contexts.append(made(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", device))
    call("cuCtxSetCurrent", contexts[-1])
    memory.append(made(ctypes.c_uint64, "cuMemAlloc_v2", size))
enable(MEMCPY, PEER, DRIVER)
call("cuMemcpyPeer", memory[0], contexts[0], memory[1], contexts[1], size)
for c in contexts:
    call("cuCtxSetCurrent", c)
    call("cuCtxSynchronize")
(copy,) = records(PEER)
(sender,) = [r for r in records(DRIVER) if name_of(1, r.call) == "cuMemcpyPeer"]
assert (copy.copy, copy.bytes, copy.source_device, copy.target_device) == (10, 1 << 20, 1, 0), copy
assert copy.correlation == sender.correlation and not records(MEMCPY)
"""


def run_cupti(source, address, **more):
    env = client_env(address, PYTHONPATH=str(pathlib.Path(__file__).parent), **more)
    return run(["/usr/bin/python3", "-c", textwrap.dedent(source)], env)


@pytest.mark.parametrize("source", [WAITS, CALLBACKS, MARKERS, GRAPHS, NUMBERS],
                         ids=["waits", "callbacks", "markers", "graphs", "numbers"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_profilers_get(server, source, transport):
    result = run_cupti(source, server.address(transport))
    assert (result.status, result.err) == (0, ""), result.err


@pytest.mark.parametrize("connections", ["1", "4"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_pieces_of_large_copies_belong_to_their_call(server, transport, connections):
    result = run_cupti(LARGE, server.address(transport), CRICKET_CONNECTIONS=connections)
    assert (result.status, result.err) == (0, ""), result.err


@pytest.mark.skipif(DRIVER != "emu", reason="needs two GPUs")
def test_copies_between_devices_have_records_of_their_own(tmp_path):
    server = Server(tmp_path, CRICKET_EMU="devices=2")
    try:
        result = run_cupti(BETWEEN, server.address("tcp"))
        assert (result.status, result.err) == (0, ""), result.err
    finally:
        server.end()


def test_each_call_has_a_record_unless_it_is_left_out(server):
    result = run_cupti(CALLS, server.address("tcp"))
    assert (result.status, result.err) == (0, ""), result.err


@pytest.mark.parametrize("moment", ["late", "early"])
@pytest.mark.parametrize("library", ["libcupti.so.12", "libcupti.so.13"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_program_profiles_itself(server, app, transport, library, moment):
    result = run([app("profile"), library, moment], client_env(server.address(transport)))
    assert result.status == 0, result.err
    assert result.out == EXPECTED
    assert result.err == ""


def test_without_a_profiler_no_message_is_about_one(server, app):
    result = run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TRACE="1"))
    assert result.status == 0, result.err
    assert "ck_launch" in result.err
    assert "ck_profile" not in result.err


def test_unsupported_calls_are_reported_once_by_name(server):
    result = run(["/usr/bin/python3", "-c", textwrap.dedent(QUESTIONS)], client_env(server.address("tcp")))
    assert result.status == 0, result.err
    assert result.out.split() == "0 39 0 27 0 1 27 21 21 27 27 0 CUPTI_ERROR_NOT_SUPPORTED 0 7".split()
    assert len(result.lines_about("cuptiMetricGetNumEvents is not supported")) == 1
    assert len(result.lines_about("callbacks of domain 5 are not supported")) == 1
    assert len(result.lines_about("kind 6")) == 1


def test_a_program_may_load_the_library_late(server):
    """Such a library gets little memory of each thread's own, and the client must do with it."""
    source = f"import ctypes; print(ctypes.CDLL('{PRODUCTS}/libcupti.so.13').InitializeInjectionNvtx2(None))"
    result = run(["/usr/bin/python3", "-c", source], clean_env(REMOTE_GPU_ADDRESS=server.address("tcp")))
    assert (result.status, result.out, result.err) == (0, "0\n", "")
