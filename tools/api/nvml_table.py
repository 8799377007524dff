"""Read rpc/nvml.api: types, rows, arguments, and what each becomes on the wire."""

import re

from .table import SCALARS, Row, TableError

KINDS = ("call", "local", "alias", "refuse", "deny")
FLAGS = ("client", "server", "pids", "others", "itself")
PROPERTIES = ("noerr", "driverless")  # of each message: NVML has no context, and its errors are its own
FIRST = 1000  # numbers from here on are NVML's
NUMBERS = {k: SCALARS[k] for k in ("int", "unsigned int", "unsigned long long")}
SIZES = {"unsigned int": 4, "unsigned long long": 8}


class Field:
    """One field of a message: what wire.py asks of an argument."""

    def __init__(self, kind, name, xdr, ctype="unsigned int"):
        self.kind, self.name, self.xdr, self.ctype = kind, name, f"{xdr}", ctype


def number(name, ctype):
    return Field("scalar", name, f"{NUMBERS[ctype]} {name}", ctype)


def opaque(name):
    return Field("bytes", name, f"opaque {name}<CK_BYTES_MAX>")


class Argument:
    """One argument of a call; @count: the name of what counts an array; @size: of an element."""

    def __init__(self, direction, kind, ctype, name, count=None, size=0):
        self.direction, self.kind, self.ctype, self.name = direction, kind, ctype, name
        self.count, self.size = count, size

    @property
    def given(self):
        return self.direction != "out"

    @property
    def taken(self):
        return self.direction != "in"

    def field(self):
        """The field of what travels by value."""
        if self.kind == "pod":
            return Field("pod", self.name, f"opaque {self.name}[{self.size}]")
        if self.kind == "enum":
            return number(self.name, "int")
        return number(self.name, "unsigned int" if self.kind == "device" else self.ctype)

    def ins(self):
        """Fields of the arguments."""
        if self.kind == "string":
            return [Field("string", self.name, f"string {self.name}<CK_STRING_MAX>")]
        if self.kind == "values":
            return [opaque(self.name)]
        if self.count:
            return [number(self.count, "unsigned int")]
        return [self.field()] if self.given else []

    def outs(self):
        """Fields of the result."""
        if self.kind in ("list", "array"):
            return [number(self.count, "unsigned int"), opaque(self.name)]
        if self.count:
            return [opaque(self.name)]
        return [self.field()] if self.taken else []

    @property
    def element(self):
        """C type behind the pointer of a structure or an array."""
        return self.ctype if self.ctype in NUMBERS else f"struct {self.ctype}"

    def c(self):
        """The C parameters, in their order."""
        pointer = f"{self.element} *{self.name}"
        if self.kind == "string":
            return [f"const char *{self.name}"]
        if self.kind == "text":
            return [f"char *{self.name}", f"unsigned int {self.count}"]
        if self.kind == "list":
            return [f"unsigned int *{self.count}", pointer]
        if self.kind == "array":
            return [pointer, f"unsigned int *{self.count}"]
        if self.kind == "words":
            return [f"unsigned int {self.count}", f"unsigned long *{self.name}"]
        if self.kind == "values":
            return [f"int {self.count}", pointer]
        if self.kind == "pod":
            return [("const " if self.direction == "in" else "") + pointer]
        ctype = "int" if self.kind == "enum" else self.ctype
        return [f"{ctype} {'*' if self.taken else ''}{self.name}"]


class NvmlRow(Row):
    """One line of the table; its message has more fields than the call has arguments."""

    exported = True

    @property
    def wire(self):
        return self.kind == "call"

    def ins(self):
        return [f for a in self.args for f in a.ins()]

    def outs(self):
        return [number("nvml", "int")] + [f for a in self.args for f in a.outs()]

    def prototype(self):
        """The whole C declaration, without the semicolon."""
        if self.params is not None:
            returns, params = self.params
            return f"{returns}{self.name}({params})"
        params = ", ".join(p for a in self.args for p in a.c()) or "void"
        return f"nvmlReturn_t {self.name}({params})"


