"""tests/e2e/holder.py - programs that hold device memory of a known content; a fixture for tests of checkpoints."""
import subprocess
import sys
import textwrap

import pytest

from conftest import client_env
from travel import ctl, session_of

PIECE, SIZE = 2 << 20, 32 << 20
# Fills memory in the named way; each line of input is answered with a hash of its memory.
HOLD = textwrap.dedent("""
    import ctypes, hashlib, os, sys
    cuda = ctypes.CDLL(None)
    def ok(result):
        assert result == 0, result
    size, kind = int(sys.argv[1]), sys.argv[2]
    context, at = ctypes.c_void_p(), ctypes.c_uint64()
    ok(cuda.cuInit(0)); ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(cuda.cuCtxSetCurrent(context))
    ok(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
    piece = {"zero": bytes(2 << 20), "equal": os.urandom(2 << 20), "random": None}[kind]
    data = piece * (size >> 21) if piece else os.urandom(size)
    ok(cuda.cuMemcpyHtoD_v2(at, data, ctypes.c_size_t(size)))
    print(hashlib.sha256(data).hexdigest(), flush=True)
    back = ctypes.create_string_buffer(size)
    for line in sys.stdin:
        ok(cuda.cuMemcpyDtoH_v2(back, at, ctypes.c_size_t(size)))
        print(hashlib.sha256(back).hexdigest(), flush=True)
""")


class Holder:
    def __init__(self, address, kind, size=SIZE):
        self.process = subprocess.Popen([sys.executable, "-c", HOLD, str(size), kind], env=client_env(address),
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.hash = self.process.stdout.readline()
        assert self.hash

    def ask(self):
        """The hash of its memory now; "" if it has got an error."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self.process.stdout.readline()

    def same(self):
        return self.ask() == self.hash


@pytest.fixture(name="hold")
def programs_that_hold_memory():
    """hold(ADDRESS OR SERVER, KIND): a program that holds memory."""
    started = []

    def start(server, *arguments):
        started.append(Holder(server if isinstance(server, str) else server.address("tcp"), *arguments))
        return started[-1]
    yield start
    for holder in started:
        holder.process.kill()
        holder.process.communicate()


def save(server, folder):
    return ctl(server, "checkpoint", session_of(server), folder)
