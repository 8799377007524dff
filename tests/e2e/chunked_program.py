"""tests/e2e/chunked_program.py - what the ranks of test_wholememory.py do: LIBRARY CASE RANK SIZE [GROUP].

A case raises when something is wrong; the program says "CASE RANK: right" at its end.
"""
import array
import os
import signal
import sys

import wholememory as wm

ROWS, COLUMNS = 1000, 12


def numbers(first, count, columns=COLUMNS):
    """What the rows hold: each element its own number."""
    return array.array("f", range(first * columns, (first + count) * columns))


def raises(kind, words, call, *arguments, **named):
    """CALL fails with an exception of KIND that has WORDS in its text."""
    try:
        call(*arguments, **named)
    except kind as e:
        assert words in str(e), e
        return e
    raise AssertionError(f"{call} went by in silence")


def filled():
    """A table that the ranks have filled together, each its own rows."""
    table = wm.create_chunked_tensor([ROWS, COLUMNS], dtype="float32")
    mine = table.local()
    table.write(numbers(mine.first, mine.shape[0]), mine.first)
    wm.barrier()
    return table


def alone(rank, size):
    """One rank, no mp_init: shapes, parts, bytes, ends."""
    table = wm.create_chunked_tensor([ROWS, COLUMNS], dtype="float32")
    assert (rank, size) == (wm.get_rank(), wm.get_size()) == (0, 1)
    assert table.shape == (ROWS, COLUMNS) and table.stride == (COLUMNS, 1) and table.dtype == "float32"
    assert table.info().chunk_size % (COLUMNS * 4) == 0 and len(table) == ROWS
    table.write(numbers(0, ROWS))
    assert table.read() == numbers(0, ROWS).tobytes() and table.read(7, 2) == numbers(7, 2).tobytes()
    table.write(b"")
    part = wm.get_sub_chunked_tensor(table, 100, 50)
    assert part.shape == (50, COLUMNS) and part.read(1, 1) == numbers(101, 1).tobytes()
    rest = part.sub(40)
    assert rest.shape == (10, COLUMNS) and wm.from_ptr(rest.get_ptr()) is rest
    assert rest.local().shape == (10, COLUMNS) and rest.local().first == 0
    assert len({t.get_ptr() for t in (table, part, rest)}) == 3
    wide = wm.create_chunked_tensor((5, 3), (4, 1), "int64")
    wide.write(array.array("q", range(15)))
    assert wide.read(2, 2) == array.array("q", range(6, 12)).tobytes() and wide.stride == (4, 1)
    assert wide.local().__cuda_array_interface__["strides"] == (32, 8)
    line = wm.create_chunked_tensor([10], dtype="bool")
    line.write(bytes(range(10)))
    assert line.sub(9).read() == b"\x09"
    assert wm.create_chunked_tensor([0, 4]).read() == b""
    table.close()
    table.close()
    assert part.read(0, 1) == numbers(100, 1).tobytes()         # the memory is there while a part is open
    raises(RuntimeError, "closed", table.read)
    raises(RuntimeError, "closed", table.get_ptr)
    number = rest.get_ptr()
    del rest
    raises(RuntimeError, "not the number", wm.from_ptr, number)
    raises(RuntimeError, "not the number", wm.from_ptr, id(part))
    with part:
        pass
    raises(RuntimeError, "closed", part.sub, 0)
    wm.finalize_lib()
    raises(RuntimeError, "freed", wide.read)
    raises(RuntimeError, "no group", wm.barrier)


class Face:
    """An array of SHAPE at ADDRESS, as __cuda_array_interface__ has it."""

    def __init__(self, address, shape, strides, kind="<f4"):
        self.__cuda_array_interface__ = {"shape": shape, "strides": strides, "typestr": kind, "version": 3,
                                         "data": (address, False)}


