"""Read rpc/nccl.api: the calls of NCCL, and where their arguments are on the wire."""

import re

from .table import TableError

KINDS = ("op", "hand", "refuse")
LAST = 99  # operations without a row have numbers from 100 on (rpc/nccl.h)
# Place in struct ck_nccl_op: C type of the argument.
PLACES = {
    "send": "const void *", "recv": "void *", "buff": "void *", "count": "size_t ", "type": "ncclDataType_t ",
    "op": "ncclRedOp_t ", "root": "int ", "comm": "ncclComm_t ", "stream": "CUstream ",
}


class NcclRow:
    """One call. @args: of an op, (C name, place); @params: of the others, (returned type, parameter list)."""

    def __init__(self, num, name, kind, line):
        self.num, self.name, self.kind, self.line = num, name, kind, line
        self.args, self.params, self.reason = [], ("ncclResult_t ", "void"), ""

    def parameters(self):
        if self.kind != "op":
            return self.params[1]
        return ", ".join(PLACES[place] + name for name, place in self.args)

    def returned(self):
        return self.params[0]

    def names(self):
        """The names of the C parameters."""
        text = self.parameters()
        return [] if text == "void" else [p.replace("*", " ").split()[-1] for p in text.split(",")]

    def prototype(self, name):
        return f"{self.returned()}{name}({self.parameters()})"

    def pointer(self):
        return f"{self.returned()}(*{self.name})({self.parameters()})"

    def places(self):
        return [place for _, place in self.args]


class NcclTable:
    """All rows of one file, checked."""

    def __init__(self, path, text):
        self.path, self.rows, self.reasons, self.groups = path, [], {}, []
        for line, logical in self.lines(text):
            if logical.startswith("# --- "):
                self.groups.append((logical[6:], []))
            elif logical.startswith("reason "):
                _, name, words = logical.split(None, 2)
                self.reasons[name] = words
            elif logical and not logical.startswith("#"):
                self.add(line, logical)
        for name in set(self.reasons) - {r.reason for r in self.rows}:
            self.fail(0, f"no row gives the reason {name}")

    @staticmethod
    def lines(text):
        """(number, text) of each row with those that continue it."""
        out = []
        for i, raw in enumerate(text.splitlines(), 1):
            if raw.startswith("        ") and out and not out[-1][1].startswith("#"):
                out[-1] = (out[-1][0], f"{out[-1][1]} {raw.strip()}")
            else:
                out.append((i, raw.strip()))
        return out

    def fail(self, line, what):
        raise TableError(f"{self.path}:{line}: error: {what}")

    def add(self, line, text):
        fields = text.split(None, 3)
        if len(fields) != 4:
            self.fail(line, "expected: number name body arguments")
        num, name, kind, rest = fields
        if not re.fullmatch(r"nccl\w+", name) or kind not in KINDS:
            self.fail(line, f"'{name} {kind}' is no call of NCCL with a body that there is")
        if name in (r.name for r in self.rows):
            self.fail(line, f"{name} has a row already")
        if (num != "-") != (kind == "op") or (num != "-" and not (num.isdigit() and 0 < int(num) <= LAST)):
            self.fail(line, f"{name}: a number from 1 to {LAST} for an op, - for the others")
        if num != "-" and num in (r.num for r in self.rows):
            self.fail(line, f"number {num} is taken")
        row = NcclRow(num, name, kind, line)
        if kind == "op":
            row.args = [self.argument(line, part.strip()) for part in rest.split(",")]
        elif kind == "hand":
            m = re.fullmatch(r"(.*?)\((.*)\)", rest.strip())
            if not m:
                self.fail(line, "a C parameter list in parentheses is missing")
            row.params = (m.group(1) or "ncclResult_t ", m.group(2) or "void")
        else:
            row.reason = rest.strip()
            if row.reason not in self.reasons:
                self.fail(line, f"no line 'reason {row.reason}' above says why {name} is refused")
        self.rows.append(row)
        if not self.groups:
            self.fail(line, "a line '# --- GROUP' is missing above")
        self.groups[-1][1].append(row)

    def argument(self, line, text):
        name, _, place = text.partition("=")
        place = place or name
        if place not in PLACES:
            self.fail(line, f"'{text}' has no place in an operation: {' '.join(PLACES)}")
        return name, place

    @property
    def ops(self):
        return [r for r in self.rows if r.kind == "op"]

    @property
    def offered(self):
        """The calls that the client has functions for."""
        return [r for r in self.rows if r.kind != "refuse"]
