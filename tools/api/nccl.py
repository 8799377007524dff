"""What tools/apigen.py makes of rpc/nccl.api: the stand-in library, the client's table, the worker's calls, the page."""

from . import banner
from .proto import listed

SOURCE = "rpc/nccl.api"


def number(row):
    """CK_NCCL_OP_ALLREDUCE: the operation's number."""
    return f"CK_NCCL_OP_{row.name[4:].upper()}"


def wire_h(table):
    """Numbers of operations, and the table behind the stand-in library."""
    out = [banner(SOURCE), "#ifndef CK_GEN_NCCL_WIRE_H\n#define CK_GEN_NCCL_WIRE_H\n\n#include \"cuda/nccl.h\"\n\nenum {\n"]
    out += [f"\t{number(r)} = {r.num},\n" for r in table.ops]
    out.append(f"\tCK_NCCL_OP_END = {max(int(r.num) for r in table.ops) + 1},\n}};\n\n"
               "/* What the client offers the stand-in library (cuGetExportTable); a later client's is longer. */\n"
               "struct ck_nccl_table {\n\tsize_t size; /* of this structure */\n"
               "\tncclResult_t (*refused)(const char *name);\n")
    out += [f"\t{r.pointer()};\n" for r in table.offered]
    out.append("};\n\n#endif\n")
    return "".join(out)


def api_h(table):
    """The public prototypes, for what is linked with the library."""
    return (banner(SOURCE) + "#ifndef CK_GEN_NCCL_API_H\n#define CK_GEN_NCCL_API_H\n\n#include \"cuda/nccl.h\"\n\n"
            + "".join(f"{r.prototype(r.name)};\n" for r in table.offered) + "\n#endif\n")


def exports_c(table):
    """The stand-in library's functions, under both names of each."""
    out = [banner(SOURCE), '#include "gen/nccl_wire.h"\n#include "nccl/library.h"\n\n'
           "#define EXPORT __attribute__((visibility(\"default\")))\n\n"]
    for r in table.rows:
        call = f"t->{r.name}({', '.join(r.names())})"
        if r.kind == "refuse":
            call = f'CK_NCCL_HAS(t, refused) ? t->refused("{r.name}") : ncclInvalidUsage'
            body = f"\treturn {call};\n"
        elif r.returned() == "void ":
            body = f"\tif (CK_NCCL_HAS(t, {r.name}))\n\t\t{call};\n"
        else:
            none = "ck_nccl_absent()" if r.returned() == "ncclResult_t " else "ck_nccl_absent_text()"
            body = f"\treturn CK_NCCL_HAS(t, {r.name}) ? {call} : {none};\n"
        out.append(f"EXPORT {r.prototype(r.name)};\nEXPORT {r.prototype('p' + r.name)};\n"
                   f"{r.prototype(r.name)}\n{{\n\tconst struct ck_nccl_table *t = ck_nccl_table();\n\n{body}}}\n"
                   f"{r.prototype('p' + r.name)} __attribute__((alias(\"{r.name}\")));\n\n")
    return "".join(out)


def exports_map(table):
    names = "".join(f"\t\t{r.name};\n\t\tp{r.name};\n" for r in table.rows)
    return f"{{\n\tglobal:\n{names}\tlocal:\n\t\t*;\n}};\n"


def client_h(table):
    """Functions of client/nccl that the table names."""
    out = [banner(SOURCE), "#ifndef CK_GEN_NCCL_CLIENT_H\n#define CK_GEN_NCCL_CLIENT_H\n\n#include \"gen/nccl_wire.h\"\n\n"]
    out += [f"{r.prototype('ckc_' + r.name)};\n" for r in table.offered]
    out.append("\n/* Of operation @what; NULL: there is none. */\nconst char *ckc_nccl_op_name(unsigned int what);\n\n#endif\n")
    return "".join(out)


