"""C prototypes of the driver calls, and small helpers that the other modules share."""

import re
import textwrap

from . import banner


def c_type(a):
    """C type of an argument in the public prototype."""
    if a.kind == "string":
        return "const char *"
    if a.kind == "pod":
        return f"{'const ' if a.direction == 'in' else ''}{a.ctype} *"
    return a.ctype + (" *" if a.direction in ("out", "new", "got") else " ")


def params(row):
    """C parameter list of an exported row."""
    if row.params is not None:
        return row.params
    return ", ".join(c_type(a) + a.name for a in row.args) or "void"


def resolve(table, row):
    """The row that holds the arguments of an alias or a per-thread variant."""
    while row.target:
        row = table.names[row.target]
    return row


def argument_names(params_text):
    """Names in a C parameter list."""
    if params_text == "void":
        return []
    return [p.replace("*", " ").split()[-1] for p in params_text.split(",")]


def variant(table, row, export="CK_EXPORT"):
    """An older name of a call, or its per-thread form."""
    text = params(resolve(table, row))
    call = f"{row.target}({', '.join(argument_names(text))})"
    if row.kind == "alias":
        return f"{export} CUresult {row.name}({text})\n{{\n\treturn {call};\n}}\n\n"
    return (f"{export} CUresult {row.name}({text})\n{{\n\tCUstream was = ck_default_stream_set("
            f"CU_STREAM_PER_THREAD);\n\tCUresult err = {call};\n\n\tck_default_stream_set(was);\n"
            "\treturn err;\n}\n\n")


def api_h(table):
    """Prototypes of every call that has a body."""
    out = [banner("rpc/driver.api"), "#ifndef CK_GEN_API_H\n#define CK_GEN_API_H\n\n"
           '#include "cuda/types.h"\n\n']
    for r in table.rows:
        if r.exported and r.kind != "refuse":
            out.append(f"CUresult {r.name}({params(resolve(table, r))});\n")
    out.append("\n#endif\n")
    return "".join(out)


# Functions of the C library that the client puts its own before: client/managed/interpose.c says why.
INTERPOSED = ("fread fwrite pread pread64 pthread_sigmask pwrite pwrite64 read readv recv recvfrom "
              "send sendto sigaction signal sigprocmask write writev").split()


def exports_map(table, soname, more=""):
    """A linker version script: the driver's names, and what each library adds to them."""
    names = "".join(f"\t\t{r.name};\n" for r in table.rows if r.exported)
    added = ["ckDriver*"] if soname == "emu" else INTERPOSED
    extra = "".join(f"\t\t{name};\n" for name in added) + more
    return f"{{\n\tglobal:\n{names}{extra}\tlocal:\n\t\t*;\n}};\n"


def emu_variants_c(table):
    """The emulated driver's older names and per-thread forms; weak: a file of its own comes first."""
    out = [banner("rpc/driver.api"), '#include "emu/emu.h"\n\n'
           "#define VARIANT __attribute__((weak)) CK_EXPORT\n\n"]
    out += [variant(table, r, "VARIANT") for r in table.rows if r.kind in ("alias", "ptsz")]
    return "".join(out)


def emu_refuse_c(table):
    """Weak refusals for what the emulated driver does not define."""
    out = [banner("rpc/driver.api"), '#include "cuda/types.h"\n\n'
           "#define REFUSE(name) \\\n\tCUresult name(void); \\\n"
           "\t__attribute__((weak, visibility(\"default\"))) CUresult name(void) \\\n"
           "\t{ return CUDA_ERROR_NOT_SUPPORTED; }\n\n"]
    out += [f"REFUSE({r.name})\n" for r in table.rows
            if r.exported and r.kind not in ("alias", "ptsz")]
    return "".join(out)


def reasons_md(table):
    """Why names are refused, by name; empty where there is nothing to say."""
    out = []
    for word, reason in table.reasons.items():
        names = [r.name for r in table.rows if r.kind == "refuse" and r.reason == word]
        if names:
            out.append("\n" + textwrap.fill(reason, 100) + "\n\n" + ",\n".join(names) + "\n")
    return ["\n## Why names are refused\n", *out] if out else []


