"""The emulated driver's NVML: every name of the table. A function that emu/ or libcuda/ has comes first."""

from . import banner
from .nvml import SOURCE, alias_body, refusal

HEAD = """#include "emu/nvml/nvml.h"
#include "util/util.h"

#define CALL __attribute__((weak)) CK_EXPORT

#define REFUSE(name, code) \\
	nvmlReturn_t name(void); \\
	CALL nvmlReturn_t name(void) \\
	{ \\
		nvmlReturn_t err = ck_emu_nvml_lacks(""); \\
\\
		return err == NVML_ERROR_NOT_SUPPORTED ? code : err; \\
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"

"""


def unsupported(row):
    """A call that is checked, and then not supported."""
    devices = [a.name for a in row.args if a.kind == "device" and not a.taken]
    outs = [a.count if a.kind in ("list", "array") else a.name for a in row.args if a.taken or a.kind in ("string", "pod")]
    out = f"{' && '.join(outs[:-1])} ? {outs[-1]} : NULL" if len(outs) > 1 else outs[0] if outs else '""'
    check = f"ck_emu_nvml_device_lacks({devices[0]}, {out})" if devices else f"ck_emu_nvml_lacks({out})"
    return f"CALL {row.prototype()}\n{{\n\treturn {check};\n}}\n\n"


def emu_nvml_c(table):
    """What the emulated driver's NVML exports beside its own functions."""
    out = [banner(SOURCE), HEAD]
    for row in table.rows:
        if row.kind == "alias":
            out.append(f"CALL {alias_body(table, row)}")
        elif row.kind == "call" or row.name == "nvmlInternalGetExportTable":
            out.append(unsupported(row))
        elif row.kind in ("refuse", "deny"):
            out.append(f"REFUSE({row.name}, {refusal(row)})\n\n")
    return "".join(out)
