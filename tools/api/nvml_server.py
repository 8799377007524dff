"""The server's side of NVML: the library's functions by name, and one handler a message."""

from . import banner
from .nvml import SOURCE


def calls(table):
    return [r for r in table.rows if r.kind == "call"]


def signature(row):
    return f"CUresult ck_serve_{row.name}(struct cks_request *q, {row.name}_args *a, {row.name}_res *res)"


def nvml_h(table):
    """The functions of the library, and the handlers."""
    out = [banner(SOURCE), "#ifndef CK_GEN_NVML_H\n#define CK_GEN_NVML_H\n\n"
           '#include "cricket.h"\n#include "cuda/types.h"\n#include "gen/nvml_api.h"\n\n'
           "struct cks_request;\n\n/* NVML's functions; NULL where the library has none. */\n"
           "struct ck_nvml {\n"]
    for r in calls(table):
        pointer = r.prototype().replace(f" {r.name}(", f" (*{r.name})(")
        out.append(f"\t{pointer};\n")
    out.append("};\n\nextern struct ck_nvml ck_nvml;\n\n"
               "struct ck_nvml_symbol {\n\tconst char *name;\n\tvoid **slot;\n};\n\n"
               "extern const struct ck_nvml_symbol ck_nvml_symbols[];\t"
               "/* ends with a NULL name */\n\n")
    out += [signature(r) + ";\n" for r in calls(table)]
    out.append("\n#endif\n")
    return "".join(out)


# What is about processes of others too, and cannot be told apart.
ALL_ONLY = ("\tif (cks_nvml_is_narrow()) {\n\t\tres->nvml = NVML_ERROR_NO_PERMISSION;\n"
            "\t\treturn CUDA_SUCCESS;\n\t}\n")


def argument(row, a):
    """(declarations, before the call, arguments of the call, after it) of one argument."""
    n, val = a.name, f"res->{a.name}.{a.name}_val"
    done = "\tif (!res->nvml)\n"
    length = f"res->{n}.{n}_len"
    if a.kind == "device" and not a.taken:
        find = "cks_nvml_device_itself" if "itself" in row.flags else "cks_nvml_device_find"
        return (f"\tnvmlDevice_t {n};\n",
                f"\tif (!{find}(a->{n}, &{n})) {{\n"
                "\t\tres->nvml = NVML_ERROR_INVALID_ARGUMENT;\n\t\treturn CUDA_SUCCESS;\n\t}\n",
                [n], "")
    if a.kind == "device":
        return (f"\tnvmlDevice_t {n} = NULL;\n", "", [f"&{n}"],
                f"{done}\t\tres->nvml = cks_nvml_device_put({n}, &res->{n});\n")
    if a.kind == "pod":
        known = ""
        if a.given:
            known = (f"\tif (!ck_{a.ctype}_known(a->{n})) {{\n"
                     "\t\tres->nvml = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;\n"
                     f"\t\treturn CUDA_SUCCESS;\n\t}}\n\tmemcpy({n}, a->{n}, sizeof(a->{n}));\n")
        back = f"{done}\t\tmemcpy(res->{n}, {n}, sizeof(res->{n}));\n" if a.taken else ""
        return (f"\t_Alignas(16) unsigned char {n}[{a.size}] = {{ 0 }};\n",
                known, [f"(struct {a.ctype} *){n}"], back)
    if a.kind == "text":
        return (f"\tunsigned int {a.count} = cks_nvml_room(a->{a.count}, 1, &{val});\n", "",
                [val, a.count],
                f"{done}\t\t{length} = cks_nvml_length({val}, {a.count});\n")
    if a.kind == "words":
        return (f"\tunsigned int {a.count} = cks_nvml_room(a->{a.count}, 8, &{val});\n", "",
                [a.count, f"(unsigned long *){val}"], f"{done}\t\t{length} = {a.count} * 8;\n")
    if a.kind == "values":
        return (f"\tunsigned int {a.count} = cks_nvml_copy(a->{n}.{n}_val, a->{n}.{n}_len, "
                f"{a.size}, &{val});\n", "",
                [f"(int){a.count}", f"({a.element} *){val}"],
                f"{done}\t\t{length} = {a.count} * {a.size};\n")
    if a.kind in ("list", "array"):
        return listed(row, a, val, length)
    if a.kind == "string" or not a.taken:
        return "", "", [f"a->{n}"], ""
    ctype = "int" if a.kind == "enum" else a.ctype
    return f"\t{ctype} {n} = 0;\n", "", [f"&{n}"], f"\tres->{n} = {n};\n"


def listed(row, a, val, length):
    """The same for an array with its number of elements behind a pointer."""
    pair = [f"&res->{a.count}", f"({a.element} *){val}"]
    pids = "pids" in row.flags
    room = "cks_nvml_pids_room" if pids else "cks_nvml_room"
    after = (f"\tcks_nvml_pids(&(struct cks_nvml_pids){{.list = {val}, .size = {a.size}, .room = room, "
             f".asked = a->{a.count}, .result = &res->nvml, .count = &res->{a.count}, "
             f".length = &{length}}});\n" if pids else
             f"\tif (!res->nvml)\n\t\t{length} = ck_min(res->{a.count}, room) * {a.size};\n")
    return (f"\tunsigned int room = {room}(a->{a.count}, {a.size}, &{val});\n",
            f"\tres->{a.count} = room;\n", pair if a.kind == "list" else pair[::-1], after)


def handler(row):
    decl, before, call, after = [], [], [], []
    for a in row.args:
        d, b, c, t = argument(row, a)
        decl.append(d)
        before.append(b)
        call += c
        after.append(t)
    return (f"{signature(row)}\n{{\n" + "".join(decl) + "\n\t(void)q;\n\t(void)a;\n"
            + (ALL_ONLY if "others" in row.flags else "")
            + f"\tif (!cks_nvml_begin((void **)&ck_nvml.{row.name}, &res->nvml))\n"
            "\t\treturn CUDA_SUCCESS;\n" + "".join(before)
            + f"\tres->nvml = ck_nvml.{row.name}({', '.join(call)});\n" + "".join(after)
            + "\treturn CUDA_SUCCESS;\n}\n\n")


def handlers_c(table):
    out = [banner(SOURCE), '#include <string.h>\n\n#include "gen/nvml_server.h"\n'
           '#include "server/nvml/nvml.h"\n#include "util/util.h"\n\nstruct ck_nvml ck_nvml;\n\n'
           "const struct ck_nvml_symbol ck_nvml_symbols[] = {\n"]
    out += [f'\t{{ "{r.name}", (void **)&ck_nvml.{r.name} }},\n' for r in calls(table)]
    out.append("\t{ 0 }\n};\n\n")
    for r in calls(table):
        if not r.hand_on("server"):
            out.append(handler(r))
    return "".join(out)
