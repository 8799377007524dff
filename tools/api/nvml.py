"""What both sides share of NVML: prototypes, numbers of versions, and the page of coverage."""

from . import banner
from .proto import listed

SOURCE = "rpc/nvml.api"


def versioned(table):
    """Types that begin with a version word."""
    return [(t, v) for t, (_, v) in sorted(table.types.items()) if v]


def api_h(table):
    """Prototypes of every call, and checks of version words."""
    out = [banner(SOURCE), "#ifndef CK_GEN_NVML_API_H\n#define CK_GEN_NVML_API_H\n\n"
           '#include <stdbool.h>\n#include <string.h>\n\n#include "cuda/nvml.h"\n\n']
    out += [f"struct {t};\n" for t in sorted(table.types)]
    out.append("\n")
    out += [f"{r.prototype()};\n" for r in table.rows if r.kind in ("call", "local")]
    out += [f"{alias(table, r)};\n" for r in table.rows if r.kind == "alias"]
    out.append("\n/* Whether a structure begins with a version word that its type has. */\n")
    for name, versions in versioned(table):
        test = " || ".join(f"v == 0x{v:08x}u" for v in versions)
        out.append(f"static inline bool ck_{name}_known(const void *p)\n{{\n\tunsigned int v;\n\n"
                   f"\tmemcpy(&v, p, sizeof(v));\n\treturn {test};\n}}\n\n")
    out.append("#endif\n")
    return "".join(out)


def alias(table, row):
    """Declaration of another name of a call."""
    target = table.names[row.target]
    return target.prototype().replace(f" {target.name}(", f" {row.name}(")


def alias_body(table, row):
    """Definition of the same."""
    args = ", ".join(p.replace("*", " ").split()[-1] for a in table.names[row.target].args for p in a.c())
    return f"{alias(table, row)}\n{{\n\treturn {row.target}({args});\n}}\n\n"


def refusal(row):
    """The result of a call that both libraries refuse."""
    return "NVML_ERROR_NOT_SUPPORTED" if row.kind == "refuse" else "NVML_ERROR_NO_PERMISSION"


def exports(table):
    """Lines of a linker version script."""
    return "".join(f"\t\t{r.name};\n" for r in table.rows)


def coverage_md(table):
    """docs/coverage-nvml.md: what a client may ask of NVML."""
    groups = [(title, rows) for title, rows in table.groups if rows]
    count = {k: sum(r.kind == k for r in table.rows)
             for k in ("call", "local", "alias", "refuse", "deny")}
    work = count["call"] + count["local"] + count["alias"]
    out = [f"<!-- Made by tools/apigen.py from {SOURCE}: change that, not this file. -->\n",
           "# Coverage of NVML\n\n",
           "Every name of NVIDIA's management library (`nvml.h` of CUDA 13.5) is on the table\n"
           f"`{SOURCE}`. Of {len(table.rows)} names {work} work: `call` asks the server's library,\n"
           "`local` is answered by the client, `alias` is another name of a call. `refuse`: what a\n"
           "client cannot have, `NVML_ERROR_NOT_SUPPORTED`. `deny`: what would change the GPU for\n"
           "everybody, `NVML_ERROR_NO_PERMISSION`.\n\n",
           "| group | names | work | refused | denied |\n|---|---|---|---|---|\n"]
    for title, rows in groups + [("**all**", table.rows)]:
        refused = sum(r.kind == "refuse" for r in rows)
        denied = sum(r.kind == "deny" for r in rows)
        out.append(f"| {title} | {len(rows)} | {len(rows) - refused - denied} | {refused} "
                   f"| {denied} |\n")
    for title, rows in groups:
        out.append(f"\n## {title[0].upper()}{title[1:]}\n\n")
        for kind in ("call", "local", "alias", "refuse", "deny"):
            names = [r.name for r in rows if r.kind == kind]
            if names:
                out.append(listed(kind, names))
        out[-1] = out[-1].rstrip("\n") + "\n"
    return "".join(out)
