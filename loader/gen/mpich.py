"""loader/gen/mpich.py - both ends of the MPICH half, from the installed mpi.h and libmpich.so.

    mpich.py --cpp 'mpicc.mpich -E' --lib libmpich.so.12 --out FOLDER

MPICH's handles and most constants are numbers, equal in both halves, so its functions pass as they are. Only
functions of the application, and the few constants that are addresses (MPI_UNWEIGHTED), need looking at. The
libraries for Fortran and C++ lie beside the program: they call MPI in C, and some MPII functions.

FOLDER gets names.c (both ends), entries.S, routines.S, routines.c and data.c (the stub).
"""
import argparse
import pathlib
import re

import common
import mpi

# Functions that mpi.h does not declare, and which of their arguments are functions.
OWN = {"MPII_Keyval_set_proxy": 0b110, "MPII_Op_set_cxx": 0b10, "MPII_Errhandler_set_cxx": 0b10}
# A tool's interface between libraries of one process, which has no half in between; errors of ROMIO, inside.
LEFT = re.compile(r"^QMPI_|^MPIR_Err_")
# Functions that applications hand back as arguments: MPI_DUP_FN.
GIVEN = re.compile(r"^MPIR_\w+_fn$")
# Parameters that may be a constant known by its address.
CONSTANT = re.compile(r"weights$|^handle$")
# Constants that C has in a variable, and mpi_f08 by the address of an object, or in a variable of its own, which
# MPI_Init sets: it may be in libmpichfort.
OBJECT = {"MPI_F08_STATUS_IGNORE": "MPIR_F08_MPI_STATUS_IGNORE_OBJ",
          "MPI_F08_STATUSES_IGNORE": "MPIR_F08_MPI_STATUSES_IGNORE_OBJ"}
COPY = {"MPIR_C_MPI_UNWEIGHTED": "MPI_UNWEIGHTED", "MPIR_C_MPI_WEIGHTS_EMPTY": "MPI_WEIGHTS_EMPTY"}


def function_types(text):
    """Names of types of functions: typedef int (MPI_Copy_function)(...), and other names of them."""
    found = set(re.findall(r"typedef\s+\w+\s*\(\s*(MPIX?_\w+)\s*\)\s*\(", text))
    return found | {new for old, new in re.findall(r"typedef\s+(\w+)\s+(\w+)\s*;", text) if old in found}


def routine(names, f, types):
    """As a common.Routine; one without anything to look at has no arguments."""
    functions = sum(1 << i for i, p in enumerate(f.params) if p.type in types) if f else OWN.get(names[0], 0)
    looked_at = functions or (f and any(CONSTANT.search(p.name) for p in f.params))
    return common.Routine(names, (len(f.params) if f else common.MOST) if looked_at else 0, 0, functions)


def ordered(names):
    """The name that tools do not replace first."""
    return sorted(names, key=lambda n: (not n.startswith("PMPI"), n))


def generate(text, lib, out):
    functions, _ = mpi.declarations(text)
    types = function_types(text)
    groups = sorted(ordered(n) for n in common.functions_of(lib) if not LEFT.match(n[0]))
    by_name = {g[0]: functions.get(g[0].removeprefix("P")) for g in groups}
    found = [routine(g, by_name[g[0]], types) for g in groups]
    plain, routines = [r for r in found if not r.arguments], [r for r in found if r.arguments]
    sizes = {n: s for n, s in mpi.exported(lib, "BD").items() if n.startswith("MPI")}
    first = len(plain) + len(sizes)
    table = [r.names[0] for r in plain] + sorted(sizes) + [r.names[0] for r in routines]
    (out / "names.c").write_text(common.names_c("mpich.py", table))
    entries = common.entries_s("mpich.py", [(r.names[0], by_name[r.names[0]].words() if by_name[r.names[0]] else 0)
                                            for r in plain], lambda n: n)
    (out / "entries.S").write_text(entries + "".join(common.aliases_s(r.names) for r in plain))
    common.write_routines("mpich.py", routines, first, out)
    given = {n: i for i, n in enumerate(table) if GIVEN.match(n)}
    (out / "data.c").write_text(data_c(sizes, given, {n: len(plain) + i for i, n in enumerate(sorted(sizes))}))


def data_c(sizes, given, index):
    """@sizes: of the variables; @given, @index: where functions and variables are in the table."""
    objects = [n for n in index if n.startswith("MPIR_") and n not in COPY]
    own = [n for n in index if n not in [*objects, *OBJECT, *COPY] and not n.startswith("MPI_F_")]
    lines = [f"extern char {n}[];" for n in given]
    lines += [f"API char {n}[{sizes[n]}] __attribute__((aligned(32)));" for n in objects]
    lines += [f"static char of_{n}[8];\nAPI void *const {n} = of_{n};" for n in own]
    lines += [f"API void *const {n} = {OBJECT[n]};" for n in OBJECT if n in index]
    lines += [f"API void *{n};" for n in COPY if n in index]
    lines += ["__attribute__((constructor)) static void set_copies(void)", "{",
              *(f"\t{n} = of_{COPY[n]};" for n in COPY if n in index), "}"]
    lines += [f"API void *{n};" for n in index if n.startswith("MPI_F_")]
    rows = [f"\t{{ {n}, {i}, false }}," for n, i in given.items()]
    rows += [f"\t{{ {n}, {index[n]}, false }}," for n in objects] + [f"\t{{ of_{n}, {index[n]}, true }}," for n in own]
    return (f'/* {common.BANNER.format("mpich.py")} */\n#include "loader/stubs/mpi_known.h"\n\n'
            '#define API __attribute__((visibility("default")))\n\n' + "\n".join(lines)
            + "\n\nconst struct lh_known lh_known[] = {\n" + "\n".join(rows) + "\n\t{ 0, 0, false },\n};\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpp", default="mpicc.mpich -E")
    parser.add_argument("--lib", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    generate(mpi.preprocessed(args.cpp, "#include <mpi.h>\n"), args.lib, args.out)


if __name__ == "__main__":
    main()
