"""wholememory.torch - PyTorch's side of chunked memory: ops in torch.ops.wholememory.

    gather_chunked(indices, ptr, out_dtype)              [n, columns]; ptr is ChunkedTensor.get_ptr()
    gather(indices, table, out_dtype)                    the same of a tensor in one piece
    scatter_chunked(values, indices, ptr)
    embedding_chunked(indices, bags, ptr, mode, out_dtype)

indices are int32 or int64 in one dimension, on the GPU; they run in PyTorch's current stream. No gradients.
"""
import torch

from .. import rows
from ..group import current
from ..tensor import from_ptr

_ops = torch.library.Library("wholememory", "DEF")


def _stream(tensor):
    if not tensor.is_cuda:
        raise ValueError(f"a tensor on {tensor.device}; it has to be on the GPU")
    return torch.cuda.current_stream(tensor.device).cuda_stream


def _shape(shape, count):
    return (count, shape[1]) if len(shape) == 2 else (count,)


def _check(indices):
    if indices.dim() != 1 or indices.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"the indices: one dimension of int32 or int64 is wanted, not {tuple(indices.shape)} "
                        f"of {indices.dtype}")


def _gathered(indices, shape, out_dtype):
    _check(indices)
    return torch.empty(_shape(shape, indices.shape[0]), dtype=out_dtype, device=indices.device)


def _gather_chunked(indices, ptr, out_dtype):
    table = from_ptr(ptr)
    stream = _stream(indices)
    return rows.gather(table, indices, _gathered(indices, table.shape, out_dtype), stream)


def _gather(indices, table, out_dtype):
    stream = _stream(indices)
    current(make=True)
    return rows.gather(table, indices, _gathered(indices, table.shape, out_dtype), stream)


def _scatter_chunked(values, indices, ptr):
    _check(indices)
    rows.scatter(values, indices, from_ptr(ptr), _stream(indices))


def _embedding_chunked(indices, bags, ptr, mode, out_dtype):
    table = from_ptr(ptr)
    _check(indices)
    stream = _stream(indices)
    return rows.embedding(table, indices, bags, _gathered(bags, table.shape, out_dtype), mode, stream)


# Shapes and errors without a GPU, for torch.compile and tensors of the device "meta".
def _meta_gather_chunked(indices, ptr, out_dtype):
    return _gathered(indices, from_ptr(ptr).shape, out_dtype)


def _meta_embedding_chunked(indices, bags, ptr, mode, out_dtype):
    if mode not in rows.MODES:
        raise ValueError(f"mode {mode!r} is none of {', '.join(rows.MODES)}")
    _check(indices)
    return _gathered(bags, from_ptr(ptr).shape, out_dtype)


def _meta_scatter_chunked(values, indices, ptr):
    _check(indices)
    wanted = _shape(from_ptr(ptr).shape, indices.shape[0])
    if tuple(values.shape) != wanted:
        raise ValueError(f"the values: the shape is {tuple(values.shape)}, {wanted} is wanted")


_OPS = {
    "gather_chunked(Tensor indices, int ptr, ScalarType out_dtype) -> Tensor": (_gather_chunked, _meta_gather_chunked),
    "gather(Tensor indices, Tensor table, ScalarType out_dtype) -> Tensor":
        (_gather, lambda indices, table, out_dtype: _gathered(indices, table.shape, out_dtype)),
    "scatter_chunked(Tensor values, Tensor indices, int ptr) -> ()": (_scatter_chunked, _meta_scatter_chunked),
    "embedding_chunked(Tensor indices, Tensor bags, int ptr, str mode, ScalarType out_dtype) -> Tensor":
        (_embedding_chunked, _meta_embedding_chunked),
}
for _schema, (_cuda, _meta) in _OPS.items():
    _name = _schema.split("(")[0]
    _ops.define(_schema)
    # tensors of the CPU reach the same function, which reports that they have to be on the GPU
    _ops.impl(_name, _cuda, "CUDA")
    _ops.impl(_name, _cuda, "CPU")
    _ops.impl(_name, _meta, "Meta")
