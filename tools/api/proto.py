"""C prototypes of the driver calls, and small helpers that the other modules share."""

import re
import textwrap
from pathlib import Path

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


def variant(table, row):
    """An older name of a call, or its per-thread form."""
    text = params(resolve(table, row))
    call = f"{row.target}({', '.join(argument_names(text))})"
    if row.kind == "alias":
        return f"CK_EXPORT CUresult {row.name}({text})\n{{\n\treturn {call};\n}}\n\n"
    return (f"CK_EXPORT CUresult {row.name}({text})\n{{\n\tCUstream was = ck_default_stream_set("
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


def interposed():
    """Functions of the C library that the client puts its own before: client/managed/interpose.c and client/wire/quick_exit.c say why."""
    rows = (Path(__file__).parents[2] / "util/process/interposed.def").read_text()
    others = ["_Exit", "_exit", "pthread_sigmask", "sigaction", "signal", "sigprocmask"]
    return sorted(re.findall(r"^(?:CALL|PART)\(\w+, (\w+),", rows, re.M) + others)


def exports_map(table, soname, more=""):
    """A linker version script: the driver's names, and what each library adds to them."""
    names = "".join(f"\t\t{r.name};\n" for r in table.rows if r.exported)
    added = ["ckDriver*"] if soname == "emu" else interposed()
    extra = "".join(f"\t\t{name};\n" for name in added) + more
    return f"{{\n\tglobal:\n{names}{extra}\tlocal:\n\t\t*;\n}};\n"


# Calls that touch nothing of the device, so that a locked process makes them too. libcuda/ has most of them.
UNCOUNTED = ("cuCheckpoint", "cuCoredump", "cuDriverGet", "cuGet", "cuInit", "cuLogs", "cuProfiler")


def is_counted(row):
    """Does the emulated driver count the threads inside of the call?"""
    return row.exported and row.kind != "refuse" and not row.name.startswith(UNCOUNTED)


# Forms that libcuda/ makes of other calls, with a form for the per-thread default stream; a call without a number of CUPTI.
UNWATCHED = ("cuMemcpy3DBatch", "cuMemcpy3DWithAttributes", "cuMemcpyWithAttributes", "cuLaunchHostFunc_v2",
             "cuStreamGetDevResource", "cuTensorMapSetAllocationClass")


def is_watched(row):
    """Does the client tell a profiler of the call?"""
    return is_counted(row) and not row.name.startswith(UNWATCHED)


def client_bodies_h(table):
    """The names of the client's own functions; the exported ones tell a profiler of the call."""
    names = "".join(f"#define {r.name} ckc_do_{r.name}\n" for r in table.rows if is_watched(r))
    return (banner("rpc/driver.api") + "#ifndef CK_GEN_CLIENT_BODIES_H\n#define CK_GEN_CLIENT_BODIES_H\n\n"
            + names + "\n#endif\n")


def emu_bodies_h(table):
    """The names of the emulated driver's own functions; the exported ones count the threads inside."""
    names = "".join(f"#define {r.name} ck_emu_do_{r.name}\n" for r in table.rows if is_counted(r))
    return (banner("rpc/driver.api") + "#ifndef CK_GEN_EMU_BODIES_H\n#define CK_GEN_EMU_BODIES_H\n\n"
            + names + "\n#endif\n")


def emu_call(table, row):
    """An exported function that counts: the body of this name, or of the one that it stands for."""
    text = params(resolve(table, row))
    given = ", ".join(argument_names(text))
    other = "return CUDA_ERROR_NOT_SUPPORTED;"
    if row.kind == "alias":
        other = f"return {row.target}({given});"
    elif row.kind == "ptsz":
        other = f"PER_THREAD({row.target}({given}))"
    return (f"BODY CUresult ck_emu_do_{row.name}({text});\n"
            f"CALL CUresult {row.name}({text})\n{{\n\tif (!ck_emu_do_{row.name})\n\t\t{other}\n"
            f"\tCOUNTED(ck_emu_do_{row.name}({given}))\n}}\n\n")


EMU_CALLS = r"""#include "cuda/types.h"
#include "gen/api.h"
#include "emu/core/call_gate.h"
#include "util/util.h"

CUstream ck_default_stream_set(CUstream stream);

#define CALL __attribute__((weak)) CK_EXPORT
#define BODY __attribute__((weak, visibility("hidden")))

#define REFUSE(name) \
	CUresult name(void); \
	CALL CUresult name(void) \
	{ return CUDA_ERROR_NOT_SUPPORTED; }

#define COUNTED(call) \
	{ \
		CUresult err; \
\
		ck_emu_call_gate_enter(); \
		err = call; \
		ck_emu_call_gate_leave(); \
		return err; \
	}

#define PER_THREAD(call) \
	{ \
		CUstream was = ck_default_stream_set(CU_STREAM_PER_THREAD); \
		CUresult err = call; \
\
		ck_default_stream_set(was); \
		return err; \
	}

"""


def emu_calls_c(table):
    """What the emulated driver exports. Weak: a function of libcuda/ comes first."""
    out = [banner("rpc/driver.api"), EMU_CALLS.replace("\\\\", "\\")]
    for r in table.rows:
        if is_counted(r):
            out.append(emu_call(table, r))
        elif r.exported and r.kind == "refuse":
            out.append(f"REFUSE({r.name})\n\n")
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
           "The table `rpc/driver.api` has every name of the CUDA 13.5 driver API: those that the library of\n"
           "CUDA 13.0 exports, and those that later headers add.\n"
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
