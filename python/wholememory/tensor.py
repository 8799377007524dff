"""wholememory/tensor.py - ChunkedTensor: rows of numbers, spread over the GPUs of the ranks."""
import ctypes
import itertools
import os
import weakref

from . import group as _group
from ._library import RANKS_MAX, TYPES, Info, Table, byref, call, dtype_name, library


class _Storage:
    """One allocation, which tensors and parts of them share until the last is gone."""

    def __init__(self, size, granularity, ranks):
        memory = ctypes.c_void_p()
        numbers = (ctypes.c_int * len(ranks))(*ranks) if ranks else None
        call("wcm_malloc", _group.current(make=True), size, granularity, numbers, len(ranks), byref(memory))
        # By its number: a pointer would be dangling once finalize_lib has freed what it points to.
        self.number = library().wcm_id(memory)
        self.pid, self.users = os.getpid(), set()

    def memory(self):
        """The library's memory; RuntimeError when it has gone."""
        memory = library().wcm_from_id(self.number) if os.getpid() == self.pid else None
        if not memory:
            raise RuntimeError("the memory of this tensor has been freed")
        return memory

    def drop(self, number):
        """Tensor NUMBER is no user any more; the last one frees. That is no collective call: other ranks may go on.

        Without a lock, since the garbage collector calls this at any point of a thread, under a lock too. At worst, two threads cause a second
        wcm_free, which is refused.
        """
        self.users.discard(number)
        # A fork has the numbers of its parent, not the memory.
        if not self.users and os.getpid() == self.pid:
            memory = library().wcm_from_id(self.number)
            if memory:
                library().wcm_free(memory)


# Tensors by the number that custom ops are given.
_tensors = weakref.WeakValueDictionary()
_numbers = itertools.count(0x10001)


class LocalRows:
    """The rows on this rank's own GPU: `first` is the number of the first, `shape` is theirs.

    Anything that reads __cuda_array_interface__ (PyTorch, CuPy, Numba) can use them in place. Once the tensor is
    closed they are gone, whoever still holds this object.
    """

    def __init__(self, tensor, first, count, address):
        self.first, self.shape, self.address = first, (count,) + tensor.shape[1:], address
        self._tensor, size = tensor, tensor.element_size
        self.strides = tuple(n * size for n in tensor.stride)

    @property
    def __cuda_array_interface__(self):
        kind = TYPES[self._tensor.type_name][2]
        if kind is None:
            raise AttributeError("bfloat16 has no name there: read its bits as int16")
        return {"shape": self.shape, "strides": self.strides, "typestr": kind, "version": 2,
                "data": (self.address if self.shape[0] else 0, False)}


