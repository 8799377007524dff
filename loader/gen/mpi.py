#!/usr/bin/env python3
"""loader/gen/mpi.py - both ends of the MPI half, from the installed mpi.h and libmpi.so.

    mpi.py --cpp 'mpicc -E' --lib libmpi.so.40 [--fortran libmpi_mpifh.so.40] --out FOLDER

Open MPI's predefined handles (MPI_COMM_WORLD, MPI_INT) are addresses of its data. The application
has addresses of its own, of the stub's data, so every handle that passes is translated: these
handles to the lower half's and back, all others are left as they are. By the type of an argument:

    MPI_Comm comm                  in
    MPI_Comm *comm                 in before, out after, in place (unset values pass)
    const MPI_Datatype types[]     a translated copy
    MPI_Request requests[]         in place, both ways
    a function                     a thunk that translates its arguments

FOLDER gets names.c (both ends), entries.S, wrappers.c and data.c (the stub), and routines.S and
routines.c (mpi_fortran.py).
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

import common
import mpi_fortran

HANDLES = {"MPI_Comm", "MPI_Datatype", "MPI_Op", "MPI_Group", "MPI_Request", "MPI_Errhandler",
           "MPI_Info", "MPI_Win", "MPI_File", "MPI_Message", "MPI_Session"}
# C types that are not pointers, as the calling convention sees them.
SCALARS = {"int": "int", "MPI_Fint": "int", "MPI_Aint": "long", "MPI_Offset": "long",
           "MPI_Count": "long", "double": "double", "MPI_T_enum": "void *",
           "MPI_T_cvar_handle": "void *", "MPI_T_pvar_handle": "void *",
           "MPI_T_pvar_session": "void *"}
# The translation by a callback: see stubs/mpi.c.
CALLBACKS = {"MPI_User_function": "op", "MPI_Comm_errhandler_function": "errhandler",
             "MPI_Win_errhandler_function": "errhandler", "ompi_file_errhandler_fn": "errhandler",
             "MPI_File_errhandler_function": "errhandler", "MPI_Handler_function": "errhandler",
             "MPI_Comm_errhandler_fn": "errhandler", "MPI_File_errhandler_fn": "errhandler",
             "MPI_Win_errhandler_fn": "errhandler", "MPI_Session_errhandler_function": "errhandler",
             "MPI_Comm_copy_attr_function": "attribute", "MPI_Comm_delete_attr_function": "attribute",
             "MPI_Type_copy_attr_function": "attribute", "MPI_Type_delete_attr_function": "attribute",
             "MPI_Win_copy_attr_function": "attribute", "MPI_Win_delete_attr_function": "attribute",
             "MPI_Copy_function": "attribute", "MPI_Delete_function": "attribute",
             "MPI_Grequest_query_function": "plain", "MPI_Grequest_free_function": "plain",
             "MPI_Grequest_cancel_function": "plain", "MPI_Datarep_extent_function": "attribute",
             "MPI_Datarep_conversion_function": "datarep"}
# Functions that libmpi_cxx of Open MPI 4 calls and mpi.h lacks, where libmpi has them.
CXX = {"ompi_op_set_cxx_callback": ("void", "MPI_Op op, void *function")}
THROW = "ompi_mpi_errors_throw_exceptions"
# Functions that applications hand back as pointers: keyvals that copy, or do nothing.
GIVEN = re.compile(r"^OMPI_C_MPI_\w+_FN$")


class Param:
    """One parameter: its type without qualifiers, its name, and how it is passed."""

    def __init__(self, text):
        text = re.sub(r"\s+", " ", text.strip())
        self.const = text.startswith("const ")
        text = text.removeprefix("const ")
        array = re.search(r"\[.*$", text)
        text = re.sub(r"\s*\[.*$", "", text)
        match = re.match(r"^(?:struct )?(\w+(?: \w+)*?)\s*([* ]*)\s*(\w+)$", text)
        if not match:
            raise ValueError(text)
        self.type, stars, self.name = match.groups()
        self.array = bool(array)
        self.depth = stars.count("*") + (1 if array else 0)

    def handle(self):
        return self.type in HANDLES

    def c_type(self):
        return SCALARS.get(self.type, "void *") if not self.depth else "void *"


class Function:
    def __init__(self, result, name, params):
        self.name = name
        self.result = "void *" if "*" in result or result in HANDLES else SCALARS.get(result, result)
        self.variadic = params.strip().endswith("...")
        params = re.sub(r",\s*\.\.\.\s*$", "", params)
        self.params = [] if params.strip() in ("", "void") else \
            [Param(p) for p in re.split(r",(?![^()]*\))", params)]
        for i, p in enumerate(self.params):
            p.name = p.name if p.name not in ("index",) else f"{p.name}_{i}"
        self.returns_handle = result in HANDLES

    def words(self):
        return max(0, len(self.params) - 6)


def strip_attributes(text):
    """Without __attribute__((...)), whose text may hold any punctuation."""
    out, at = [], 0
    for match in re.finditer(r"__attribute__\s*\(\(", text):
        if match.start() < at:
            continue
        out.append(text[at:match.start()])
        depth, i, quoted = 0, match.end() - 2, False
        while True:
            c = text[i]
            quoted ^= c == '"'
            depth += 0 if quoted else (c == "(") - (c == ")")
            i += 1
            if depth == 0:
                break
        at = i
    return "".join(out) + text[at:]


def preprocessed(cpp, source):
    """The preprocessor's output for this source, without attributes."""
    text = subprocess.run([*shlex.split(cpp), "-x", "c", "-"], input=source, text=True,
                          capture_output=True, check=True).stdout
    return strip_attributes(re.sub(r"^#.*$", "", text, flags=re.M))


