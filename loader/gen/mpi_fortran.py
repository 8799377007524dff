"""loader/gen/mpi_fortran.py - the Fortran routines of the MPI half, from the installed libmpi_mpifh.so; see mpi.py.

libmpi_mpifh lies in the MPI half: its work on handles, logicals and strings stays inside. A routine's
arguments are addresses, and two kinds of address are not the same in both halves: constants that are known by
their place (MPI_BOTTOM, MPI_STATUS_IGNORE: common blocks of the program), and functions. Which arguments are
functions is known from the routine's C function. Lengths of strings follow the arguments.
"""
import re

import common

# Constants, in libmpi: one of each for every way in which compilers spell a common block's name.
SENTINEL = re.compile(r"^(?:mpi_fortran_\w+|MPI_FORTRAN_\w+)$")
# Routines that applications hand back as arguments, such as MPI_COMM_DUP_FN. These are in libmpi.
GIVEN = re.compile(r"^o?mpi_\w+_fn(_null)?_f$")
OWN = re.compile(r"^ompi(x?)_(\w+?)(?:_cptr)?_f$")


def routine(names, functions, callbacks):
    """@functions: those of C, by their names in small letters; @callbacks: types of functions."""
    names = sorted(names, key=lambda n: (not OWN.match(n), n))
    found = OWN.match(names[0])
    f = functions.get(f"mpi{found[1]}_{found[2]}") if found else None
    if not f:
        return common.Routine(names, common.MOST, 0, 0)
    params = f.params[2:] if [p.name for p in f.params[:2]] == ["argc", "argv"] else f.params
    # an error code is the last argument, but of the functions, and of MPI_Pcontrol
    error = len(params) + 1 if f.result == "int" and not f.variadic else 0
    return common.Routine(names, len(params) + (error > 0), error,
                          sum(1 << i for i, p in enumerate(params) if p.type in callbacks))


def is_given(r):
    return any(GIVEN.match(n) for n in r.names)


def routines(libmpi, lib, functions, callbacks):
    """All that @lib exports, and those to be given from @libmpi, by their names. @functions: those of C."""
    lower = {n.lower(): f for n, f in functions.items()}
    found = [routine(names, lower, callbacks) for names in common.functions_of(lib)]
    given = [r for r in (routine(names, lower, callbacks) for names in common.functions_of(libmpi)) if is_given(r)]
    return sorted(found + given)


def sentinels(sizes):
    return sorted(n for n in sizes if SENTINEL.match(n))
