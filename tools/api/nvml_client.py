"""The client's side of NVML: the exported functions."""

from . import banner
from .nvml import SOURCE, alias_body, refusal


def checks(row):
    """Arguments that can be refused here: NULL, another device, another version."""
    out = []
    for a in row.args:
        n = a.name
        if a.kind == "device" and not a.taken:
            out.append(f"\terr = ckc_nvml_device_id({n}, &a.{n});\n\tif (err)\n\t\treturn err;\n")
            continue
        names = [a.count] if a.kind in ("list", "array") else [n]
        if a.taken or a.kind in ("string", "pod"):
            out.append("".join(f"\tif (!{x})\n\t\treturn NVML_ERROR_INVALID_ARGUMENT;\n"
                               for x in names))
        if a.kind == "pod" and a.given:
            out.append(f"\tif (!ck_{a.ctype}_known({n}))\n"
                       "\t\treturn NVML_ERROR_ARGUMENT_VERSION_MISMATCH;\n")
        if a.kind == "values":
            out.append(f"\tif ({a.count} <= 0 || {a.count} > CK_BYTES_MAX / {a.size})\n"
                       "\t\treturn NVML_ERROR_INVALID_ARGUMENT;\n")
    return "".join(out)


def fill(a):
    """Statements that put an argument into the message."""
    n = a.name
    if a.kind in ("list", "array"):
        return f"\ta.{a.count} = {n} ? *{a.count} : 0;\n"
    if a.kind in ("text", "words"):
        return f"\ta.{a.count} = {a.count};\n"
    if a.kind == "values":
        return (f"\ta.{n}.{n}_val = (char *){n};\n"
                f"\ta.{n}.{n}_len = (u_int){a.count} * {a.size};\n")
    if a.kind == "string":
        return f"\ta.{n} = (char *)(uintptr_t){n};\n"
    if a.kind == "pod" and a.given:
        return f"\tmemcpy(a.{n}, {n}, ckc_nvml_size({n}));\n"
    return f"\ta.{n} = {n};\n" if a.given and a.kind != "device" else ""


def drain(a):
    """Statements that hand an output over on success."""
    n, got = a.name, f"r.{a.name}.{a.name}"
    if a.kind == "text":
        return f"\t\terr = ckc_nvml_text({n}, {a.count}, {got}_val, {got}_len);\n"
    if a.kind == "values":
        return f"\t\tckc_nvml_bytes({n}, a.{n}.{n}_len, {got}_val, {got}_len);\n"
    if a.kind == "words":
        return (f"\t\tckc_nvml_bytes({n}, {a.count} * sizeof(*{n}), {got}_val, {got}_len);\n")
    if a.kind in ("list", "array"):
        return (f"\t\tckc_nvml_bytes({n}, (size_t)a.{a.count} * {a.size}, {got}_val, "
                f"{got}_len);\n")
    if a.kind == "pod":
        length = f"ckc_nvml_size({n})" if a.given else f"sizeof(r.{n})"
        return f"\t\tmemcpy({n}, r.{n}, {length});\n"
    if a.kind == "device":
        return f"\t\t*{n} = ckc_nvml_device(r.{n});\n"
    return f"\t\t*{n} = r.{n};\n"


def function(row):
    """The exported entry of a call."""
    n = row.name
    out = [f"CK_EXPORT {row.prototype()}\n{{\n\t{n}_args a;\n\t{n}_res r;\n"
           "\tnvmlReturn_t err = ckc_nvml_enter();\n\n\tif (err)\n\t\treturn err;\n"
           "\tmemset(&a, 0, sizeof(a));\n\tmemset(&r, 0, sizeof(r));\n", checks(row)]
    out += [fill(a) for a in row.args]
    out.append(f"\terr = ckc_do_{n}(&a, &r);\n" if "client" in row.flags
               else f"\terr = ckc_nvml_ask(CK_PROC_{n}, &a, &r, &r.nvml);\n")
    body = "".join(drain(a) for a in row.args if a.taken)
    if body:
        out.append(f"\tif (!err) {{\n{body}\t}}\n")
    for a in row.args:
        if a.kind in ("list", "array"):
            out.append("\tif (!err || err == NVML_ERROR_INSUFFICIENT_SIZE)\n"
                       f"\t\t*{a.count} = r.{a.count};\n")
    if any(f.kind == "bytes" for f in row.outs()):
        out.append(f"\txdr_free((xdrproc_t)xdr_{n}_res, &r);\n")
    return "".join(out) + "\treturn err;\n}\n\n"


def bodies_h(table):
    """Prototypes of the functions by hand that make a call."""
    out = [banner(SOURCE), "#ifndef CK_GEN_NVML_BODIES_H\n#define CK_GEN_NVML_BODIES_H\n\n"
           '#include "cricket.h"\n#include "cuda/nvml.h"\n\n']
    out += [f"nvmlReturn_t ckc_do_{r.name}({r.name}_args *a, {r.name}_res *r);\n" for r in table.rows
            if "client" in r.flags]
    return "".join(out) + "\n#endif\n"


def stubs_c(table):
    """Everything of the client that the table determines."""
    out = [banner(SOURCE), '#include <string.h>\n\n#include "client/nvml/nvml.h"\n#include "client/link/stub.h"\n#include "cricket.h"\n'
           '#include "gen/nvml_api.h"\n#include "gen/nvml_bodies.h"\n#include "gen/numbers.h"\n#include "util/util.h"\n\n']
    for row in table.rows:
        if row.kind == "call":
            out.append(function(row))
        elif row.kind == "alias":
            out.append(f"CK_EXPORT {alias_body(table, row)}")
        elif row.kind in ("refuse", "deny"):
            out.append(f"CK_NVML_REFUSE({row.name}, {refusal(row)})\n\n")
    return "".join(out)
