"""tests/e2e/m3_program.py LIBM3 ROLE - a program with CUDA and libm3, as its own process: what test_m3.py runs.

writer makes a region and writes it, reader changes it, sealed finds that it may only read; forger changes bytes of a
handle of cuIpc; striped uses a region of two devices; news says what it hears, also when the broker is lost.
stranger and owner ask for quotas through a session; impatient asks for a lease as libm3 does not; pools exports one pool often;
listeners subscribes as often as it may.
"""
import ctypes
import os
import struct
import sys
import time

M3_READ, M3_READWRITE, M3_ANY_DEVICE = 1, 3, -1
M3_EPERM, M3_ENOENT, M3_EMISMATCH, M3_EBUSY, M3_ETIMEDOUT, M3_ESTALE = -3, -4, -6, -12, -13, -14
M3_STRIPED = 4
SEALABLE = 16
SIZE = 3 << 20

m3 = ctypes.CDLL(sys.argv[1])
cuda = ctypes.CDLL("libcuda.so.1")
m3.m3_region_ptr.restype = ctypes.c_uint64
m3.m3_region_size.restype = ctypes.c_uint64


class Request(ctypes.Structure):
    _fields_ = [("mem_id", ctypes.c_char_p), ("bytes", ctypes.c_uint64),
                ("alignment", ctypes.c_uint64), ("device", ctypes.c_int),
                ("policy", ctypes.c_int), ("access", ctypes.c_int), ("mode", ctypes.c_uint),
                ("flags", ctypes.c_uint), ("stripes", ctypes.c_uint)]


def ok(status):
    assert status == 0, status


def copy_in(address, data):
    ok(cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(address), data, ctypes.c_size_t(len(data))))
    ok(cuda.cuCtxSynchronize())


def copy_out(address, size):
    data = ctypes.create_string_buffer(size)
    ok(cuda.cuMemcpyDtoH_v2(data, ctypes.c_uint64(address), ctypes.c_size_t(size)))
    return data.raw


def opened(client, name, access):
    region = ctypes.c_void_p()
    status = m3.m3_open(client, name, access, ctypes.byref(region))
    return status, region


def mapped(region, access):
    at = ctypes.c_uint64()
    status = m3.m3_map(region, M3_ANY_DEVICE, access, ctypes.c_uint64(0), ctypes.byref(at))
    return status, at.value


def alloc(client, name, size, flags=0, policy=0):
    region = ctypes.c_void_p()
    request = Request(name, size, 8 << 20, M3_ANY_DEVICE, policy, 0, 0, flags)
    return m3.m3_alloc(client, ctypes.byref(request), ctypes.byref(region)), region


def writer(client):
    status, region = alloc(client, b"weights", SIZE, SEALABLE)
    ok(status)
    address = m3.m3_region_ptr(region)
    assert m3.m3_region_size(region) == 4 << 20 and address % (8 << 20) == 0
    assert copy_out(address + 1000, 8) == bytes(8)      # new memory is zero
    copy_in(address, b"hello")
    event = ctypes.c_void_p()
    ok(cuda.cuEventCreate(ctypes.byref(event), 2 | 4))  # between processes, without time
    ok(cuda.cuEventRecord(event, None))
    ok(m3.m3_event_export(region, event))
    assert alloc(client, b"weights", 9 << 20)[0] == M3_EMISMATCH
    print("written", flush=True)
    input()
    assert copy_out(address + 100, 5) == b"world"
    ok(m3.m3_seal(region))
    print("sealed", flush=True)
    input()
    ok(m3.m3_release(region))


def reader(client):
    status, region = opened(client, b"weights", M3_READWRITE)
    ok(status)
    status, address = mapped(region, M3_READWRITE)
    ok(status)
    for _ in range(2):
        ok(m3.m3_event_wait(region, None))
    assert copy_out(address, 5) == b"hello"
    copy_in(address + 100, b"world")
    ok(m3.m3_unmap(region, M3_ANY_DEVICE))
    ok(m3.m3_release(region))


