"""The client's side: one wire stub a message, and the exported entries that need no hand."""

import re

from . import banner, proto
from .proto import argument_names, c_type, params, resolve, variant
from .table import HANDLES


OBJECTS = ("new", "got", "del")


def wire_type(a):
    """C type of an argument of a wire stub: ids in place of handles."""
    if a.kind in ("handle", "id"):
        return "uint64_t "
    if a.kind == "device":
        return "int "
    if a.kind == "hash":
        return "const unsigned char *"
    if a.kind == "string":
        return "const char *"
    return c_type(a)


LONG = 7  # C parameters of a wire call, with the context; one with more takes structures


def positional(row):
    """C parameters of a wire call, one for each value."""
    out = ["uint64_t ctx"]
    for a in row.args:
        if a.kind == "bytes" and a.direction == "in":
            out += [f"const void *{a.name}", f"size_t {a.name}_size"]
        elif a.kind == "bytes":
            out += [f"void **{a.name}", f"size_t *{a.name}_size"]
        elif a.kind == "ids" and a.direction == "in":
            out += [f"const uint64_t *{a.name}", f"size_t {a.name}_count"]
        elif a.kind == "ids":
            out += [f"uint64_t **{a.name}", f"size_t *{a.name}_count"]
        elif a.kind == "bulk" and a.direction == "in":
            out += [f"const void *{a.name}", f"size_t {a.name}_size"]
        elif a.kind == "bulk":
            out += [f"struct ckc_sink *{a.name}"]
        elif a.direction == "got" or a.kind == "id" and a.direction == "out":
            out.append(f"uint64_t *{a.name}")
        elif a.direction in ("new", "del"):
            out.append(f"uint64_t {a.name}")
        else:
            out.append(wire_type(a) + a.name)
    return out


def takes_structures(row):
    """Its wire call takes the message's structures, by which values have names."""
    return len(positional(row)) > LONG and row.hand_on("client")


def wire_params(row):
    """C parameter list of a wire call."""
    if not takes_structures(row):
        return ", ".join(positional(row))
    out = [f"{row.name}_args *a"]
    if row.bulk_in:
        out += [f"const void *{row.args[-1].name}", f"size_t {row.args[-1].name}_size"]
    if row.kind != "send":
        out.append(f"{row.name}_res *r")
    if row.bulk_out:
        out.append(f"struct ckc_sink *{row.args[-1].name}")
    return ", ".join(out)


def structure_stub(row):
    """ck_wire_NAME of structures: memory that the result owns is the caller's."""
    last = row.args[-1].name
    out = [f"CUresult ck_wire_{row.short}({wire_params(row)})\n{{\n"]
    if row.bulk_in:
        out.append(f"\ta->{last}_length = (u_int){last}_size;\n")
    if row.kind == "send":
        bulk = f"{last}, {last}_size" if row.bulk_in else "NULL, 0"
        out.append(f"\treturn ckc_send(CK_PROC_{row.short}, a, {bulk});\n}}\n\n")
        return "".join(out)
    out.append("\tmemset(r, 0, sizeof(*r));\n")
    if row.bulk_in:
        out.append(f"\treturn ckc_call_bulk(CK_PROC_{row.short}, a, r, {last}, {last}_size, NULL);\n}}\n\n")
    else:
        out.append(f"\treturn ckc_call(CK_PROC_{row.short}, a, r, {last if row.bulk_out else 'NULL'});\n}}\n\n")
    return "".join(out)


def fill(a):
    """Statements that put an input into the arguments."""
    n = a.name
    if a.kind in ("pod", "hash"):
        return f"\tmemcpy(a.{n}, {n}, sizeof(a.{n}));\n"
    if a.kind == "bytes":
        return (f"\ta.{n}.{n}_val = (void *)(uintptr_t){n};\n"
                f"\ta.{n}.{n}_len = (u_int){n}_size;\n")
    if a.kind == "ids":
        return (f"\ta.{n}.{n}_val = (void *)(uintptr_t){n};\n"
                f"\ta.{n}.{n}_len = (u_int){n}_count;\n")
    if a.kind == "string":
        return f"\ta.{n} = (char *)(uintptr_t){n};\n"
    if a.kind == "bulk":
        return f"\ta.{n}_length = (u_int){n}_size;\n"
    return f"\ta.{n} = {n};\n"


def drain(a):
    """Statements that hand an output over on success."""
    n = a.name
    if a.kind == "pod":
        return f"\t\tmemcpy({n}, r.{n}, sizeof(r.{n}));\n"
    if a.kind == "bytes":
        return (f"\t\t*{n} = r.{n}.{n}_val;\n\t\t*{n}_size = r.{n}.{n}_len;\n"
                f"\t\tr.{n}.{n}_val = NULL;\n")
    if a.kind == "ids":
        return (f"\t\t*{n} = r.{n}.{n}_val;\n\t\t*{n}_count = r.{n}.{n}_len;\n"
                f"\t\tr.{n}.{n}_val = NULL;\n")
    if a.kind == "bulk":
        return ""
    ctype = "uint64_t" if a.direction == "got" or a.kind == "id" else a.ctype
    return f"\t\tif ({n})\n\t\t\t*{n} = ({ctype})r.{n};\n"


