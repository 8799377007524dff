"""The server's side: the driver's functions by name, and one handler a message."""

from . import banner
from .proto import params
from .table import HANDLES


def driver_rows(table):
    """Rows whose driver function the server may call."""
    return [r for r in table.rows if r.exported and r.kind in
            ("call", "send", "cached", "local", "hand")]


def driver_h(table):
    out = [banner("rpc/driver.api"), "#ifndef CK_GEN_DRIVER_H\n#define CK_GEN_DRIVER_H\n\n"
           '#include "cuda/types.h"\n\n/* The driver library\'s functions; NULL where it has none. */\n'
           "struct ck_driver {\n"]
    out += [f"\tCUresult (*{r.name})({params(r)});\n" for r in driver_rows(table)]
    out.append("};\n\nextern struct ck_driver ck_driver;\n\n"
               "struct ck_driver_symbol {\n\tconst char *name;\n\tvoid **slot;\n};\n\n"
               "extern const struct ck_driver_symbol ck_driver_symbols[];\t"
               "/* ends with a NULL name */\n\n#endif\n")
    return "".join(out)


def handlers_h(table):
    out = [banner("rpc/driver.api"), "#ifndef CK_GEN_HANDLERS_H\n#define CK_GEN_HANDLERS_H\n\n"
           '#include "cricket.h"\n#include "cuda/types.h"\n#include "gen/numbers.h"\n\n'
           "struct cks_request;\n\n/* Bodies by hand; @res is NULL for one-way messages. */\n"]
    for r in table.rows:
        if r.wire and r.hand_on("server"):
            out.append(signature(r) + ";\n")
    out.append("\ntypedef CUresult (*ck_handler)(struct cks_request *q, void *args, void *res);\n"
               "extern const ck_handler ck_handlers[CK_PROC_END];\n\n#endif\n")
    return "".join(out)


def signature(row):
    res = "void *res" if row.kind == "send" else f"{row.name}_res *res"
    return f"CUresult ck_serve_{row.short}(struct cks_request *q, {row.name}_args *a, {res})"


def handler(row):
    """A regular handler: find the objects, call the driver, note new and gone objects."""
    decl, find, after, call = [], [], [], []
    for a in row.args:
        n = a.name
        if a.kind == "handle" and a.direction not in ("new", "got"):
            tag = HANDLES[a.ctype]
            decl.append(f"\t{a.ctype} {n};\n")
            find.append(f"\tif (!cks_{tag}_find(q, a->{n}, &{n}))\n"
                        "\t\treturn CUDA_ERROR_INVALID_HANDLE;\n")
            # A one-way end cannot fail; one that waits may, and the object is then still there.
            if a.direction == "del" and row.kind == "send":
                find.append(f"\tcks_handle_remove(q, a->{n});\n")
            elif a.direction == "del":
                after.append(f"\tif (!err)\n\t\tcks_handle_remove(q, a->{n});\n")
            call.append(n)
        elif a.direction == "new":
            decl.append(f"\t{a.ctype} {n} = 0;\n")
            after.append(f"\tif (!err)\n\t\terr = cks_{HANDLES[a.ctype]}_put(q, a->{n}, {n});\n")
            call.append(f"&{n}")
        elif a.direction == "got":
            decl.append(f"\t{a.ctype} {n} = 0;\n")
            after.append(f"\tif (!err)\n\t\terr = cks_handle_name(q, "
                         f"CK_KIND_{HANDLES[a.ctype].upper()}, (void *)(uintptr_t){n}, 0, "
                         f"&res->{n});\n")
            call.append(f"&{n}")
        elif a.kind == "pod":
            # Nothing aligns a structure inside a message for the driver.
            decl.append(f"\t{a.ctype} {n};\n")
            holder = "res" if a.direction == "out" else "a"
            find.append(f"\t_Static_assert(sizeof({n}) == sizeof({holder}->{n}), "
                        '"it travels as its bytes");\n')
            if a.direction == "out":
                find.append(f"\tmemset(&{n}, 0, sizeof({n}));\n")
                after.append(f"\tmemcpy(res->{n}, &{n}, sizeof({n}));\n")
            else:
                find.append(f"\tmemcpy(&{n}, a->{n}, sizeof({n}));\n")
            call.append(f"&{n}")
        elif a.direction == "out":
            decl.append(f"\t{a.ctype} {n} = 0;\n")
            after.append(f"\tres->{n} = {n};\n")
            call.append(f"&{n}")
        else:
            call.append(f"({a.ctype})a->{n}")
    if not after:
        tail = f"\treturn ck_driver.{row.name}({', '.join(call)});\n"
    else:
        decl.append("\tCUresult err;\n")
        tail = (f"\terr = ck_driver.{row.name}({', '.join(call)});\n" + "".join(after)
                + "\treturn err;\n")
    return (f"static {signature(row)}\n{{\n" + "".join(decl) + "\n\t(void)q;\n\t(void)a;\n"
            f"\t(void)res;\n\tif (!ck_driver.{row.name})\n\t\treturn CUDA_ERROR_NOT_SUPPORTED;\n"
            + "".join(find) + tail + "}\n\n")


def handlers_c(table):
    out = [banner("rpc/driver.api"), '#include <string.h>\n\n#include "gen/driver.h"\n'
           '#include "gen/handlers.h"\n' + ('#include "gen/nvml_server.h"\n' if table.more else "")
           + '#include "server/session/handles.h"\n\nstruct ck_driver ck_driver;\n\n'
           "const struct ck_driver_symbol ck_driver_symbols[] = {\n"]
    out += [f'\t{{ "{r.name}", (void **)&ck_driver.{r.name} }},\n' for r in driver_rows(table)]
    out.append("\t{ 0 }\n};\n\n")
    rows = [r for r in table.rows if r.wire]
    out += [handler(r) for r in rows if not r.hand_on("server")]
    out.append("const ck_handler ck_handlers[CK_PROC_END] = {\n")
    out += [f"\t[CK_PROC_{r.short}] = (ck_handler)ck_serve_{r.short},\n" for r in table.messages()]
    out.append("};\n")
    return "".join(out)