def listed(kind, names):
    """A paragraph of names, one a line, so that changes of two branches do not meet."""
    return f"**{kind}** ({len(names)}):\n" + ",\n".join(names) + "\n\n"


def coverage_md(table):
    """docs/coverage.md: what works, by group and by name."""
    groups = []
    with open(table.path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    group = None
    for i, line in enumerate(lines, 1):
        if line.startswith("# --- "):
            group = (line[6:], [])
            groups.append(group)
        elif group:
            group[1].extend(r for r in table.rows if r.line == i and r.exported)
    out = ["<!-- Made by tools/apigen.py from rpc/driver.api: change that, not this file. -->\n",
           "# Coverage of the CUDA driver API\n\n",
           "Every name that the driver library of CUDA 13.0 exports is on the table `rpc/driver.api`.\n"
           "`local`: answered by the client, which may move memory for it. `cached`: asked once.\n"
           "`send`: one-way. `call`: waits for a reply. `hand`: written by hand on other messages.\n"
           "`alias`, `ptsz`: other names of a call. `refuse`: not supported, returns\n"
           "`CUDA_ERROR_NOT_SUPPORTED` and is named in the log; the last section has the reasons.\n"
           "`refuse, 32-bit`: forms of before CUDA 3.2, with addresses and sizes of 32 bits; asked for\n"
           "by `cuGetProcAddress` with any later version, their names mean the forms that work.\n\n",
           "| group | names | work | refused |\n|---|---|---|---|\n"]
    total = [0, 0]
    for title, rows in groups:
        bad = sum(r.kind == "refuse" for r in rows)
        total[0] += len(rows)
        total[1] += bad
        out.append(f"| {title} | {len(rows)} | {len(rows) - bad} | {bad} |\n")
    out.append(f"| **all** | {total[0]} | {total[0] - total[1]} | {total[1]} |\n")
    for title, rows in groups:
        out.append(f"\n## {title[0].upper()}{title[1:]}\n\n")
        for kind in ("local", "cached", "send", "call", "hand", "alias", "ptsz", "refuse"):
            names = [r.name for r in rows if r.kind == kind and not is_narrow(r, table)]
            if names:
                out.append(listed(kind, names))
        names = [r.name for r in rows if is_narrow(r, table)]
        if names:
            out.append(listed("refuse, 32-bit", names))
        out[-1] = out[-1].rstrip("\n") + "\n"
    return "".join(out + reasons_md(table))


def is_narrow(row, table):
    """A refused form of before CUDA 3.2 whose successor works."""
    return row.kind == "refuse" and row.since.isdigit() and int(row.since) < 3020 and any(
        r.name == row.name + "_v2" and r.kind != "refuse" for r in table.rows)


def base_name(name):
    """cuMemAlloc_v2_ptds -> (cuMemAlloc, per-thread?)."""
    m = re.match(r"(.*?)(?:_v\d+)?(_ptsz|_ptds)?$", name)
    return m.group(1), bool(m.group(2))


def procaddress_c(table, counting):
    """Entries behind cuGetProcAddress, sorted by base name, newest version first; COUNTING: of a
    library that has its calls once more, counted."""
    out = [banner("rpc/driver.api"), '#include <stddef.h>\n\n#include "libcuda/procaddress.h"\n\n']
    rows = [r for r in table.rows if r.exported and r.since.isdigit() and int(r.since)]
    out += [f"extern char {r.name}[];\n" for r in rows]
    out += [f"extern char ck_counted_{r.name}[];\n" for r in rows
            if counting and r.kind != "refuse"]
    out.append("\nconst struct ck_entry ck_entries[] = {\n")
    key = lambda r: (base_name(r.name)[0], -int(r.since), base_name(r.name)[1])
    for r in sorted(rows, key=key):
        base, per_thread = base_name(r.name)
        counted = "NULL" if not counting or r.kind == "refuse" else f"ck_counted_{r.name}"
        out.append(f'\t{{ "{base}", {r.since}, {str(per_thread).lower()}, {r.name}, {counted} }},\n')
    out.append("};\n\nconst unsigned int ck_entry_count = sizeof(ck_entries) / "
               "sizeof(ck_entries[0]);\n")
    return "".join(out)