class ChunkedTensor:
    """Numbers in one or two dimensions, which kernels of all ranks can reach.

    `shape`, `stride` (of elements) and `dtype` are as PyTorch's; dtype is a torch.dtype when PyTorch is imported
    and the name of one otherwise. close(), or the end of a `with`, gives the memory up for this rank, as soon as no
    part of it is open either; so does garbage collection. That is not collective.
    """

    def __init__(self, storage, type_name, shape, stride, offset):
        self._storage, self._number = storage, next(_numbers)
        storage.users.add(self._number)
        self._drop = weakref.finalize(self, storage.drop, self._number)
        self._drop.atexit = False       # the group's end frees all
        self._type, self._shape, self._stride, self._offset = type_name, tuple(shape), tuple(stride), offset
        _tensors[self._number] = self

    shape = property(lambda self: self._shape, doc="numbers of rows and columns, or of elements")
    type_name = property(lambda self: self._type, doc="the name of dtype")
    element_size = property(lambda self: TYPES[self._type][1], doc="bytes of an element")
    closed = property(lambda self: not self._drop.alive)

    @property
    def dtype(self):
        """As it was given."""
        import sys      # pylint: disable=import-outside-toplevel
        torch = sys.modules.get("torch")
        return getattr(torch, self._type) if hasattr(torch, self._type) else self._type

    @property
    def stride(self):
        """Elements from a row to the next, and from a column."""
        return self._stride

    def memory(self):
        """The library's memory (wcm_t); RuntimeError when the tensor is closed."""
        if self.closed:
            raise RuntimeError("the tensor is closed")
        return self._storage.memory()

    def get_ptr(self):
        """A number for the ops of torch.ops.wholememory; never one that another tensor has had."""
        self.memory()
        return self._number

    def device_handle(self):
        """The address of the WholeChunkedMemoryHandle that this rank's kernels take (PtrGen)."""
        memory, handle = self.memory(), ctypes.c_void_p()
        call("wcm_device_handle", memory, library().wcm_device(_group.current()), byref(handle))
        return handle.value

    def info(self):
        """Of the memory: chunk_size, chunk_count, granularity, lost, bad_indices ... (struct wcm_info)."""
        info = Info()
        call("wcm_stat", self.memory(), byref(info))
        return info

    def table(self):
        """The argument of the calls on rows (struct wcm_table)."""
        two = len(self._shape) == 2
        return Table(chunked=self.memory(), type=TYPES[self._type][0], rows=self._shape[0],
                     columns=self._shape[1] if two else 1, stride=self._stride[0], offset=self._offset)

    def sub(self, start, count=-1):
        """COUNT rows from START on (-1: the rest), in the same memory."""
        rows = self._shape[0]
        count = rows - start if count == -1 else count
        if start < 0 or count < 0 or start + count > rows:
            raise IndexError(f"rows {start} to {start + count} of {rows}")
        self.memory()
        return ChunkedTensor(self._storage, self._type, (count,) + self._shape[1:], self._stride,
                             self._offset + start * self._stride[0])

    def _spans(self, start, count):
        """(offset, size) in bytes of each stretch of COUNT rows from START on."""
        part, size = self.sub(start, count), self.element_size
        row = part.shape[1] if len(part.shape) == 2 else 1
        first, step = part._offset, part._stride[0]
        part.close()
        if count and step == row:
            yield first * size, count * row * size
        elif count:
            yield from (((first + i * step) * size, row * size) for i in range(count))

    def write(self, data, start=0):
        """Writes whole rows, from number START on, out of what has the bytes: bytes, array.array, NumPy's arrays.

        When it returns, they are there for all ranks.
        """
        view = memoryview(data)
        if not view.contiguous:
            raise ValueError("the data are not contiguous")
        view = view.cast("B") if view.nbytes else memoryview(b"")
        row = (self._shape[1] if len(self._shape) == 2 else 1) * self.element_size
        if view.nbytes % row:
            raise ValueError(f"{view.nbytes} bytes are no multiple of a row's {row}")
        memory, at = self.memory(), 0
        for offset, size in self._spans(start, view.nbytes // row):
            # a copy of our own: read-only memory has no address for ctypes
            piece = (ctypes.c_char * size).from_buffer_copy(view[at:at + size])
            call("wcm_copy_to", memory, offset, piece, size, None)
            at += size
        if at:      # a copy to the host comes behind the others in their stream, and is waited for
            call("wcm_copy_from", ctypes.create_string_buffer(1), memory, offset, 1, None)

    def read(self, start=0, count=-1):
        """The bytes of COUNT rows (-1: the rest) from START on."""
        memory = self.memory()
        count = self._shape[0] - start if count == -1 else count
        pieces = []
        for offset, size in self._spans(start, count):
            piece = ctypes.create_string_buffer(size)
            call("wcm_copy_from", piece, memory, offset, size, None)
            pieces.append(piece.raw)
        return b"".join(pieces)

    def local(self):
        """The rows of this tensor that are on this rank's own GPU (LocalRows). None of it is copied."""
        info, address, size = self.info(), ctypes.c_void_p(), ctypes.c_size_t()
        row = self._stride[0] * self.element_size
        base = self._offset * self.element_size
        if info.chunk_size % row or base % row:
            raise RuntimeError("rows of this tensor lie across chunks")
        call("wcm_local", self.memory(), byref(address), byref(size))
        begin = info.chunk * info.chunk_size
        first = min(max((begin - base) // row, 0), self._shape[0])
        last = min(max((begin + info.chunk_size - base) // row, 0), self._shape[0])
        return LocalRows(self, first, last - first, (address.value or 0) + base + first * row - begin)

    def close(self):
        """Gives the memory up. Closing twice is nothing."""
        self._drop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __len__(self):
        return self._shape[0]

    def __repr__(self):
        state = ", closed" if self.closed else ""
        return f"ChunkedTensor(shape={self._shape}, stride={self._stride}, dtype={self._type}{state})"


def from_ptr(number):
    """The tensor that a number of get_ptr is of; RuntimeError when it is none, or closed."""
    tensor = _tensors.get(number)
    if tensor is None or tensor.closed:
        raise RuntimeError(f"{number} is not the number of an open ChunkedTensor")
    return tensor


def _shape_of(sizes):
    shape = tuple(int(n) for n in sizes)
    if len(shape) not in (1, 2):
        raise ValueError(f"a chunked tensor has one dimension or two, not {len(shape)}")
    if any(n < 0 for n in shape) or (len(shape) == 2 and shape[1] == 0):
        raise ValueError(f"no such shape: {shape}")
    return shape


def _stride_of(strides, shape):
    stride = tuple(int(n) for n in strides) or ((shape[1], 1) if len(shape) == 2 else (1,))
    if len(stride) != len(shape):
        raise ValueError(f"{len(stride)} strides for {len(shape)} dimensions")
    if stride[-1] != 1 or stride[0] < (shape[1] if len(shape) == 2 else 1):
        raise ValueError(f"stride {stride}: elements of a row lie side by side, and rows do not overlap")
    return stride


def create_chunked_tensor(sizes, strides=(), dtype="float32", ranks=()):
    """Makes a tensor of SIZES (one or two) whose rows are spread over the GPUs of RANKS (none: all).

    Collective: all these ranks call it with the same arguments, or all get an error. A row lies on one GPU. The
    content is undefined. Without mp_init before it, the group is what mpirun, srun or torchrun says, else this
    process alone.
    """
    shape, name = _shape_of(sizes), dtype_name(dtype)
    stride, size, ranks = _stride_of(strides, shape), TYPES[name][1], [int(r) for r in ranks]
    # ctypes would take the lower bits of what is too large, and say nothing
    if max(shape[0], 1) * stride[0] * size >= 1 << 63:
        raise ValueError(f"shape {shape}, stride {stride}: more bytes than there are addresses")
    if any(not 0 <= r < RANKS_MAX for r in ranks):
        raise ValueError(f"no such ranks: {ranks}")
    storage = _Storage(shape[0] * stride[0] * size, stride[0] * size, ranks)
    return ChunkedTensor(storage, name, shape, stride, 0)


def get_sub_chunked_tensor(tensor, start, count=-1):
    """COUNT rows of TENSOR from START on (-1: the rest), in the same memory."""
    return tensor.sub(start, count)
