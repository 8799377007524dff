"""wholememory/_library.py - libwcm.so by ctypes: the structures and calls of wcm/wcm.h."""
import ctypes
import pathlib
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint64, c_void_p

RANKS_MAX = 16
HOST = -1
ANY_DEVICE = -1
BACKINGS = {"auto": 0, "ipc": 1, "vmm": 2}
MODES = {"sum": 0, "mean": 1}
# Names as PyTorch has them: number in enum wcm_type, bytes, how __cuda_array_interface__ writes it.
TYPES = {"int8": (0, 1, "|i1"), "int16": (1, 2, "<i2"), "int32": (2, 4, "<i4"), "int64": (3, 8, "<i8"),
         "float16": (4, 2, "<f2"), "bfloat16": (5, 2, None), "float32": (6, 4, "<f4"), "float64": (7, 8, "<f8"),
         "uint8": (0, 1, "|u1"), "bool": (0, 1, "|b1")}
STATUSES = {-1: "EINVAL", -2: "ENOMEM", -3: "EMISMATCH", -4: "EPEERLOST", -5: "ENOPEER", -6: "ENOTSUP",
            -7: "ETIMEDOUT", -8: "EBUSY", -9: "ENODRIVER", -10: "EIO", -11: "EPERM", -12: "EVERSION"}


class WholeMemoryError(RuntimeError):
    """A call of the library failed; `name` is its status ("ENOMEM"), `status` the number."""

    def __init__(self, what, status):
        self.status, self.name = status, STATUSES.get(status, str(status))
        super().__init__(f"{what}: {library().wcm_strerror(status).decode()} (WCM_{self.name})")


class Options(Structure):
    """struct wcm_opts"""
    _fields_ = [("group", c_char_p), ("device", c_int), ("backing", c_int), ("timeout_ms", c_uint)]


class Info(Structure):
    """struct wcm_info"""
    _fields_ = [("size", c_uint64), ("total_size", c_uint64), ("chunk_size", c_uint64), ("granularity", c_uint64),
                ("chunk_count", c_int32), ("chunk", c_int32), ("backing", c_int32), ("device", c_int32),
                ("ranks", c_int32 * RANKS_MAX), ("lost", c_uint64), ("bad_indices", c_uint64)]


class Table(Structure):
    """struct wcm_table"""
    _fields_ = [("chunked", c_void_p), ("plain", c_void_p), ("type", c_int), ("rows", c_int64),
                ("columns", c_int64), ("stride", c_int64), ("offset", c_int64)]


class Indices(Structure):
    """struct wcm_indices"""
    _fields_ = [("data", c_void_p), ("type", c_int), ("count", c_int64)]


class Rows(Structure):
    """struct wcm_rows"""
    _fields_ = [("data", c_void_p), ("type", c_int), ("stride", c_int64)]


CALLS = {
    "wcm_init": (c_int, POINTER(Options), c_int, c_int, POINTER(c_void_p)),
    "wcm_finalize": (c_int, c_void_p),
    "wcm_current": (c_void_p,),
    "wcm_rank": (c_int, c_void_p),
    "wcm_size": (c_int, c_void_p),
    "wcm_device": (c_int, c_void_p),
    "wcm_unique_name": (c_int, c_char_p, c_size_t),
    "wcm_barrier": (c_int, c_void_p),
    "wcm_aggregate": (c_int, c_void_p, c_uint64, POINTER(c_uint64), POINTER(c_uint64)),
    "wcm_malloc": (c_int, c_void_p, c_size_t, c_size_t, POINTER(c_int), c_int, POINTER(c_void_p)),
    "wcm_free": (c_int, c_void_p),
    "wcm_id": (c_uint64, c_void_p),
    "wcm_from_id": (c_void_p, c_uint64),
    "wcm_device_handle": (c_int, c_void_p, c_int, POINTER(c_void_p)),
    "wcm_local": (c_int, c_void_p, POINTER(c_void_p), POINTER(c_size_t)),
    "wcm_stat": (c_int, c_void_p, POINTER(Info)),
    "wcm_copy_to": (c_int, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p),
    "wcm_copy_from": (c_int, c_void_p, c_void_p, c_size_t, c_size_t, c_void_p),
    "wcm_gather": (c_int, POINTER(Table), POINTER(Indices), POINTER(Rows), c_void_p),
    "wcm_scatter": (c_int, POINTER(Table), POINTER(Indices), POINTER(Rows), c_void_p),
    "wcm_embedding": (c_int, POINTER(Table), POINTER(Indices), POINTER(Indices), c_int, POINTER(Rows), c_void_p),
    "wcm_strerror": (c_char_p, c_int),
    "wcm_version": (c_char_p,),
}

NAME = "libwcm.so.1"
_loaded = None      # pylint: disable=invalid-name


def load(path=None):
    """Opens the library: PATH, else the one built or installed with this package, else the system's. Once."""
    global _loaded      # pylint: disable=global-statement
    if _loaded is None:
        home = pathlib.Path(__file__).resolve().parents[2]
        own = [p for p in (home / "cpu" / NAME, home / NAME) if p.exists()]
        opened = ctypes.CDLL(str(path or (own[0] if own else NAME)))
        for name, (result, *arguments) in CALLS.items():
            function = getattr(opened, name)
            function.restype, function.argtypes = result, arguments
        _loaded = opened
    return _loaded


def library():
    """The library, opened if it is not yet."""
    return _loaded or load()


def call(name, *arguments):
    """Calls a function that returns a status; WholeMemoryError if that is an error."""
    status = getattr(library(), name)(*arguments)
    if status < 0:
        raise WholeMemoryError(name, status)
    return status


def dtype_name(dtype):
    """The name of a dtype of PyTorch or NumPy, or of one given by its name."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.removeprefix("torch.")
    if name not in TYPES:
        raise TypeError(f"chunked memory has no elements of type {dtype}; it has {', '.join(TYPES)}")
    return name


__all__ = ["ANY_DEVICE", "BACKINGS", "HOST", "Indices", "Info", "MODES", "Options", "RANKS_MAX", "Rows", "TYPES",
           "Table", "WholeMemoryError", "byref", "call", "dtype_name", "library", "load"]