def declarations(text):
    """MPI's functions, by name, and the names of predefined objects."""
    functions = {}
    for statement in text.split(";"):
        match = re.match(r"^\s*(?:extern\s+)?(\w+\s*\**)\s*(MPIX?_\w+)\s*\((.*)\)\s*$",
                         " ".join(statement.split()))
        if match and "typedef" not in statement:
            functions[match.group(2)] = Function(match.group(1).strip(), *match.groups()[1:])
    predefined = re.findall(r"extern struct ompi_predefined_\w+ (\w+)\s*;", text)
    return functions, sorted(set(predefined))


def exported(lib, kinds=None):
    """Name to size of the library's exports; @kinds: nm's letters of the wanted ones, all by default."""
    out = subprocess.run(["nm", "-D", "-S", "--defined-only", lib], capture_output=True, text=True,
                         check=True).stdout
    return {f[-1].split("@")[0]: int(f[1], 16) for f in map(str.split, out.splitlines())
            if len(f) == 4 and (not kinds or f[2] in kinds)}


# --- wrappers

def count_of(f, p):
    """The C expression for how many elements an array of handles has."""
    name = f.name.lower()
    if "alltoallw" in name:
        side = "sources" if p.name.startswith("recv") else "destinations"
        kind = "neighbors" if "neighbor" in name else "peers"
        count = f"lh_{kind}(comm, LH_{side.upper()})"
        # MPI_IN_PLACE: the send types are not looked at
        return f"sendbuf == (void *)1 ? 0 : {count}" if p.name.startswith("send") else count
    if f.name.endswith("Type_get_contents"):
        return "max_datatypes"
    return f.params[0].name if f.params[0].type == "int" else f.params[1].name


def interned(f):
    """Whether a copy must live on after the call: the operation is not done by then."""
    return "alltoallw" in f.name.lower() and any(p.type == "MPI_Request" for p in f.params)


def before(f, p):
    if p.type in CALLBACKS:
        return [f"{p.name} = lh_function(LH_{CALLBACKS[p.type].upper()}, {p.name});"]
    if p.name == "obj_handle":
        return ["void *object = lh_in_of(obj_handle);", "if (obj_handle)", "\tobj_handle = &object;"]
    if p.name == "f_status" and p.const:     # it may be MPI_F_STATUS_IGNORE
        return [f"{p.name} = lh_in({p.name});"]
    if not p.handle():
        return []
    if not p.depth:
        return [f"{p.name} = lh_in({p.name});"]
    if not p.array:
        return [f"lh_in_place({p.name}, 1);"]
    if p.const:
        how = "lh_intern" if interned(f) else "lh_copy"
        return [f"{p.name} = {how}({p.name}, {count_of(f, p)});"]
    return [f"lh_in_place({p.name}, {count_of(f, p)});"]


def after(f, p):
    if not p.handle() or not p.depth:
        return []
    if not p.array:
        return [f"lh_out_place({p.name}, 1);"]
    if p.const:
        return [] if interned(f) else [f"lh_copy_free({p.name}, given_{p.name});"]
    return [f"lh_out_place({p.name}, {count_of(f, p)});"]


