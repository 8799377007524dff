"""cricket.x, and the table of procedures with the fields that trace printers show."""

from . import banner
from .table import PROPERTIES

PRINT = {"scalar": "CK_FIELD_U64", "enum": "CK_FIELD_INT", "device": "CK_FIELD_INT",
         "handle": "CK_FIELD_ID", "id": "CK_FIELD_ID", "hash": "CK_FIELD_HASH",
         "ids": "CK_FIELD_IDS",
         "bytes": "CK_FIELD_BYTES", "string": "CK_FIELD_STRING", "pod": "CK_FIELD_POD",
         "bulk": "CK_FIELD_BULK"}
SCALAR_PRINT = {"int": "CK_FIELD_INT", "unsigned int": "CK_FIELD_UINT", "float": "CK_FIELD_FLOAT",
                "unsigned char": "CK_FIELD_UINT", "unsigned short": "CK_FIELD_UINT",
                "cuuint32_t": "CK_FIELD_UINT", "CUdeviceptr": "CK_FIELD_POINTER"}


def struct(name, head, args, own, result):
    """A message's structure; OWN: for our coders, which move bulk data themselves."""
    fields = [head]
    for a in args:
        if a.kind == "bulk" and not own:
            fields += [f"opaque {a.name}<>"] + ["int moved"] * result
        else:
            fields.append(a.xdr)
    return f"struct {name} {{\n" + "".join(f"\t{f};\n" for f in fields) + "};\n"


ABOUT = """/*
 * One-way messages get no reply (RFC 5531, batching). moved, in a result that carries data, is the
 * CUresult of moving them. docs/protocol.md has the rest, and clients in C and in Python.
 */
"""
ABOUT_OWN = """/*
 * rpc/cricket.x for the coders of this project: of the data that end a message, only the length
 * word is in its structure. The bytes on the wire are the same.
 */
"""


def cricket_x(table, control, own=False):
    """The protocol: control.x, then one argument and one result structure a message.

    OWN: the form for our own build, whose structures end in the length of bulk data.
    """
    out = [banner("rpc/control.x and rpc/driver.api"), ABOUT_OWN if own else ABOUT, control]
    rows = table.messages()
    for r in rows:
        out.append(f"\n/* {r.number} {r.name}{', one-way' if r.kind == 'send' else ''} */\n")
        out.append(struct(f"{r.name}_args", "ck_head head", r.ins(), own, False))
        if r.kind != "send":
            out.append(struct(f"{r.name}_res", "ck_result head", r.outs(), own, True))
    out.append("\nprogram CRICKET {\n\tversion CRICKET_V1 {\n")
    out.append("\t\tck_hello_res CK_HELLO(ck_hello_args) = 1;\n"
               "\t\tck_join_res CK_JOIN(ck_join_args) = 2;\n"
               "\t\tvoid CK_PING(void) = 3;\n\t\tvoid CK_BYE(void) = 4;\n"
               "\t\tck_link_res CK_LINK(ck_link_args) = 6;\n"
               "\t\tck_files_res CK_FILES(ck_files_args) = 7;\n"
               "\t\tck_direct_res CK_DIRECT(ck_direct_args) = 8;\n"
               "\t\tck_offer_res CK_OFFER(ck_offer_args) = 9;\n"
               "\t\tck_ended_res CK_ENDED(ck_ended_args) = 87;\n")
    for r in rows:
        res = "void" if r.kind == "send" else f"{r.name}_res"
        out.append(f"\t\t{res} PROC_{r.name}({r.name}_args) = {r.number};\n")
    out.append("\t} = 1;\n} = 99;\n")
    return "".join(out)


def field_list(name, struct_name, args):
    out = [f"static const struct ck_field {name}[] = {{\n"]
    for a in args:
        kind = SCALAR_PRINT.get(a.ctype, PRINT[a.kind]) if a.kind == "scalar" else PRINT[a.kind]
        member = a.name + ("_length" if a.kind == "bulk" else "")
        out.append(f'\t{{ "{a.name}", {kind}, offsetof({struct_name}, {member}) }},\n')
    out.append("\t{ 0 }\n};\n")
    return "".join(out)


def properties(row):
    """The fields of struct ck_proc that are not 0 for the message."""
    found = {"one_way": row.kind == "send", "bulk_in": row.bulk_in, "bulk_out": row.bulk_out}
    found.update((p, p in row.flags) for p in PROPERTIES)
    return [f".{p} = true" for p, true in found.items() if true] + [f".function = {row.function}"] * bool(row.function)


def procs_c(table):
    """The array of procedures, indexed by number, for both ends."""
    rows = table.messages()
    out = [banner("rpc/driver.api"), '#include <stddef.h>\n\n#include "rpc/proc.h"\n'
           '#include "cricket.h"\n\n']
    for r in rows:
        out.append(field_list(f"{r.name}_in", f"{r.name}_args", r.ins()))
        if r.outs():
            out.append(field_list(f"{r.name}_out", f"{r.name}_res", r.outs()))
    out.append("\nconst struct ck_proc ck_procs[CK_PROC_END] = {\n")
    for r in rows:
        res = f"{r.name}_res"
        reply = (f"(xdrproc_t)xdr_{res}, sizeof({res})" if r.kind != "send" else "NULL, 0")
        outs = f"{r.name}_out" if r.outs() else "NULL"
        out.append(f'\t[{r.number}] = {{ "{r.name}", (xdrproc_t)xdr_{r.name}_args, '
                   f"sizeof({r.name}_args), {reply},\n\t\t.in = {r.name}_in, .out = {outs}"
                   + "".join(f", {p}" for p in properties(r)) + " },\n")
    out.append("};\n")
    return "".join(out)


def numbers_h(table):
    """Procedure numbers and the end of the array."""
    end = max(r.number for r in table.messages()) + 1
    out = [banner("rpc/driver.api"), "#ifndef CK_GEN_NUMBERS_H\n#define CK_GEN_NUMBERS_H\n\n"]
    out += [f"#define CK_PROC_{r.short} {r.number}\n" for r in table.messages()]
    out.append(f"#define CK_PROC_END {end}\n\n#endif\n")
    return "".join(out)
