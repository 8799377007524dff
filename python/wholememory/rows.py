"""wholememory/rows.py - gather, scatter, embedding, on whatever has an address on the GPU.

Arrays are those of PyTorch, or of anything with a __cuda_array_interface__ (CuPy, Numba), on this rank's GPU
(get_device). The work is queued in the stream (an int, 0 being the legacy default stream) and the call returns.
"""
from ._library import MODES, TYPES, Indices, Rows, Table, byref, call, dtype_name
from .group import get_device
from .tensor import ChunkedTensor

_NAMES = {kind[1:]: name for name, (_, _, kind) in TYPES.items() if kind}


class _Array:
    """The library's description of an array: address, type, shape, stride of its rows in elements."""

    def __init__(self, array, what):
        if hasattr(array, "data_ptr"):
            if not array.is_cuda or array.device.index != get_device():
                raise ValueError(f"{what}: a tensor on {array.device}; it has to be on cuda:{get_device()}")
            self.address, self.name = array.data_ptr(), dtype_name(array.dtype)
            self.shape, steps = tuple(array.shape), array.stride()
        elif hasattr(array, "__cuda_array_interface__"):
            face = array.__cuda_array_interface__
            self.shape, self.address = tuple(face["shape"]), face["data"][0]
            self.name = None if face["typestr"][0] == ">" else _NAMES.get(face["typestr"][1:])
            if self.name is None:
                raise TypeError(f"{what}: elements of type {face['typestr']}")
            size, strides = TYPES[self.name][1], face.get("strides") or _packed(self.shape, self.name)
            if any(n % size for n in strides):
                raise ValueError(f"{what}: strides of {strides} bytes, elements of {size}")
            steps = [n // size for n in strides]
        else:
            raise TypeError(f"{what}: {type(array).__name__} is not an array on a GPU")
        if len(self.shape) not in (1, 2):
            raise ValueError(f"{what}: {len(self.shape)} dimensions")
        if self.shape[-1] > 1 and steps[-1] != 1:
            raise ValueError(f"{what}: the elements of a row do not lie side by side")
        self.columns = self.shape[1] if len(self.shape) == 2 else 1
        if self.shape[0] > 1 and steps[0] < self.columns:
            raise ValueError(f"{what}: the rows overlap, or lie backwards")
        self.type, self.stride = TYPES[self.name][0], int(steps[0]) if self.shape[0] > 1 else self.columns


def _packed(shape, name):
    size = TYPES[name][1]
    return (shape[-1] * size, size) if len(shape) == 2 else (size,)


def _table(table):
    """(struct wcm_table, columns) of a chunked tensor or an array."""
    if isinstance(table, ChunkedTensor):
        made = table.table()
        return made, made.columns
    a = _Array(table, "the table")
    return Table(plain=a.address, type=a.type, rows=a.shape[0], columns=a.columns, stride=a.stride), a.columns


def _numbers(indices, what):
    a = _Array(indices, what)
    if len(a.shape) != 1 or a.name not in ("int32", "int64"):
        raise TypeError(f"{what}: one dimension of int32 or int64 is wanted")
    return Indices(data=a.address, type=a.type, count=a.shape[0]), a.shape[0]


def _rows(array, count, columns, what):
    a = _Array(array, what)
    if a.shape[0] != count or a.columns != columns:
        raise ValueError(f"{what}: the shape is {a.shape}, {count} rows of {columns} are wanted")
    return Rows(data=a.address, type=a.type, stride=a.stride)


def gather(table, indices, out, stream=0):
    """out[i] = table[indices[i]]. A row that is not there is zeros, and counted (info().bad_indices)."""
    (t, columns), (n, count) = _table(table), _numbers(indices, "the indices")
    call("wcm_gather", byref(t), byref(n), byref(_rows(out, count, columns, "out")), stream or None)
    return out


def scatter(values, indices, table, stream=0):
    """table[indices[i]] = values[i]. A row that is not there is not written, and counted."""
    (t, columns), (n, count) = _table(table), _numbers(indices, "the indices")
    call("wcm_scatter", byref(t), byref(n), byref(_rows(values, count, columns, "the values")), stream or None)


def embedding(table, indices, bags, out, mode="sum", stream=0):
    """Row b of OUT is the sum or mean of the rows that indices[bags[b]] up to indices[bags[b + 1]] name."""
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
    (t, columns), (n, _), (b, count) = _table(table), _numbers(indices, "the indices"), _numbers(bags, "the bags")
    call("wcm_embedding", byref(t), byref(n), byref(b), MODES[mode],
         byref(_rows(out, count, columns, "out")), stream or None)
    return out