def refused_arrays():
    """Arrays that the library cannot walk through are refused, not read in another order."""
    table, chosen = wm.create_chunked_tensor([16], dtype="float32"), wm.create_chunked_tensor([4], dtype="int64")
    table.write(array.array("f", range(16)))
    chosen.write(array.array("q", [3, 2, 1, 0]))
    first, chosen, out = table.local().address, chosen.local(), wm.create_chunked_tensor([4], dtype="float32")
    raises(ValueError, "backwards", wm.gather, Face(first + 60, (16, 1), (-4, 4)), chosen, out.local())
    raises(ValueError, "overlap", wm.gather, Face(first, (16, 1), (0, 4)), chosen, out.local())
    raises(ValueError, "overlap", wm.gather, Face(first, (4, 4), (8, 4)), chosen, out.local())
    raises(ValueError, "strides", wm.gather, Face(first, (8,), (6,)), chosen, out.local())
    raises(ValueError, "side by side", wm.gather, Face(first, (8,), (8,)), chosen, out.local())
    raises(TypeError, ">f4", wm.gather, Face(first, (16,), None, ">f4"), chosen, out.local())
    wm.gather(Face(first, (8, 1), (8, 4)), chosen, out.local())
    assert out.read() == array.array("f", [6, 4, 2, 0]).tobytes()
    row = wm.create_chunked_tensor([4, 4], dtype="float32")
    wm.scatter(Face(first, (1, 4), (0, 4)), Face(chosen.address, (1,), None, "<i8"), row)   # one row has no stride
    assert row.read(3) == array.array("f", range(4)).tobytes()


def refusals(rank, size):
    """What makes no sense is refused, and what there was is as it was."""
    create = wm.create_chunked_tensor
    raises(ValueError, "dimension", create, [2, 3, 4])
    raises(ValueError, "dimension", create, [])
    raises(ValueError, "shape", create, [-1, 4])
    raises(ValueError, "shape", create, [4, 0])
    raises(TypeError, "complex64", create, [4], dtype="complex64")
    raises(ValueError, "stride", create, [4, 4], [3, 1])
    raises(ValueError, "stride", create, [4, 4], [8, 2])
    raises(ValueError, "strides for", create, [4, 4], [4])
    raises(ValueError, "addresses", create, [1 << 62])
    raises(ValueError, "addresses", create, [1 << 61, 8])
    raises(ValueError, "addresses", create, [0, 1 << 62])
    raises(ValueError, "ranks", create, [4], ranks=[1 << 32])
    raises(ValueError, "ranks", create, [4], ranks=[-1])
    raises(ValueError, "together", wm.mp_init, 1)
    raises(ValueError, "backing", wm.mp_init, 0, 1, backing="disk")
    raises(ValueError, "rank", wm.mp_init, 1 << 32, 1)
    raises(ValueError, "size", wm.mp_init, 0, (1 << 32) + 1)
    raises(ValueError, "device", wm.mp_init, 0, 1, device=1 << 32)
    raises(TypeError, "float", wm.mp_init, 0, 1, device=0.5)
    for timeout in (-1, 1 << 32, float("nan")):
        raises(ValueError, "timeout", wm.mp_init, 0, 1, timeout=timeout)
    raises(ValueError, "NUL", wm.mp_init, 0, 1, "one\0two")
    raises(TypeError, "", wm.mp_init, 0, 1, 7)
    assert raises(wm.WholeMemoryError, "wcm_init", wm.mp_init, 3, 2).name == "EINVAL"
    assert raises(wm.WholeMemoryError, "wcm_init", wm.mp_init, 0, 17).name == "EINVAL"
    table = create([10, 4], dtype="int16")
    raises(ValueError, "no size", wm.aggregate_size, 1 << 64)
    refused_arrays()
    assert raises(wm.WholeMemoryError, "wcm_malloc", create, [4], ranks=[0, 0]).name == "EINVAL"
    assert raises(wm.WholeMemoryError, "wcm_malloc", create, [1 << 50]).name == "ENOMEM"
    raises(ValueError, "multiple", table.write, b"123")
    raises(IndexError, "rows", table.write, bytes(8), 10)
    raises(IndexError, "rows", table.read, 5, 6)
    raises(IndexError, "rows", table.sub, 11)
    raises(IndexError, "rows", table.sub, -1)
    raises(TypeError, "not an array", wm.gather, table, [1, 2], table.local())
    raises(TypeError, "int32", wm.gather, table, table.local(), table.local())
    raises(ValueError, "mode", wm.embedding, table, table.local(), table.local(), table.local(), "median")
    child = os.fork()
    if child == 0:              # has the numbers of its parent, not the memory
        raises(RuntimeError, "freed", table.read)
        table.close()
        os._exit(0)             # pylint: disable=protected-access
    assert os.waitpid(child, 0)[1] == 0
    table.write(bytes(range(80)))
    assert table.read() == bytes(range(80)) and (rank, size) == (0, 1)