class NvmlTable:
    """All rows of one file, checked."""

    def __init__(self, path, text):
        self.path, self.rows, self.names, self.numbers = path, [], {}, {}
        self.enums, self.types = set(), {}
        self.groups = []
        for i, raw in enumerate(text.splitlines(), 1):
            if raw.startswith("# --- "):
                self.groups.append((raw[6:], []))
            words = raw.split("#", 1)[0].split()
            if words and words[0] == "enum":
                self.enums.update(words[1:])
            elif words and words[0] == "type":
                self.add_type(i, words[1:])
            elif words:
                self.add(i, raw.split("#", 1)[0])
        for row in self.rows:
            target = self.names.get(row.target)
            if row.target and (not target or target.kind != "call"):
                self.fail(row.line, f"{row.name} points to {row.target}, which is no call")

    def fail(self, line, what):
        raise TableError(f"{self.path}:{line}: error: {what}")

    def add_type(self, line, words):
        if len(words) < 2 or not words[1].isdigit():
            self.fail(line, "expected: type name size [version words]")
        size, versions = int(words[1]), [int(v, 16) for v in words[2:]]
        if any(v & 0xFFFFFF > size for v in versions):
            self.fail(line, f"{words[0]} has a version that is larger than itself")
        self.types[words[0]] = (size, versions)

    def add(self, line, text):
        fields = text.split(None, 3)
        if len(fields) < 3 or not fields[0].isdigit():
            self.fail(line, "expected: number name body [arguments]")
        num, name, rest = int(fields[0]), fields[1], fields[3] if len(fields) > 3 else ""
        kind, *flags = fields[2].split(",")
        if not re.fullmatch(r"nvml\w+", name) or num < FIRST:
            self.fail(line, f"'{num} {name}' is no number and name of a call of NVML")
        if num in self.numbers or name in self.names:
            self.fail(line, f"{num} {name}: the number or the name is taken")
        if kind not in KINDS or any(f not in FLAGS for f in flags):
            self.fail(line, f"unknown body '{fields[2]}'")
        if flags and kind != "call":
            self.fail(line, f"'{flags[0]}' is for calls: {name} has no message")
        args, params, target = [], None, None
        if kind == "call":
            parts = [p.strip() for p in rest.split(",") if p.strip()]
            args = [self.argument(line, p) for p in parts]
        elif kind == "local":
            m = re.fullmatch(r"(.*?)\((.*)\)", rest.strip())
            if not m:
                self.fail(line, "a C parameter list in parentheses is missing")
            params = (m.group(1) or "nvmlReturn_t ", m.group(2) or "void")
        elif kind == "alias":
            target = rest.strip()
        elif rest.strip():
            self.fail(line, f"{name} takes no arguments here")
        row = NvmlRow(num, name, "-", kind, [*flags, *PROPERTIES], args, params, target, line)
        self.rows.append(row)
        self.numbers[num] = self.names[name] = row
        if self.groups:
            self.groups[-1][1].append(row)

    def argument(self, line, text):
        direction, *words = text.split()
        if direction not in ("in", "out", "io") or len(words) < 2:
            self.fail(line, f"expected direction, type and name in '{text}'")
        kind = words[0]
        if kind == "string" and direction == "in":
            return Argument("in", "string", None, words[1])
        if kind in ("text", "words") and direction == "out" and len(words) == 3:
            return Argument("out", kind, "unsigned int", words[1], words[2])
        if kind in ("list", "array", "values") and len(words) > 3:
            ctype, name, count = " ".join(words[1:-2]), words[-2], words[-1]
            if ctype not in SIZES and ctype not in self.types:
                self.fail(line, f"unknown type '{ctype}'")
            size = SIZES.get(ctype) or self.types[ctype][0]
            return Argument(direction, kind, ctype, name, count, size)
        return self.by_value(line, text, direction, words)

    def by_value(self, line, text, direction, words):
        """A number, an enum, a device or a structure."""
        pod = words[0] == "pod"
        ctype, name = " ".join(words[pod:-1]), words[-1]
        if name.startswith("*") != (direction != "in" or pod):
            self.fail(line, f"'{text}': what is out or a pod has one '*', others none")
        name = name.lstrip("*")
        if pod and ctype in self.types:
            size, versions = self.types[ctype]
            if bool(versions) == (direction == "out"):
                self.fail(line, f"'{text}': a structure goes both ways if it has versions")
            return Argument(direction, "pod", ctype, name, size=size)
        if ctype == "nvmlDevice_t":
            return Argument(direction, "device", ctype, name)
        if ctype in self.enums:
            return Argument(direction, "enum", ctype, name)
        if ctype in NUMBERS:
            return Argument(direction, "scalar", ctype, name)
        return self.fail(line, f"unknown type '{ctype}'")
