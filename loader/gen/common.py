"""loader/gen/common.py - what the generators of stubs share: one table of names, two ends.

A function is {name, words}: words is how many 8-byte words of its arguments lie on the stack, or the
name of other code that calls it.
"""

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
