"""tests/e2e/later_calls.py - a program that uses the calls that CUDA 13.1 to 13.5 have added; test_later_calls.py runs it.

It prints one line for each group of calls that are right, and stops at the first that is not.
"""
import ctypes as C
import struct

cuda = C.CDLL("libcuda.so.1")
u32, u64, ptr, size = C.c_uint, C.c_ulonglong, C.c_void_p, C.c_size_t
INVALID_VALUE, NOT_SUPPORTED, MISMATCH = 1, 801, "%s returned %d, not %d"
IN_ORDER, MEMSET_NODE, SMALL = 1, 2, 1
PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry three(.param .u64 a, .param .u32 b, .param .u8 c) { ret; }
"""


def call(name, *args, gives=0):
    """One call and the result that it must have."""
    result = getattr(cuda, name)(*args)
    assert result == gives, MISMATCH % (name, result, gives)


def made(name, kind, *args):
    """What a call stores in its first argument."""
    out = kind()
    call(name, C.byref(out), *args)
    return out


def asked(name, kind, handle):
    out = kind()
    call(name, handle, C.byref(out))
    return out.value


def begin():
    call("cuInit", 0)
    context = made("cuDevicePrimaryCtxRetain", ptr, 0)
    call("cuCtxSetCurrent", context)
    version = made("cuDriverGetVersion", C.c_int).value
    assert version >= 13050, version
    function, found = ptr(), C.c_int()
    call("cuGetProcAddress_v2", b"cuLaunchHostFunc", C.byref(function), 13010, u64(0), C.byref(found))
    assert function.value == C.cast(cuda.cuLaunchHostFunc_v2, ptr).value
    call("cuGetProcAddress_v2", b"cuLaunchHostFunc", C.byref(function), 13000, u64(0), C.byref(found))
    assert function.value == C.cast(cuda.cuLaunchHostFunc, ptr).value
    return context


def kernels():
    module = made("cuModuleLoadData", ptr, PTX)
    function = made("cuModuleGetFunction", ptr, module, b"three")
    assert asked("cuFuncGetParamCount", size, function) == 3
    call("cuFuncGetParamCount", function, None, gives=INVALID_VALUE)
    library = made("cuLibraryLoadData", ptr, PTX, None, None, 0, None, None, 0)
    assert asked("cuKernelGetParamCount", size, made("cuLibraryGetKernel", ptr, library, b"three")) == 3


def copies(stream):
    host, back = C.create_string_buffer(bytes(range(64)), 64), C.create_string_buffer(64)
    device = made("cuMemAlloc_v2", u64, size(64))
    attributes = C.create_string_buffer(struct.pack("6i", IN_ORDER, 0, 0, 0, 0, 0), 24)
    call("cuMemcpyWithAttributesAsync", device, host, size(64), attributes, stream)
    call("cuMemcpyWithAttributesAsync", back, device, size(64), attributes, stream)
    call("cuStreamSynchronize", stream)
    assert back.raw == host.raw
    call("cuMemcpyWithAttributesAsync", back, device, size(64), None, stream, gives=INVALID_VALUE)
    call("cuMemcpyWithAttributesAsync", back, device, size(64), bytes(24), stream, gives=INVALID_VALUE)
    # Of each row of 8 bytes, the first 4, to rows of 4.
    side = "i4xQQQii"
    box = struct.pack(side + side + "QQQii", 1, device.value, 8, 8, 0, 0, 1, C.addressof(back), 4, 8, 0, 0, 4, 8, 1, IN_ORDER, 0)
    call("cuMemcpy3DWithAttributesAsync", box, u64(0), stream)
    call("cuStreamSynchronize", stream)
    assert back.raw[:32] == b"".join(host.raw[i:i + 4] for i in range(0, 64, 8))
    call("cuMemcpy3DWithAttributesAsync", box, u64(1), stream, gives=INVALID_VALUE)


def functions(stream):
    seen = []
    function = C.CFUNCTYPE(None, ptr)(seen.append)
    call("cuLaunchHostFunc_v2", stream, function, ptr(5), 0)
    call("cuLaunchHostFunc_v2", stream, function, ptr(6), 1)
    call("cuStreamSynchronize", stream)
    assert seen == [5, 6]
    call("cuLaunchHostFunc_v2", stream, function, None, 2, gives=INVALID_VALUE)


def memset_params(device, value, context):
    return C.create_string_buffer(struct.pack("i12xQQIIQQQ", MEMSET_NODE, device.value, 0, value, 1, 16, 1, context.value), 256)


def graphs(stream, context):
    graph, device = made("cuGraphCreate", ptr, 0), made("cuMemAlloc_v2", u64, size(16))
    node = made("cuGraphAddNode_v3", ptr, graph, None, None, size(0), memset_params(device, 7, context))
    found = C.create_string_buffer(256)
    call("cuGraphNodeGetParams", node, found)
    assert struct.unpack_from("i12xQQIIQQ", found.raw) == (MEMSET_NODE, device.value, 0, 7, 1, 16, 1)
    call("cuGraphNodeGetParams", node, None, gives=INVALID_VALUE)
    empty = made("cuGraphAddEmptyNode", ptr, graph, None, size(0))
    call("cuGraphNodeGetParams", empty, found)
    assert found.raw == struct.pack("i", 5) + bytes(252)
    assert asked("cuGraphNodeGetContainingGraph", ptr, node) == graph.value
    assert asked("cuGraphNodeGetLocalId", u32, node) != asked("cuGraphNodeGetLocalId", u32, empty)
    assert asked("cuGraphNodeGetToolsId", u64, node) != asked("cuGraphNodeGetToolsId", u64, empty)
    call("cuGraphNodeSetParams_v2", node, memset_params(device, 9, context))
    instance = made("cuGraphInstantiateWithFlags", ptr, graph, u64(0))
    other = made("cuGraphCreate", ptr, 0)
    assert len({asked("cuGraphGetId", u32, graph), asked("cuGraphGetId", u32, other), asked("cuGraphExecGetId", u32, instance)}) == 3
    call("cuGraphLaunch", instance, stream)
    call("cuStreamSynchronize", stream)
    back = C.create_string_buffer(16)
    call("cuMemcpyDtoH_v2", back, device, size(16))
    assert back.raw == bytes([9]) * 16


def group(count, together=0):
    return struct.pack("16I", count, together, *[0] * 14)


def processors(stream, context):
    whole, same = C.create_string_buffer(144), C.create_string_buffer(144)
    call("cuCtxGetDevResource", context, whole, 1)
    call("cuStreamGetDevResource", stream, same, 1)
    assert same.raw == whole.raw
    count = struct.unpack_from("I", whole.raw, 96)[0]
    parts, rest = C.create_string_buffer(2 * 144), C.create_string_buffer(144)
    groups = C.create_string_buffer(group(8) + group(0, 2), 128)
    call("cuDevSmResourceSplit", parts, 2, whole, rest, 0, groups)
    sizes = [struct.unpack_from("I", groups.raw, at)[0] for at in (0, 64)]
    assert sizes[0] == 8 and 0 < sizes[1] <= count - 8
    assert [struct.unpack_from("I", parts.raw, at)[0] for at in (96, 144 + 96)] == sizes
    made("cuDevResourceGenerateDesc", ptr, C.byref(parts, 144), 1)
    call("cuDevSmResourceSplit", parts, 1, whole, rest, 0, group(count + 2), gives=915)
    call("cuDevSmResourceSplit", parts, 0, whole, rest, 0, groups, gives=INVALID_VALUE)


def tensor_maps():
    device = made("cuMemAlloc_v2", u64, size(4096))
    room = C.create_string_buffer(128 + 64)
    at = (C.addressof(room) + 63) // 64 * 64
    call("cuTensorMapEncodeTiled", ptr(at), 7, 2, device, (u64 * 2)(32, 32), (u64 * 1)(128), (u32 * 2)(8, 8), (u32 * 2)(1, 1), 0, 0, 0, 0)
    before, effective = C.string_at(at, 128), u32(9)
    call("cuTensorMapSetAllocationClass", ptr(at), 2, C.byref(effective))
    assert C.string_at(at, 128) == before and effective.value == SMALL
    call("cuTensorMapSetAllocationClass", ptr(at), 3, None, gives=INVALID_VALUE)


def refusals():
    call("cuDeviceGetCliqueCount", C.byref(size()), 0, gives=NOT_SUPPORTED)
    call("cuMemGetLocationInfo", u64(0), size(1), size(1), size(1), None, gives=NOT_SUPPORTED)
    for attribute in range(148, 162):
        value = made("cuDeviceGetAttribute", C.c_int, attribute, 0).value
        assert value in (0, 0x7fffffff), attribute


def main():
    context = begin()
    stream = made("cuStreamCreate", ptr, 1)
    for what, check, given in (("kernels", kernels, ()), ("copies", copies, (stream,)), ("host functions", functions, (stream,)),
                               ("graphs", graphs, (stream, context)), ("multiprocessors", processors, (stream, context)),
                               ("tensor maps", tensor_maps, ()), ("refusals", refusals, ())):
        check(*given)
        print(f"{what}: right", flush=True)



main()
