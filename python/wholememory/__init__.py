"""wholememory - chunked memory from Python: tensors that are spread over the GPUs of several ranks.

    import torch, wholememory.torch.wholememory_pytorch as wm

    wm.mp_init(rank, size)                       # or under mpirun, srun, torchrun: without it
    table = wm.create_chunked_tensor([10_000_000, 128], dtype=torch.float32)
    rows = torch.ops.wholememory.gather_chunked(indices, table.get_ptr(), torch.float32)

PyTorch is not needed: `import wholememory as wm` has all but the ops, and wm.gather, wm.scatter and wm.embedding take
arrays of CuPy and Numba. It stands on libwcm.so, by ctypes.
"""
from ._library import WholeMemoryError
from .group import aggregate_size, barrier, finalize_lib, get_device, get_rank, get_size, init_lib, mp_init
from .rows import embedding, gather, scatter
from .tensor import ChunkedTensor, LocalRows, create_chunked_tensor, from_ptr, get_sub_chunked_tensor

__all__ = ["ChunkedTensor", "LocalRows", "WholeMemoryError", "aggregate_size", "barrier", "create_chunked_tensor",
           "embedding", "finalize_lib", "from_ptr", "gather", "get_device", "get_rank", "get_size",
           "get_sub_chunked_tensor", "init_lib", "mp_init", "scatter"]