def wrapper(f):
    params = ", ".join(f"{p.c_type()}{'' if p.c_type().endswith('*') else ' '}{p.name}"
                       for p in f.params) or "void"
    space = "" if f.result.endswith("*") else " "
    args = ", ".join(p.name for p in f.params)
    kept = [p for p in f.params if p.handle() and p.array and p.const and not interned(f)]
    call = f"lh_{f.real}({args})"
    pre = [line for p in sorted(f.params, key=lambda p: p.handle() and p.depth == 0)
           for line in before(f, p)]
    post = [line for p in f.params for line in after(f, p)]
    pre = [f"void *given_{p.name} = {p.name};" for p in kept] + pre
    body = pre[:]
    if f.result == "void":
        body += [f"{call};", *post]
    elif not post:
        body.append(f"return lh_out({call});" if f.returns_handle else f"return {call};")
    else:
        body.append(f"{f.result}{space}result = {call};")
        body += ["", *post, "return result;"]
    tail = ", ..." if f.variadic else ""
    alias = f"ALIAS({f.name});\n" if f.real != f.name else ""
    return (f"{f.result}{space}lh_{f.real}({params});\n"
            f"API {f.result}{space}{f.real}({params}{tail})\n{{\n"
            + "".join(f"\t{line}\n" if line else "\n" for line in body)
            + f"}}\n{alias}\n")


def fortran_constant(name, sizes):
    """By its place, as C sees it; a libmpi that was built without Fortran has none."""
    return f"(int *)mpi_fortran_{name}_" if f"mpi_fortran_{name}_" in sizes else "0"


def generate(functions, predefined, libs, out):
    sizes = exported(libs[0])
    functions |= {n: Function(result, n, params) for n, (result, params) in CXX.items() if n in sizes}
    for f in functions.values():
        f.real = f"P{f.name}" if f"P{f.name}" in sizes else f.name
    names = [n for n in sorted(functions) if functions[n].real in sizes]
    lost = [n for n in predefined if n not in sizes]
    if lost:
        sys.exit(f"mpi.py: error: libmpi does not export {', '.join(lost)}")
    given = sorted(n for n in sizes if GIVEN.match(n))
    routines = mpi_fortran.routines(*libs, functions, CALLBACKS) if libs[1] else []
    sentinels = mpi_fortran.sentinels(sizes)
    table = [functions[n].real for n in names] + given + predefined + sentinels + [r.names[0] for r in routines]
    (out / "names.c").write_text(common.names_c("mpi.py", table))
    entries = [(functions[n].real, functions[n].words()) for n in names]
    given_words = [(n, 0) for n in given]
    hidden = {f"lh_{functions[n].real}" for n in names}
    (out / "entries.S").write_text(common.entries_s(
        "mpi.py", entries + given_words, lambda n: n if GIVEN.match(n) else f"lh_{n}", hidden))
    head = (f'/* {common.BANNER.format("mpi.py")} */\n#include "loader/stubs/mpi.h"\n\n'
            '#define API __attribute__((visibility("default")))\n'
            '#define ALIAS(name) \\\n'
            '\t__asm__(".weak " #name "\\n\\t.set " #name ", P" #name "\\n\\t.type " #name ", @function")\n\n')
    (out / "wrappers.c").write_text(head + "".join(wrapper(functions[n]) for n in names))
    first = len(names)
    first_routine = len(table) - len(routines)
    common.write_routines("mpi.py", routines, first_routine, out)
    handed = {n: first + i for i, n in enumerate(given)} | \
        {r.names[0]: first_routine + i for i, r in enumerate(routines) if mpi_fortran.is_given(r)}
    rows = "".join(f"\t{{ {n}, {index}, false }},\n" for n, index in handed.items())
    rows_data = "".join(f"\t{{ &{n}, {first + len(given) + i}, false }},\n" for i, n in enumerate(predefined + sentinels))
    # No exception crosses halves, so that handler is the fatal one, whose own row comes later and decides the way back.
    fatal = first + len(given) + predefined.index("ompi_mpi_errors_are_fatal")
    thrown = [THROW] if THROW in sizes else []
    rows = "".join(f"\t{{ &{n}, {fatal}, false }},\n" for n in thrown) + rows
    data = "".join(f"API char {n}[{sizes[n]}] __attribute__((aligned(32)));\n" for n in thrown + predefined + sentinels)
    (out / "data.c").write_text(
        f'/* {common.BANNER.format("mpi.py")} */\n#include "loader/stubs/mpi.h"\n\n'
        '#define API __attribute__((visibility("default")))\n\n'
        + "".join(f"extern char {n}[];\n" for n in handed) + data
        + "".join(f"API int *MPI_F_{n.upper()} = {fortran_constant(n, sizes)};\n"
                  for n in ("status_ignore", "statuses_ignore"))
        + f"\nconst struct lh_known lh_known[] = {{\n{rows}{rows_data}\t{{ 0, 0, false }},\n}};\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpp", default="mpicc -E")
    parser.add_argument("--lib", required=True)
    parser.add_argument("--fortran")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    source = "#define OMPI_OMIT_MPI1_COMPAT_DECLS 0\n#include <mpi.h>\n#include <mpi-ext.h>\n"
    generate(*declarations(preprocessed(args.cpp, source)), (args.lib, args.fortran), args.out)


if __name__ == "__main__":
    main()
