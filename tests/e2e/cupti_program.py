"""tests/e2e/cupti_program.py - CUPTI by ctypes, for programs of test_profile.py: `from cupti_program import *`.

Records are read by their offsets in CUPTI's headers.
"""
import collections
import ctypes
import struct

cuda = ctypes.CDLL("libcuda.so.1")
cupti = ctypes.CDLL("libcupti.so.13")
MEMSET, DRIVER, RUNTIME, DEVICE, CONTEXT, KERNELS, SYNCHRONIZATION, EXTERNAL = 2, 4, 5, 8, 9, 10, 38, 39
LAYOUTS = {
    MEMSET: ("<IIQQQIIII", "kind value bytes start end device context stream correlation"),
    DRIVER: ("<IIQQIIII", "kind call start end process thread correlation result"),
    DEVICE: ("<IIQQ24I", "kind flags bandwidth memory constant l2 warp clock engines multiprocessors ipc warps blocks shared "
                         "registers block_registers block_shared threads bx by bz gx gy gz major minor id ecc"),
    CONTEXT: ("<IIIHHI", "kind context device api null_stream parent"),
    SYNCHRONIZATION: ("<IIQQIIIIQI", "kind type start end correlation context stream event sync result"),
    EXTERNAL: ("<IIQI", "kind external_kind external correlation"),
}
LAYOUTS[RUNTIME] = LAYOUTS[DRIVER]
_buffers, _taken = [], []


@ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))
def _request(buffer, size, records):
    _buffers.append(ctypes.create_string_buffer(1 << 20))
    buffer[0], size[0], records[0] = ctypes.addressof(_buffers[-1]), 1 << 20, 0


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
def _complete(_context, _stream, buffer, _size, valid):
    record = ctypes.c_void_p()
    while cupti.cuptiActivityGetNextRecord(ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)) == 0:
        kind = ctypes.c_uint32.from_address(record.value).value
        form, names = LAYOUTS[kind]
        words = struct.unpack(form, ctypes.string_at(record.value, struct.calcsize(form)))
        _taken.append(collections.namedtuple("Record", names)(*words))


def call(name, *arguments):
    error = getattr(cuda if name.startswith("cu") and not name.startswith("cupti") else cupti, name)(*arguments)
    assert error == 0, (name, error)


def enable(*kinds):
    call("cuptiActivityRegisterCallbacks", _request, _complete)
    for kind in kinds:
        call("cuptiActivityEnable", kind)


def records(kind=None):
    """Those so far."""
    call("cuptiActivityFlushAll", 1)
    taken = [r for r in _taken if kind in (None, r.kind)]
    if kind is None:
        _taken.clear()
    return taken


def name_of(domain, number):
    name = ctypes.c_char_p()
    call("cuptiGetCallbackName", domain, number, ctypes.byref(name))
    return name.value.decode()


def begin():
    """A current context."""
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    return context


def made(kind, name, *arguments):
    value = kind()
    call(name, ctypes.byref(value), *arguments)
    return value