def together(rank, size):
    """All ranks see all rows, and go in any order."""
    assert wm.aggregate_size(rank + 1) == (size * (size + 1) // 2, rank * (rank + 1) // 2)
    table = filled()
    assert table.read() == numbers(0, ROWS).tobytes()
    assert table.info().chunk_count == size and table.info().chunk == rank
    mine = table.sub(ROWS // 2).local()
    assert mine.shape[0] == 0 or mine.first + mine.shape[0] <= ROWS - ROWS // 2
    wm.barrier()
    if rank == 0:
        table.close()           # not collective
    else:
        assert table.read(0, 1) == numbers(0, 1).tobytes()
    wm.barrier()


def killed(rank, size):
    """The last rank dies: the others are told, and none hangs."""
    table = filled()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    assert raises(wm.WholeMemoryError, "has ended", wm.barrier).name == "EPEERLOST"
    table.close()


def arrays(rank, size):
    """gather, scatter and embedding with arrays of Numba."""
    import numpy as np          # pylint: disable=import-outside-toplevel
    from numba import cuda      # pylint: disable=import-outside-toplevel
    cuda.select_device(wm.get_device())
    host = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    table, random = filled(), np.random.default_rng(rank)
    chosen = random.integers(0, ROWS, 300)
    for kind in (np.int32, np.int64):
        indices = cuda.to_device(chosen.astype(kind))
        for out_type in (np.float32, np.float64):
            out = wm.gather(table, indices, cuda.device_array((300, COLUMNS), out_type))
            assert (out.copy_to_host() == host[chosen]).all()
    assert (cuda.as_cuda_array(table.local()).copy_to_host() ==
            host[table.local().first:][:table.local().shape[0]]).all()
    bags = cuda.to_device(np.array([0, 10, 10, 250]))
    for mode in ("sum", "mean"):
        out = wm.embedding(table, indices, bags, cuda.device_array((4, COLUMNS), np.float32), mode).copy_to_host()
        wanted = [getattr(np, mode)(host[part], axis=0) if len(part) else 0 * host[0]
                  for part in (chosen[:10], chosen[:0], chosen[10:250], chosen[250:])]
        assert np.allclose(out, wanted)
    part, outside = table.sub(500), cuda.to_device(np.array([0, 499, 500, -1]))
    out = wm.gather(part, outside, cuda.device_array((4, COLUMNS), np.float32)).copy_to_host()
    assert (out[:2] == host[[500, 999]]).all() and (out[2:] == 0).all() and table.info().bad_indices == 2
    raises(ValueError, "300 rows of 12 are wanted", wm.gather, table, indices, cuda.device_array((300, 11)))
    wm.barrier()
    mine = np.arange(rank, ROWS, size)
    wm.scatter(cuda.to_device(-host[mine]), cuda.to_device(mine), table)
    cuda.synchronize()
    wm.barrier()
    assert table.read() == (-host).tobytes()
    wm.barrier()


def torch_ops(rank, size):
    """The ops of PyTorch on a GPU, or an emulated one, which has no kernel of PyTorch's: copies are all it makes."""
    import torch                # pylint: disable=import-outside-toplevel
    import wholememory.torch.wholememory_pytorch as wmt     # pylint: disable=import-outside-toplevel
    device = torch.device("cuda", wm.get_device())
    torch.cuda.set_device(device)
    ops, host = torch.ops.wholememory, torch.arange(ROWS * COLUMNS, dtype=torch.float32).reshape(ROWS, COLUMNS)
    assert wmt.ChunkedTensor is wm.ChunkedTensor
    table = filled()
    assert table.dtype is torch.float32
    chosen = torch.randint(0, ROWS, (300,))
    for kind in (torch.int32, torch.int64):
        for out_type in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            out = ops.gather_chunked(chosen.to(kind).to(device), table.get_ptr(), out_type)
            assert out.dtype is out_type and torch.equal(out.cpu(), host[chosen].to(out_type))
    stream, part = torch.cuda.Stream(device), table.sub(100)
    with torch.cuda.stream(stream):
        out = ops.gather_chunked(torch.arange(50).to(device), part.get_ptr(), torch.float32)
    stream.synchronize()
    assert torch.equal(out.cpu(), host[100:150])
    out = ops.gather(chosen.to(device), host.to(device), torch.float64)
    assert torch.equal(out.cpu(), host[chosen].double())
    out = ops.embedding_chunked(chosen.to(device), torch.tensor([0, 10, 10]).to(device), table.get_ptr(), "sum",
                                torch.float32)
    assert torch.allclose(out.cpu()[0], host[chosen[:10]].sum(0)) and torch.equal(out.cpu()[1], 0 * host[0])
    mine = torch.as_tensor(table.local(), device=device)
    first = table.local().first
    assert torch.equal(mine.cpu(), host[first:first + mine.shape[0]])
    raises(ValueError, "has to be on", ops.gather_chunked, chosen, table.get_ptr(), torch.float32)
    raises(RuntimeError, "not the number", ops.gather_chunked, chosen.to(device), 5, torch.float32)
    wm.barrier()
    every = torch.arange(rank, ROWS, size)
    ops.scatter_chunked((-host[every]).to(device), every.to(device), table.get_ptr())
    torch.cuda.synchronize()
    wm.barrier()
    assert table.read() == (-host).numpy().tobytes()
    halves = wm.create_chunked_tensor([8, 4], dtype=torch.bfloat16)
    assert halves.dtype is torch.bfloat16
    raises(AttributeError, "bfloat16", getattr, halves.local(), "__cuda_array_interface__")
    wm.barrier()


def torch_shapes(_rank, _size):
    """Shapes and errors, on tensors of the device "meta" and of the CPU."""
    import torch                # pylint: disable=import-outside-toplevel
    import wholememory.torch    # noqa: F401  pylint: disable=import-outside-toplevel,redefined-outer-name
    ops, table = torch.ops.wholememory, wm.create_chunked_tensor([ROWS, COLUMNS], dtype=torch.float16)
    line = wm.create_chunked_tensor([ROWS], dtype=torch.int64)
    indices = torch.empty(30, dtype=torch.int64, device="meta")
    out = ops.gather_chunked(indices, table.get_ptr(), torch.float32)
    assert out.shape == (30, COLUMNS) and out.dtype is torch.float32 and out.is_meta
    assert ops.gather_chunked(indices, line.get_ptr(), torch.int64).shape == (30,)
    plain = torch.empty(50, 7, device="meta")
    assert ops.gather(indices, plain, torch.float32).shape == (30, 7)
    bags = torch.empty(5, dtype=torch.int32, device="meta")
    assert ops.embedding_chunked(indices, bags, table.get_ptr(), "mean", torch.float32).shape == (5, COLUMNS)
    ops.scatter_chunked(out, indices, table.get_ptr())
    raises(ValueError, "wanted", ops.scatter_chunked, plain, indices, table.get_ptr())
    raises(ValueError, "mode", ops.embedding_chunked, indices, bags, table.get_ptr(), "max", torch.float32)
    for wrong in (indices.float(), torch.empty(3, 3, dtype=torch.int64, device="meta")):
        raises(TypeError, "indices", ops.gather_chunked, wrong, table.get_ptr(), torch.float32)
    raises(ValueError, "cpu", ops.gather_chunked, torch.tensor([1]), table.get_ptr(), torch.float32)
    number = table.get_ptr()
    table.close()
    raises(RuntimeError, "not the number", ops.gather_chunked, indices, number, torch.float32)


def main():
    """Runs a case."""
    library, name, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    wm.init_lib(library)
    if size > 1 or name not in ("alone", "refusals"):
        wm.mp_init(rank, size, group=sys.argv[5], device=rank % int(os.environ.get("DEVICES", "4")), timeout=40)
    globals()[name](rank, size)
    wm.finalize_lib()
    print(f"{name} {rank}: right")


if __name__ == "__main__":
    main()
