"""tests/e2e/test_splice.py - large uploads, whose pages the client's kernel sends without copying them."""
import sys

import pytest

from conftest import client_env, run

# A copy has taken the bytes when it returns: what the program writes afterwards is not sent.
OVERWRITES = """
import ctypes, mmap
c = ctypes.CDLL(None)
size = 24 << 20
ctx, mem, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
def ok(err): assert err == 0, err
ok(c.cuInit(0))
ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0))
ok(c.cuCtxSetCurrent(ctx))
ok(c.cuMemAlloc_v2(ctypes.byref(mem), ctypes.c_size_t(size)))
ok(c.cuStreamCreate(ctypes.byref(stream), 1))
back = (ctypes.c_char * size)()
for turn in range(12):
    fresh = mmap.mmap(-1, size + 4096)
    at = ctypes.addressof(ctypes.c_char.from_buffer(fresh)) + (turn * 7 if turn % 2 else 0)
    ctypes.memset(at, 65 + turn, size)
    if turn % 3 == 0:
        ok(c.cuMemcpyHtoD_v2(mem, ctypes.c_void_p(at), ctypes.c_size_t(size)))
    else:
        ok(c.cuMemcpyHtoDAsync_v2(mem, ctypes.c_void_p(at), ctypes.c_size_t(size), stream))
    ctypes.memset(at, 33, size)
    ok(c.cuStreamSynchronize(stream))
    ok(c.cuMemcpyDtoH_v2(back, mem, ctypes.c_size_t(size)))
    assert back.raw == bytes([65 + turn]) * size, turn
print("12 copies")
"""


@pytest.mark.parametrize("connections", ["1", "4"])
@pytest.mark.parametrize("splice", ["1", "0"])
def test_a_copy_has_taken_the_bytes_when_it_returns(server, splice, connections):
    env = client_env(server.address("tcp"), CRICKET_DEBUG=f"splice={splice},no-compress", CRICKET_CONNECTIONS=connections)
    result = run([sys.executable, "-c", OVERWRITES], env)
    assert result.status == 0 and "12 copies" in result.out, result.err


# A kernel, or a filter of the program, that does not permit the call; the data is then copied.
REFUSED = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
VMSPLICE = 278  # x86-64
def insn(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
program = insn(0x20, 0, 0, 0) + insn(0x15, 0, 1, VMSPLICE) + insn(0x06, 0, 0, 0x00050000 | 1) + insn(0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(program)
class Filter(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(buffer)))) == 0
assert libc.vmsplice(0, None, 0, 0) == -1 and ctypes.get_errno() == 1
"""


def test_a_program_may_forbid_itself_the_call(server):
    env = client_env(server.address("tcp"), CRICKET_CONNECTIONS="2", CRICKET_DEBUG="no-compress")
    result = run([sys.executable, "-c", REFUSED + OVERWRITES], env)
    assert result.status == 0 and "12 copies" in result.out, result.err
