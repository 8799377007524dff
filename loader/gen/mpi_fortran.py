"""loader/gen/mpi_fortran.py - the Fortran routines of the MPI half, from the installed libmpi_mpifh.so; see mpi.py.

libmpi_mpifh lies in the MPI half: what it does with handles, logicals and strings stays inside. A routine's
arguments are addresses, and two kinds of address are not the same in both halves: constants that are known by
their place (MPI_BOTTOM, MPI_STATUS_IGNORE: common blocks of the program), and functions. Which arguments are
functions is known from the routine's C function.
"""
import re
import subprocess

import common

# Constants, in libmpi: one of each for every way in which compilers spell a common block's name.
SENTINEL = re.compile(r"^(?:mpi_fortran_\w+|MPI_FORTRAN_\w+)$")
# Routines that applications hand back as arguments, such as MPI_COMM_DUP_FN. These are in libmpi.
GIVEN = re.compile(r"^o?mpi_\w+_fn(_null)?_f$")
# As many as lh_fortran in stubs/call_fortran.S has: for a routine without a C function.
MOST = 22


class Routine:
    """One address in the library, with all the names that it has there."""

    def __init__(self, names, functions, callbacks):
        own = re.compile(r"^ompix?_\w+_f$")
        self.names = sorted(names, key=lambda n: (not own.match(n), n))
        self.name = self.names[0]
        self.given = any(GIVEN.search(n) for n in names)
        found = re.match(r"^ompi(x?)_(\w+?)(?:_cptr)?_f$", self.name)
        f = functions.get(f"mpi{found[1]}_{found[2]}") if found else None
        params = f.params if f else []
        if [p.name for p in params[:2]] == ["argc", "argv"]:
            params = params[2:]
        self.functions = sum(1 << i for i, p in enumerate(params) if p.type in callbacks)
        # an error code is the last argument, but of the functions, and of MPI_Pcontrol
        self.error = len(params) + 1 if f and f.result == "int" and not f.variadic else 0
        self.arguments = (len(params) + (self.error > 0)) if f else MOST


def routines(libmpi, lib, functions, callbacks):
    """All that @lib exports, and those to be given from @libmpi, by their names. @functions: those of C."""
    lower = {n.lower(): f for n, f in functions.items()}
    found = [Routine(names, lower, callbacks) for names in functions_of(lib)]
    given = [r for r in (Routine(names, lower, callbacks) for names in functions_of(libmpi)) if r.given]
    return sorted(found + given, key=lambda r: r.name)


def functions_of(lib):
    """Lists of names, those of one address in each."""
    out = subprocess.run(["nm", "-D", "--defined-only", lib], capture_output=True, text=True, check=True).stdout
    at = {}
    for address, kind, name in (line.split() for line in out.splitlines()):
        if kind in "TW":
            at.setdefault(address, []).append(name.split("@")[0])
    return at.values()


def sentinels(sizes):
    return sorted(n for n in sizes if SENTINEL.match(n))


def write(found, first, out):
    """fortran.S, the entries, and fortran.c, how each one's arguments pass. @first: index of the first."""
    text = common.entries_s("mpi.py", [(r.name, "lh_fortran") for r in found], lambda n: n, first=first)
    aliases = "".join(f"\t.globl {n}\n\t.type {n}, @function\n\t.set {n}, {r.name}\n" for r in found for n in r.names[1:])
    (out / "fortran.S").write_text(text + aliases)
    rows = "".join(f"\t{{ {r.arguments}, {r.error}, {r.functions:#x} }}, /* {r.name} */\n" for r in found)
    (out / "fortran.c").write_text(
        f'/* {common.BANNER.format("mpi.py")} */\n#include "loader/stubs/mpi.h"\n\n'
        f"const unsigned int lh_first_routine = {first};\n"
        f"const struct lh_routine lh_routines[] = {{\n{rows}\t{{ 0, 0, 0 }},\n}};\n")