def fill(name, place):
    if place == "buff":
        return f"\t\t.send = (uintptr_t){name},\n\t\t.recv = (uintptr_t){name},\n"
    if place in ("send", "recv"):
        return f"\t\t.{place} = (uintptr_t){name},\n"
    return f"\t\t.{place} = {name},\n" if place not in ("comm", "stream") else ""


def client_c(table):
    """The functions of operations in a stream, and the table."""
    out = [banner(SOURCE), '#include "client/nccl/nccl.h"\n#include "gen/nccl_client.h"\n\n']
    for r in table.ops:
        flags = " | ".join(f for f, place in (("CKC_NCCL_HAS_OP", "op"), ("CKC_NCCL_HAS_ROOT", "root"))
                           if place in r.places()) or "0"
        out.append(f"{r.prototype('ckc_' + r.name)}\n{{\n\tstruct ck_nccl_op o = {{\n\t\t.what = {number(r)},\n"
                   + "".join(fill(*a) for a in r.args)
                   + f"\t}};\n\n\treturn ckc_nccl_enqueue(&o, {flags}, comm, stream);\n}}\n\n")
    out.append("const char *ckc_nccl_op_name(unsigned int what)\n{\n\tswitch (what) {\n")
    out += [f"\tcase {number(r)}:\n\t\treturn \"{r.name}\";\n" for r in table.ops]
    out.append("\tdefault:\n\t\treturn NULL;\n\t}\n}\n\nconst struct ck_nccl_table ckc_nccl_table = {\n"
               "\t.size = sizeof(ckc_nccl_table),\n\t.refused = ckc_nccl_refused,\n")
    out += [f"\t.{r.name} = ckc_{r.name},\n" for r in table.offered]
    out.append("};\n")
    return "".join(out)


# What the worker calls beside the operations.
OWN = ("ncclGetUniqueId", "ncclCommInitRankConfig", "ncclCommInitRankScalable", "ncclCommSplit", "ncclCommShrink",
       "ncclCommFinalize", "ncclCommDestroy", "ncclCommAbort", "ncclCommRevoke", "ncclCommGetAsyncError", "ncclCommCount",
       "ncclCommUserRank", "ncclGroupStart", "ncclGroupEnd", "ncclGroupSimulateEnd", "ncclRedOpCreatePreMulSum", "ncclRedOpDestroy",
       "ncclCommRegister", "ncclCommDeregister", "ncclCommWindowRegister", "ncclCommWindowDeregister", "ncclGetVersion",
       "ncclGetErrorString", "ncclGetLastError")


def server_h(table):
    """The real library's functions."""
    out = [banner(SOURCE), "#ifndef CK_GEN_NCCL_SERVER_H\n#define CK_GEN_NCCL_SERVER_H\n\n#include <stdbool.h>\n\n"
           '#include "gen/nccl_wire.h"\n#include "rpc/nccl.h"\n\n/* NULL where the library has none. */\nstruct cks_nccl_library {\n']
    out += [f"\t{r.pointer()};\n" for r in table.rows if r.kind == "op" or r.name in OWN]
    out.append("};\n\nextern struct cks_nccl_library cks_nccl;\n\n"
               "struct cks_nccl_symbol {\n\tconst char *name;\n\tvoid **slot;\n};\n\n"
               "extern const struct cks_nccl_symbol cks_nccl_symbols[]; /* ends with a NULL name */\n\n"
               "/* Is @what one of the operations below? */\nbool cks_nccl_is_op(unsigned int what);\n"
               "/* Does it take an operator? */\nbool cks_nccl_has_op(unsigned int what);\n"
               "/* Carry out @o; ncclInvalidUsage: the library has no such function. */\n"
               "ncclResult_t cks_nccl_carry_out(const struct ck_nccl_op *o, ncclRedOp_t op, ncclComm_t comm, CUstream stream);\n\n"
               "#endif\n")
    return "".join(out)


def given(place):
    """The expression for an argument."""
    return {"send": "(const void *)(uintptr_t)o->send", "recv": "(void *)(uintptr_t)o->recv",
            "buff": "(void *)(uintptr_t)o->send", "op": "op", "comm": "comm", "stream": "stream",
            "count": "o->count", "type": "o->type", "root": "o->root"}[place]


