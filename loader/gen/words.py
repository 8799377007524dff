"""loader/gen/words.py - how many 8-byte words of a function's arguments lie on the stack (System V, x86-64).

The compiler tells each type that is passed by value; its declaration may be anywhere.
"""
import collections
import re
import subprocess

REGISTERS = 6       # for integers and pointers
FLOAT_REGISTERS = 8
# The class that gcc and clang give a type: __builtin_classify_type.
REAL, COMPLEX, STRUCT, UNION = 8, 9, 12, 13

Type = collections.namedtuple("Type", "size align kind")


class Unknown(Exception):
    """A prototype that this does not read, or a type that the call's code cannot pass."""


def split(params):
    """The types of "int a, const struct s *b"; None for a pointer or an array."""
    if "(" in params or "..." in params:
        raise Unknown(f"no plain parameters: {params}")
    types = []
    for param in (p.strip() for p in params.split(",")):
        if param in ("", "void"):
            continue
        words = re.sub(r"\b(const|volatile)\b", "", param).split()
        types.append(None if "*" in param or "[" in param else " ".join(words[:-1] or words))
    return types


def measure(types, headers, compiler):
    """{type: Type}, from the compiler's text for @headers (a list of its options follows the command)."""
    lines = [f'#include "{h}"' for h in headers] + ["void f(void)", "{"]
    lines += [f'\t__asm__ volatile(".ascii \\"by value %c0 %c1 %c2 {t}\\"" :: "i"(sizeof({t})), '
              f'"i"(_Alignof({t})), "i"(__builtin_classify_type(*({t} *)0)));' for t in types]
    out = subprocess.run([*compiler, "-S", "-o", "-", "-x", "c", "-"], input="\n".join([*lines, "}\n"]),
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.findall(r'"by value (\d+) (\d+) (\d+) ([^"]+)"', out)
    return {t: Type(int(size), int(align), int(kind)) for size, align, kind, t in found}


def is_aggregate(measured):
    return measured is not None and measured.kind in (STRUCT, UNION)


def on_stack(types):
    """
    Words on the stack for these (None: a pointer): at least as many as there are. One too many costs a
    push and harms nothing. An aggregate of up to 16 bytes may go in registers, or else push others out.
    """
    words = floats = stack = 0
    small = False
    for measured in types:
        if measured is None:
            words += 1
            continue
        if measured.align > 16 or measured.kind == COMPLEX or (measured.kind == REAL and measured.size > 8):
            raise Unknown(f"no code passes {measured}")
        if measured.kind == REAL:
            floats += 1
            continue
        size = -(-measured.size // 8) + (measured.align == 16)
        if is_aggregate(measured) and measured.size > 16:
            stack += size
        else:
            words += size
            floats += size == 1 and is_aggregate(measured)   # one of floats goes where they go
            small = small or size > 1
    if small:
        return stack + words + floats
    return stack + max(0, words - REGISTERS) + max(0, floats - FLOAT_REGISTERS)