def wire_stub(row):
    """ck_wire_NAME: encode, send, and for calls wait and decode."""
    n, short = row.name, row.short
    if takes_structures(row):
        return structure_stub(row)
    out = [f"CUresult ck_wire_{short}({wire_params(row)})\n{{\n\t{n}_args a;\n"]
    if row.kind != "send":
        out.append(f"\t{n}_res r;\n\tCUresult err;\n")
    out.append("\n\tmemset(&a, 0, sizeof(a));\n\ta.head.ctx = ctx;\n")
    out += [fill(a) for a in row.ins()]
    if row.kind == "send":
        bulk = f"{row.args[-1].name}, {row.args[-1].name}_size" if row.bulk_in else "NULL, 0"
        out.append(f"\treturn ckc_send(CK_PROC_{short}, &a, {bulk});\n}}\n\n")
        return "".join(out)
    sink = row.args[-1].name if row.bulk_out else "NULL"
    out.append("\tmemset(&r, 0, sizeof(r));\n")
    if row.bulk_in:
        bulk = row.args[-1].name
        out.append(f"\terr = ckc_call_bulk(CK_PROC_{short}, &a, &r, {bulk}, {bulk}_size, NULL);\n")
    else:
        out.append(f"\terr = ckc_call(CK_PROC_{short}, &a, &r, {sink});\n")
    drains = [drain(a) for a in row.outs()]
    always = any(a.kind in ("bytes", "ids") for a in row.outs())
    if any(drains):
        body = "".join(drains)
        if always:
            out.append(re.sub(r"^\t", "", body, flags=re.M))
        else:
            out.append(f"\tif (err == CUDA_SUCCESS) {{\n{body}\t}}\n")
    out.append("\treturn err;\n}\n\n")
    return "".join(out)


def conversions(row):
    """Locals, and statements that turn handles and devices into wire values."""
    decl, code = [], []
    for a in row.args:
        if a.direction in ("new", "got"):
            continue
        if a.kind == "handle":
            decl.append(f"\tuint64_t {a.name}_id;\n")
            code.append(f"\terr = ckc_{HANDLES[a.ctype]}_id({a.name}, &{a.name}_id);\n"
                        "\tif (err)\n\t\treturn err;\n")
        elif a.kind == "device":
            decl.append(f"\tint {a.name}_id;\n")
            code.append(f"\terr = ckc_device_id({a.name}, &{a.name}_id);\n"
                        "\tif (err)\n\t\treturn err;\n")
    return "".join(decl), "".join(code)


def null_checks(row):
    """Refuse NULL for structures and the first output; other outputs may be NULL (drain() looks)."""
    outs = [a.name for a in row.outs()]
    names = [a.name for a in row.args
             if a.kind == "pod" or a.name in outs[:1] or a.direction in ("new", "got")]
    return "".join(f"\tif (!{n})\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n" for n in names)


def exported(row):
    """The public entry of a regular call."""
    decl, code = conversions(row)
    names = [("&" if a.direction == "got" else "") + f"{a.name}_id"
             if a.kind in ("handle", "device") else a.name for a in row.args]
    args = ", ".join(["ctx"] + names)
    decl += "".join(f"\tuint64_t {a.name}_id = 0;\n" for a in row.args
                    if a.direction in ("new", "got"))
    enter = "ckc_enter_any(&ctx)" if "noctx" in row.flags else "ckc_enter(&ctx)"
    out = [f"CK_EXPORT CUresult {row.name}({params(row)})\n{{\n\tuint64_t ctx;\n{decl}"
           f"\tCUresult err = {enter};\n\n\tif (err)\n\t\treturn err;\n",
           null_checks(row), code]
    if row.kind == "cached":
        out.append(cached_tail(row, args))
    elif any(a.direction in OBJECTS for a in row.args):
        out.append(object_tail(row, args))
    else:
        out.append(f"\treturn ck_wire_{row.short}({args});\n")
    out.append("}\n\n")
    return "".join(out)


def object_tail(row, args):
    """The end of a call that makes, reports or ends objects."""
    made, failed, done = [], [], []
    for a in row.args:  # one of them at most: Table.check
        n, kind = a.name, f"CK_OBJECT_{HANDLES.get(a.ctype, '').upper()}"
        if a.direction == "new":
            made += [f"\terr = ckc_object_make({kind}, &{n}_id);\n\tif (err)\n\t\treturn err;\n"]
            failed += [f"\t\tckc_object_end({kind}, {n}_id);\n"]
            done += [f"\t*{n} = ({a.ctype})(uintptr_t)ckc_object_by_id({kind}, {n}_id);\n"]
        elif a.direction == "got":
            done += [f"\t*{n} = ({a.ctype})(uintptr_t)ckc_object_named({kind}, {n}_id);\n"
                     f"\tif (!*{n})\n\t\treturn CUDA_ERROR_OUT_OF_MEMORY;\n"]
        elif a.direction == "del":
            done += [f"\tckc_object_end({kind}, {n}_id);\n"]
    fail = ("\tif (err) {\n" + "".join(failed) + "\t\treturn err;\n\t}\n" if failed
            else "\tif (err)\n\t\treturn err;\n")
    return ("".join(made) + f"\terr = ck_wire_{row.short}({args});\n" + fail
            + "".join(done) + "\treturn CUDA_SUCCESS;\n")