def sealed(client):
    assert opened(client, b"weights", M3_READWRITE)[0] == M3_EPERM
    status, region = opened(client, b"weights", M3_READ)
    ok(status)
    assert mapped(region, M3_READWRITE)[0] == M3_EPERM
    status, address = mapped(region, M3_READ)
    ok(status)
    assert copy_out(address, 5) == b"hello"
    # what the library did not forbid, the one that maps does
    access = (ctypes.c_int * 3)(1, 0, M3_READWRITE)
    if "remote" in sys.argv:
        assert cuda.cuMemSetAccess(ctypes.c_uint64(address), ctypes.c_size_t(4 << 20),
                                   ctypes.byref(access), ctypes.c_size_t(1)) != 0
    # the program ends with all of it open


def striped(client):
    status, region = alloc(client, b"both", 4 << 20, 0, M3_STRIPED)
    ok(status)
    assert [m3.m3_region_device(region, i) for i in range(3)] == [0, 1, -1]
    address = m3.m3_region_ptr(region)
    data = bytes(range(256)) * 3
    copy_in(address + (2 << 20) - 300, data)
    assert copy_out(address + (2 << 20) - 300, len(data)) == data
    back = ctypes.create_string_buffer(len(data))
    ok(m3.m3_read(region, ctypes.c_uint64((2 << 20) - 300), back, ctypes.c_size_t(len(data))))
    assert back.raw == data
    ok(m3.m3_release(region))


@ctypes.CFUNCTYPE(None, ctypes.c_uint, ctypes.c_uint64, ctypes.c_void_p)
def hear(event, _rid, _data):
    heard.append(event)
    print("heard", event, flush=True)


heard = []


def news(client):
    status, region = alloc(client, b"kept", SIZE)
    ok(status)
    address = m3.m3_region_ptr(region)
    ok(m3.m3_lease(region, 2, 0))
    start = time.monotonic()
    status, again = opened(client, b"kept", M3_READWRITE)
    ok(status)
    ok(m3.m3_lease(again, 2, 50))       # one session is one holder
    assert time.monotonic() - start < 30
    ok(m3.m3_subscribe(client, 1 | 8, hear, None))
    assert m3.m3_subscribe(client, 1, hear, None) == M3_EBUSY
    print("subscribed", flush=True)
    input()                             # the broker is gone by now
    assert heard == [1, 8], heard
    # m3_stat's room: more than an m3_info
    info = ctypes.create_string_buffer(4096)
    assert m3.m3_stat(region, info) == M3_ESTALE
    assert opened(client, b"kept", M3_READ)[0] == M3_ENOENT
    copy_in(address, b"it stays")
    assert copy_out(address, 8) == b"it stays"
    ok(m3.m3_subscribe(client, 1, hear, None))
    status, other = alloc(client, b"kept", SIZE)
    ok(status)
    ok(m3.m3_release(other))
    while heard != [1, 8, 1]:
        time.sleep(0.01)
    ok(m3.m3_release(region))
    ok(m3.m3_release(again))


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def forger(_):
    address, opened_at, handle = ctypes.c_uint64(), ctypes.c_uint64(), Handle()
    ok(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(5000)))
    ok(cuda.cuIpcGetMemHandle(ctypes.byref(handle), address))
    again = Handle()
    ok(cuda.cuIpcGetMemHandle(ctypes.byref(again), address))
    assert bytes(again) == bytes(handle)        # programs find it again by its bytes
    assert cuda.cuIpcOpenMemHandle_v2(ctypes.byref(opened_at), handle, 1) == 201    # it is here
    for at in (0, 12, 16, 24, 39):  # mark, kind, number, key
        handle.bytes[at] ^= 1
        assert cuda.cuIpcOpenMemHandle_v2(ctypes.byref(opened_at), handle, 1) == 400, at
        handle.bytes[at] ^= 1
    assert cuda.cuIpcOpenMemHandle_v2(ctypes.byref(opened_at), Handle(), 1) == 400
    assert cuda.cuIpcCloseMemHandle(address) == 1
    ok(cuda.cuMemFree_v2(address))