def server_c(table):
    out = [banner(SOURCE), '#include "gen/nccl_server.h"\n\nstruct cks_nccl_library cks_nccl;\n\n'
           "const struct cks_nccl_symbol cks_nccl_symbols[] = {\n"]
    out += [f'\t{{"{r.name}", (void **)&cks_nccl.{r.name}}},\n' for r in table.rows if r.kind == "op" or r.name in OWN]
    out.append("\t{NULL, NULL},\n};\n\nbool cks_nccl_is_op(unsigned int what)\n{\n\tswitch (what) {\n")
    out += [f"\tcase {number(r)}:\n" for r in table.ops]
    out.append("\t\treturn true;\n\tdefault:\n\t\treturn false;\n\t}\n}\n\n"
               "bool cks_nccl_has_op(unsigned int what)\n{\n\tswitch (what) {\n")
    out += [f"\tcase {number(r)}:\n" for r in table.ops if "op" in r.places()]
    out.append("\t\treturn true;\n\tdefault:\n\t\treturn false;\n\t}\n}\n\n"
               "ncclResult_t cks_nccl_carry_out(const struct ck_nccl_op *o, ncclRedOp_t op, ncclComm_t comm, CUstream stream)\n"
               "{\n\t(void)op;\n\tswitch (o->what) {\n")
    for r in table.ops:
        out.append(f"\tcase {number(r)}:\n\t\treturn cks_nccl.{r.name}\n\t\t\t       ? cks_nccl.{r.name}("
                   + ", ".join(given(place) for place in r.places()) + ")\n\t\t\t       : ncclInvalidUsage;\n")
    out.append("\tdefault:\n\t\treturn ncclInvalidUsage;\n\t}\n}\n")
    return "".join(out)


def files(table):
    """Everything for a build folder."""
    return {
        "gen/nccl_wire.h": wire_h(table),
        "gen/nccl_api.h": api_h(table),
        "gen/nccl_exports.c": exports_c(table),
        "gen/nccl.map": exports_map(table),
        "gen/nccl_client.h": client_h(table),
        "gen/nccl_client.c": client_c(table),
        "gen/nccl_server.h": server_h(table),
        "gen/nccl_server.c": server_c(table),
    }


def coverage_md(table):
    """docs/coverage-nccl.md: what a program may ask of NCCL in the workers."""
    refused = [r for r in table.rows if r.kind == "refuse"]
    out = [f"<!-- Made by tools/apigen.py from {SOURCE}: change that, not this file. -->\n", "# Coverage of NCCL\n\n",
           f"Every function that NCCL 2.28 exports is on the table `{SOURCE}`: {len(table.rows)} names. When NCCL runs in the\n"
           f"workers ([pool.md](pool.md#nccl-in-the-workers)), {len(table.offered)} of them are supported: `op` is an operation in "
           "a stream, `hand`\nanother call. Each also has its name with a `p` in front. A refused call returns "
           "`ncclInvalidUsage`, and the log names it once.\n\n",
           "| group | names | work | refused |\n|---|---|---|---|\n"]
    for title, rows in table.groups + [("**all**", table.rows)]:
        no = sum(r.kind == "refuse" for r in rows)
        out.append(f"| {title} | {len(rows)} | {len(rows) - no} | {no} |\n")
    for title, rows in table.groups:
        out.append(f"\n## {title[0].upper()}{title[1:]}\n\n")
        for kind in ("op", "hand"):
            names = [r.name for r in rows if r.kind == kind]
            if names:
                out.append(listed(kind, names))
        for reason in sorted({r.reason for r in rows if r.reason}):
            out.append(listed("refused", [r.name for r in refused if r.reason == reason and r in rows]))
            out.append(f"{table.reasons[reason]}\n\n")
        out[-1] = out[-1].rstrip("\n") + "\n"
    return "".join(out)
