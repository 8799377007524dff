"""wholememory/group.py - the ranks that make memory together."""
import ctypes
import math
import operator
import os

from ._library import ANY_DEVICE, BACKINGS, Options, WholeMemoryError, byref, call, library, load

# One of these has the rank of a process (wcm_init reads them).
LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")
NAME_MAX = 80
INT_MAX, UINT_MAX = (1 << 31) - 1, (1 << 32) - 1


def init_lib(path=None):
    """Opens libwcm.so, at PATH if that is given. Other calls do so by themselves."""
    load(path)


def mp_init(rank=None, size=None, group=None, device=None, backing="auto", timeout=0):
    """Meets the other ranks; all of them call it (1 to 16).

    RANK and SIZE left out are what mpirun, srun or torchrun says, else 0 and 1. GROUP, the same for all,
    names the meeting; DEVICE is this rank's GPU (left out: the current one); TIMEOUT, in seconds, is how long
    ranks wait for each other (0: 60). ValueError or TypeError is raised before anybody is met.
    """
    if (rank is None) != (size is None):
        raise ValueError("rank and size are given together, or neither")
    if backing not in BACKINGS:
        raise ValueError(f"backing {backing!r} is none of {', '.join(BACKINGS)}")
    if rank is None and any(name in os.environ for name in LAUNCHERS):
        rank, size = -1, 0
    elif rank is None:
        rank, size = 0, 1
        group = group or _unique_name()
    options = Options(group=_name(group), device=_number("device", ANY_DEVICE if device is None else device),
                      backing=BACKINGS[backing], timeout_ms=_milliseconds(timeout))
    made = ctypes.c_void_p()
    call("wcm_init", byref(options), _number("rank", rank), _number("size", size), byref(made))
    return library().wcm_rank(made), library().wcm_size(made)


def _number(what, value):
    """VALUE as a C int has it; ctypes would cut off what is too large."""
    value = operator.index(value)
    if not -1 <= value <= INT_MAX:
        raise ValueError(f"{what} {value} is none")
    return value


def _milliseconds(timeout):
    if not 0 <= timeout <= UINT_MAX / 1000:
        raise ValueError(f"timeout {timeout}: 0 to {UINT_MAX // 1000} seconds")
    return math.ceil(timeout * 1000)


def _name(group):
    """The bytes of a group's name; a C string would end at a NUL."""
    if group is not None and "\0" in group:
        raise ValueError(f"the name of group {group!r} has a NUL in it")
    return None if group is None else group.encode()


def _unique_name():
    """A name that no other group has, so that programs of one shell do not meet by chance."""
    name = ctypes.create_string_buffer(NAME_MAX)
    call("wcm_unique_name", name, len(name))
    return name.value.decode()


def current(make=False):
    """The group, which MAKE makes if there is none."""
    group = library().wcm_current()
    if not group and make:
        mp_init()
        group = library().wcm_current()
    if not group:
        raise RuntimeError("there is no group of ranks: mp_init(rank, size) makes one")
    return group


def get_rank():
    """Which rank this is."""
    return library().wcm_rank(current())


def get_size():
    """How many ranks there are."""
    return library().wcm_size(current())


def get_device():
    """The number of this rank's GPU: where the arrays have to be that are gathered into, and the like."""
    return library().wcm_device(current())


def barrier():
    """Returns when all ranks have called it."""
    call("wcm_barrier", current())


def aggregate_size(value):
    """Of all ranks' VALUE (each 0 or more): (sum, sum of those of lower ranks). All ranks call it."""
    total, before = ctypes.c_uint64(), ctypes.c_uint64()
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is no size")
    call("wcm_aggregate", current(), value, byref(total), byref(before))
    return total.value, before.value


def finalize_lib():
    """Ends the group. Not collective; tensors that are still open are closed."""
    group = library().wcm_current()
    if group:
        call("wcm_finalize", group)


__all__ = ["WholeMemoryError", "aggregate_size", "barrier", "current", "finalize_lib", "get_device", "get_rank",
           "get_size", "init_lib", "mp_init"]