def quota_of(client, principal):
    sizes = [ctypes.c_uint64() for _ in range(4)]
    status = m3.m3_quota_get(client, principal, *map(ctypes.byref, sizes))
    return status, sizes[0].value


def set_quota(client, principal, size):
    return m3.m3_quota_set(client, principal, ctypes.c_uint64(size), ctypes.c_uint64(0))


def stranger(client):
    own = f"uid:{os.geteuid()}".encode()
    assert quota_of(client, None) == quota_of(client, own) == (0, 0)
    assert quota_of(client, b"uid:4711")[0] == M3_EPERM
    for principal in None, own, b"uid:4711":
        assert set_quota(client, principal, 64 << 20) == M3_EPERM
    assert quota_of(client, None) == (0, 0)


def owner(client):
    ok(set_quota(client, b"uid:4711", 64 << 20))
    assert quota_of(client, b"uid:4711") == (0, 64 << 20)


def ask_by_hand(op, region, access, value):
    """The status of a request that libm3 would not make (m3/message.h), through m3/shim.h."""
    table, got = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
    ok(cuda.cuGetExportTable(ctypes.byref(table), b"cricket-m3-shim2"))
    question = struct.pack("=IHH6Q4Ii3I16s256s64s", 0x334d4b43, 1, op, region, 0, 0, 0, 0, 0, 0, 0, access, 0,
                           0, value, 0, 0, b"", b"", b"")
    answer = ctypes.create_string_buffer(1 << 17)
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
                            ctypes.c_void_p)(table[1])
    ok(call(question, len(question), answer, len(answer), ctypes.addressof(got)))
    return struct.unpack_from("=IHHi", answer)[3]


def impatient(client):
    m3.m3_region_id.restype = ctypes.c_uint64
    status, region = opened(client, b"kept", M3_READWRITE)
    ok(status)
    start = time.monotonic()
    lease = 15      # CK_M3_LEASE
    assert ask_by_hand(lease, m3.m3_region_id(region), M3_READWRITE, 1 << 30) == M3_EBUSY
    assert time.monotonic() - start < 30


def pools(_):
    props = struct.pack("=4iQQ56s", 1, 1, 1, 0, 0, 0, b"")      # pinned, for descriptors, of device 0
    pool, fd = ctypes.c_void_p(), ctypes.c_int()
    for _ in range(2):
        ok(cuda.cuMemPoolCreate(ctypes.byref(pool), props))
        for _ in range(50):
            ok(cuda.cuMemPoolExportToShareableHandle(ctypes.byref(fd), pool, 1, ctypes.c_uint64(0)))
            os.close(fd.value)
        print("exported", flush=True)
        input()
        ok(cuda.cuMemPoolDestroy(pool))
    print("destroyed", flush=True)
    input()


def listeners(_):
    clients = [ctypes.c_void_p() for _ in range(5)]
    for client in clients:
        ok(m3.m3_connect(None, ctypes.byref(client)))
    for client in clients[:4]:
        ok(m3.m3_subscribe(client, 1, hear, None))
    assert m3.m3_subscribe(clients[4], 1, hear, None) != 0
    m3.m3_disconnect(clients[0])
    ok(m3.m3_subscribe(clients[4], 1, hear, None))


def main():
    context, client = ctypes.c_void_p(), ctypes.c_void_p()
    ok(cuda.cuInit(0))
    ok(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
    ok(m3.m3_connect(None, ctypes.byref(client)))
    {"writer": writer, "reader": reader, "sealed": sealed, "striped": striped, "news": news,
     "forger": forger, "stranger": stranger, "owner": owner, "impatient": impatient,
     "pools": pools, "listeners": listeners}[sys.argv[2]](client)
    if sys.argv[2] != "sealed":
        m3.m3_disconnect(client)


main()
