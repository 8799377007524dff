"""loader/gen/common.py - shared by the generators of stubs: one table of names, two ends.

A function is {name, words}: words is how many 8-byte words of its arguments lie on the stack, or the
name of other code that calls it.
"""
import collections
import subprocess

# A function for stubs/call_routine.S, with all its names, the first of them in the table; see struct lh_routine.
Routine = collections.namedtuple("Routine", "names arguments error functions")
# As many arguments as stubs/call_routine.S has: for one of which it is not known.
MOST = 22

BANNER = "Made by loader/gen/{}; do not edit."


def names_hash(names):
    """FNV-1a over the list: stub and half must agree on every index."""
    h = 0xcbf29ce484222325
    for byte in "\n".join(names).encode():
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def names_c(generator, names):
    """The list as C, for both ends."""
    rows = "".join(f'\t"{n}",\n' for n in names)
    return (f"/* {BANNER.format(generator)} */\n"
            f"extern const char *const lh_names[];\nextern const unsigned long lh_hash;\n"
            f"const char *const lh_names[] = {{\n{rows}\t0,\n}};\n"
            f"const unsigned long lh_hash = {names_hash(names):#x};\n")


def entries_s(generator, functions, symbol, hidden=(), first=0):
    """The entries: SYMBOL(name) jumps with its index, counted from @first, to the code for its words on the stack."""
    out = [f"/* {BANNER.format(generator)} */\n\t.text\n"]
    for index, (name, words) in enumerate(functions, first):
        label = symbol(name)
        code = words if isinstance(words, str) else f"lh_call{words}"
        out.append(f"\t.balign 16\n\t.globl {label}\n\t.type {label}, @function\n")
        if label in hidden:
            out.append(f"\t.hidden {label}\n")
        out.append(f"{label}:\n\t.cfi_startproc\n\tmovl ${index}, %eax\n\tjmp {code}\n"
                   f"\t.cfi_endproc\n\t.size {label}, . - {label}\n")
    out.append('\t.section .note.GNU-stack, "", @progbits\n')
    return "".join(out)


def functions_of(lib):
    """The exports of a library: lists of names, those of one address in each."""
    out = subprocess.run(["nm", "-D", "--defined-only", lib], capture_output=True, text=True, check=True).stdout
    at = {}
    for address, kind, name in (line.split() for line in out.splitlines()):
        if kind in "TW":
            at.setdefault(address, []).append(name.split("@")[0])
    return at.values()


def aliases_s(names):
    """Further names of names[0]."""
    return "".join(f"\t.globl {n}\n\t.type {n}, @function\n\t.set {n}, {names[0]}\n" for n in names[1:])


def write_routines(generator, routines, first, out):
    """routines.S, the entries, and routines.c, how their arguments pass. @first: index of the first."""
    text = entries_s(generator, [(r.names[0], "lh_routine") for r in routines], lambda n: n, first=first)
    (out / "routines.S").write_text(text + "".join(aliases_s(r.names) for r in routines))
    rows = "".join(f"\t{{ {r.arguments}, {r.error}, {r.functions:#x} }}, /* {r.names[0]} */\n" for r in routines)
    (out / "routines.c").write_text(
        f'/* {BANNER.format(generator)} */\n#include "loader/stubs/mpi_known.h"\n\n'
        f"const unsigned int lh_first_routine = {first};\n"
        f"const struct lh_routine lh_routines[] = {{\n{rows}\t{{ 0, 0, 0 }},\n}};\n")
