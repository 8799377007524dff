"""tests/e2e/cupti_program.py - CUPTI by ctypes, for programs of test_profile.py: `from cupti_program import *`.

Records are read by their offsets in CUPTI's headers.
"""
import collections
import ctypes
import os
import struct

cuda = ctypes.CDLL("libcuda.so.1")
cupti = ctypes.CDLL("libcupti.so.13")
MEMCPY, MEMSET, PEER, DRIVER, RUNTIME, DEVICE, CONTEXT, KERNEL, MARKER, OVERHEAD, SYNCHRONIZATION, EXTERNAL, GRAPH = (
    1, 2, 22, 4, 5, 8, 9, 10, 12, 17, 38, 39, 51)
LAYOUTS = {
    MEMCPY: ("<IBBBBQQQIIIIIIQQI", "kind copy source target flags bytes start end device context stream correlation runtime pad reserved "
                                   "node graph"),
    PEER: ("<IBBBBQQQ8IQQI", "kind copy from_kind to_kind flags bytes start end device context stream source_device source_context "
                              "target_device target_context correlation reserved node graph"),
    MEMSET: ("<IIQQQIIIIIIQQI", "kind value bytes start end device context stream correlation flags pad reserved node graph"),
    KERNEL: ("<IBBHIIQQQIII6iiiIIIqQQQQBBBBIQII", "kind cache shared registers requested executed start end completed device context stream "
             "gx gy gz bx by bz static dynamic local local_total correlation grid name reserved queued submitted launch a b pad "
             "shared_executed node limit graph"),
    OVERHEAD: ("<6IQQI", "kind overhead object first second third start end correlation"),
    GRAPH: ("<IIQQ4IQII", "kind correlation start end device graph context stream reserved end_device end_context"),
    DRIVER: ("<IIQQIIII", "kind call start end process thread correlation result"),
    DEVICE: ("<IIQQ24I", "kind flags bandwidth memory constant l2 warp clock engines multiprocessors ipc warps blocks shared "
                         "registers block_registers block_shared threads bx by bz gx gy gz major minor id ecc"),
    CONTEXT: ("<IIIHHI", "kind context device api null_stream parent"),
    SYNCHRONIZATION: ("<IIQQIIIIQI", "kind type start end correlation context stream event sync result"),
    MARKER: ("<IIQIIIIIIQQ", "kind flags time id object process thread end pad name domain"),
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


class Nvtx:
    """What NVTX's header in a program does: tables of functions, which the library fills."""
    NAMES = {1: "mark_ex mark mark_w start_ex start start_w end push_ex push push_w pop a b c d".split(),
             5: "mark start end push pop a b c d register e create_domain f g h".split()}

    def __init__(self):
        self.slots = {m: [ctypes.c_void_p() for _ in range(16)] for m in self.NAMES}
        self.arrays = {m: (ctypes.c_void_p * 16)(*[ctypes.addressof(s) for s in slots]) for m, slots in self.slots.items()}

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint))
        def table(module, out, count):
            if module not in self.arrays:
                return 0
            out[0], count[0] = ctypes.addressof(self.arrays[module]), 16
            return 1

        class Callbacks(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("table", type(table))]
        self.callbacks = Callbacks(16, table)
        self.tables = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(
            lambda which: ctypes.addressof(self.callbacks) if which == 1 else None)
        assert cuda.InitializeInjectionNvtx2(self.tables) == 1

    def __call__(self, module, name, *arguments, result=ctypes.c_int):
        slot = self.slots[module][self.NAMES[module].index(name) + 1]
        return ctypes.CFUNCTYPE(result, *[type(a) for a in arguments])(slot.value)(*arguments)


def event(message, kind=1):
    """A text, or one that has been registered."""
    words = struct.pack("<HHIiIiiQiiQ", 3, 48, 0, 0, 0, 0, 0, 0, kind, 0, message)
    return ctypes.create_string_buffer(words, 48)


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