def cached_tail(row, args):
    out = row.outs()[0]
    keys = []
    for a in row.ins():
        n = f"{a.name}_id" if a.kind in ("handle", "device") else a.name
        keys.append(f"(uint64_t){n}")
    return (f"\tconst uint64_t key[] = {{ CK_PROC_{row.short}, ctx, {', '.join(keys)} }};\n\n"
            f"\tif (ckc_cache_get(key, sizeof(key), {out.name}, sizeof(*{out.name})))\n"
            "\t\treturn CUDA_SUCCESS;\n"
            f"\terr = ck_wire_{row.short}({args});\n"
            "\tif (!err)\n"
            f"\t\tckc_cache_put(key, sizeof(key), {out.name}, sizeof(*{out.name}));\n"
            "\treturn err;\n")


def stubs_c(table):
    """Everything of the client that the table determines."""
    out = [banner("rpc/driver.api"), '#include <stdlib.h>\n#include <string.h>\n\n'
           '#include "client/link/stub.h"\n#include "gen/api.h"\n#include "gen/wire.h"\n\n']
    for r in table.rows:
        if r.wire:
            out.append(wire_stub(r))
            if r.exported and not r.hand_on("client"):
                out.append(exported(r))
        elif r.kind in ("alias", "ptsz"):
            out.append(variant(table, r))
        elif r.kind == "refuse":
            out.append(f"CK_REFUSE({r.name})\n\n")
    return "".join(out)


def counted_c(table):
    """The calls once more, counted: what cuGetProcAddress gives when CRICKET_STATS is on."""
    rows = [r for r in table.rows
            if r.exported and r.kind != "refuse" and r.since.isdigit() and int(r.since)]
    out = [banner("rpc/driver.api"), '#include "client/link/stats.h"\n#include "gen/api.h"\n\n'
           "const char *const ckc_stats_names[] = {\n"]
    out += [f'\t"{r.name}",\n' for r in rows]
    out.append("};\n\nconst unsigned int ckc_stats_name_count = "
               f"{len(rows)};\n\nstruct ckc_stats_row ckc_stats_rows[{len(rows)}];\n\n")
    for i, r in enumerate(rows):
        text = params(resolve(table, r))
        out.append(f"CUresult ck_counted_{r.name}({text})\n{{\n\tstruct ckc_stats_call call;\n"
                   f"\tCUresult err;\n\n\tckc_stats_begin(&call, {i});\n"
                   f"\terr = {r.name}({', '.join(argument_names(text))});\n"
                   "\tckc_stats_end(&call);\n\treturn err;\n}\n\n")
    return "".join(out)


WATCHED = r"""#include "client/cupti/call_numbers.h"
#include "client/wire/profile.h"
#include "gen/api.h"
#include "util/util.h"

/* Weak: a function of libcuda/ comes first. */
#define CALL __attribute__((weak)) CK_EXPORT
#define BODY __attribute__((weak, visibility("hidden")))

"""


def watched_c(table):
    """The exported calls: each is its body, and reports it to a profiler if there is one."""
    out = [banner("rpc/driver.api"), WATCHED]
    for r in table.rows:
        if not proto.is_watched(r):
            continue
        text = proto.params(proto.resolve(table, r))
        names = proto.argument_names(text)
        body = f"ckc_do_{r.name}({', '.join(names)})"
        fields = "".join(f"\t\t{p.strip()};\n" for p in text.split(",")) if names else ""
        given = f"\tstruct {{\n{fields}\t}} given = {{{', '.join(names)}}};\n" if names else ""
        out.append(f"BODY CUresult ckc_do_{r.name}({text});\n"
                   f"CALL CUresult {r.name}({text})\n{{\n"
                   f"\tif (likely(!ckc_profile_watches()))\n\t\treturn {body};\n\n{given}"
                   f"\tstruct ckc_call call = {{\"{r.name}\", CKC_CALL_{r.name}, {'&given' if names else 'NULL'}, 0}};\n\n"
                   f"\tckc_profile_enter(&call);\n\tcall.result = {body};\n\tckc_profile_leave(&call);\n"
                   "\treturn call.result;\n}\n\n")
    return "".join(out)


def wire_h(table):
    """Prototypes of the wire stubs."""
    out = [banner("rpc/driver.api"), "#ifndef CK_GEN_WIRE_H\n#define CK_GEN_WIRE_H\n\n"
           '#include "cricket.h"\n#include "cuda/types.h"\n#include "gen/numbers.h"\n\n'
           "struct ckc_sink;\n\n"]
    out += [f"CUresult ck_wire_{r.short}({wire_params(r)});\n" for r in table.rows if r.wire]
    out.append("\n#endif\n")
    return "".join(out)
