"""Read rpc/driver.api: rows, arguments, types. Errors name file and line."""

import re

KINDS = ("call", "send", "cached", "local", "hand", "alias", "ptsz", "refuse")
WIRE = ("call", "send", "cached")
DIRECTIONS = ("in", "out", "new", "got", "del")

# C type -> XDR type, for what travels by value
SCALARS = {
    "int": "int",
    "unsigned int": "unsigned int",
    "unsigned char": "unsigned int",
    "unsigned short": "unsigned int",
    "size_t": "unsigned hyper",
    "unsigned long long": "unsigned hyper",
    "CUdeviceptr": "unsigned hyper",
    "cuuint32_t": "unsigned int",
    "cuuint64_t": "unsigned hyper",
    "float": "float",
    "CUtexObject": "unsigned hyper",
    "CUsurfObject": "unsigned hyper",
    "CUgraphConditionalHandle": "unsigned hyper",
}

# C handle type -> tag of the client's and the server's look-up functions
HANDLES = {
    "CUcontext": "context",
    "CUstream": "stream",
    "CUevent": "event",
    "CUmodule": "module",
    "CUlibrary": "library",
    "CUfunction": "function",
    "CUkernel": "kernel",
    "CUgraph": "graph",
    "CUgraphNode": "node",
    "CUgraphExec": "exec",
    "CUarray": "array",
    "CUmipmappedArray": "mipmap",
    "CUmemoryPool": "pool",
    "CUmemGenericAllocationHandle": "physical",
    "CUgreenCtx": "green",
    "CUdevResourceDesc": "resources",
    "CUlinkState": "link",
    "CUtexref": "texref",
    "CUsurfref": "surfref",
    "CUuserObject": "user",
}

# Structures without pointers that need translation: sent as their bytes.
PODS = {
    "CUstreamAttrValue": 64,
    "CUDA_MEMCPY3D": 200,
    # Pointers in these two are for Windows; hand bodies on both sides clear them.
    "CUmemPoolProps": 88,
    "CUmemAllocationProp": 32,
    "CUmemLocation": 8,
    "CUmemPoolPtrExportData": 64,
    "CUDA_ARRAY_DESCRIPTOR": 24,
    "CUDA_ARRAY3D_DESCRIPTOR": 40,
    "CUDA_ARRAY_MEMORY_REQUIREMENTS": 32,
    "CUDA_ARRAY_SPARSE_PROPERTIES": 48,
    "CUDA_RESOURCE_DESC": 144,
    "CUDA_RESOURCE_VIEW_DESC": 112,
    "CUDA_TEXTURE_DESC": 104,
    "CUdevResource": 144,
}

SPECIAL = ("id", "ids", "bytes", "string", "hash", "bulk")

FIRST_CALL = 100  # numbers below are Cricket's own messages
FIRST_LATER = 1100  # and from here on, more of them
FIRST_OWN = 5  # and of these, those below are of rpc/control.x


class TableError(Exception):
    """A row that cannot be taken; str() is file:line: error: what."""


class Arg:
    """One argument: direction, C type without the pointer of an output, name."""

    def __init__(self, direction, ctype, name, kind):
        self.direction, self.ctype, self.name, self.kind = direction, ctype, name, kind

    @property
    def xdr(self):
        """XDR declaration of the field."""
        n = self.name
        if self.kind == "pod":
            return f"opaque {n}[{PODS[self.ctype]}]"
        return {
            "scalar": f"{SCALARS.get(self.ctype)} {n}",
            "enum": f"int {n}",
            "device": f"int {n}",
            "handle": f"unsigned hyper {n}",
            "id": f"unsigned hyper {n}",
            "ids": f"unsigned hyper {n}<CK_IDS_MAX>",
            "hash": f"opaque {n}[CK_HASH]",
            "bytes": f"opaque {n}<CK_BYTES_MAX>",
            "string": f"string {n}<CK_STRING_MAX>",
            "bulk": f"unsigned int {n}_length",
        }[self.kind]


class Row:
    """One line of the table."""

    def __init__(self, number, name, since, kind, flags, args, params, target, line):
        self.number, self.name, self.since, self.kind = number, name, since, kind
        self.flags, self.args, self.params, self.target = flags, args, params, target
        self.line = line

    @property
    def exported(self):
        return self.name.startswith("cu")

    @property
    def wire(self):
        return self.kind in WIRE

    def hand_on(self, side):
        return side in self.flags or "both" in self.flags

    def ins(self):
        return [a for a in self.args if a not in self.outs()]

    def outs(self):
        return [a for a in self.args if a.direction in ("out", "got")]

    @property
    def bulk_in(self):
        return any(a.kind == "bulk" for a in self.ins())

    @property
    def bulk_out(self):
        return any(a.kind == "bulk" for a in self.outs())


def enum_types(headers):
    """Names of the enums that the text of cuda/*.h declares."""
    return set(re.findall(r"typedef enum {[^{}]*}\s*(\w+);", headers)) | {"CUstreamAttrID"}


class Table:
    """All rows of one file, checked."""

    def __init__(self, path, text, enums):
        self.path, self.enums, self.rows = path, enums, []
        self.more = []  # messages that other tables add, see nvml_table.py
        self.numbers, self.names = {}, {}
        for i, raw in enumerate(text.splitlines(), 1):
            line = raw.split("#", 1)[0].strip()
            if line:
                self.add(i, line)
        if not any(row.wire for row in self.rows):
            self.fail(1, "a table without a message")
        for row in self.rows:
            if row.target:
                self.check_target(row)

    def fail(self, line, what):
        raise TableError(f"{self.path}:{line}: error: {what}")

    def messages(self):
        """Rows that have a message on the wire."""
        return [r for r in self.rows if r.wire] + self.more

    def check_target(self, row):
        """An alias leads, maybe over others, to a call that works."""
        seen, at = [], row
        while at.target:
            if at.name in seen:
                self.fail(row.line, f"{row.name} points to itself")
            seen.append(at.name)
            if at.target not in self.names:
                self.fail(at.line, f"{at.name} points to {at.target}, which has no row")
            at = self.names[at.target]
        if not at.exported or at.kind == "refuse":
            self.fail(row.line, f"{row.name} points to {at.name}, which cannot be called")

    def add(self, line, text):
        fields = text.split(None, 4)
        if len(fields) < 4 or not fields[0].isdigit():
            self.fail(line, "expected: number name since body [arguments]")
        number, name, since, body = int(fields[0]), *fields[1:4]
        rest = fields[4] if len(fields) > 4 else ""
        if not re.fullmatch(r"(cu|ck_)\w+", name):
            self.fail(line, f"'{name}' is no name of a call: cu... or ck_...")
        if number in self.numbers:
            self.fail(line, f"number {number} is taken by {self.numbers[number]}")
        if name in self.names:
            self.fail(line, f"{name} has a row already")
        if since != "-" and not since.isdigit():
            self.fail(line, f"'{since}' is no CUDA version")
        own = name.startswith("ck_")
        if own != (number < FIRST_CALL or number >= FIRST_LATER):
            self.fail(line, f"numbers below {FIRST_CALL} are for ck_ messages, and only for them")
        if number < FIRST_OWN:
            self.fail(line, f"numbers below {FIRST_OWN} are for the messages of rpc/control.x")
        kind, *flags = body.split(",")
        if kind not in KINDS:
            self.fail(line, f"unknown body '{kind}'")
        for flag in flags:
            if flag not in ("client", "server", "both", "noctx", "noerr"):
                self.fail(line, f"unknown word '{flag}' after the body")
        if "noerr" in flags and kind != "call":
            self.fail(line, "noerr is for calls: nothing else tells errors of earlier commands")
        args, params, target = [], None, None
        if kind in WIRE:
            args = self.arguments(line, rest)
        elif kind in ("alias", "ptsz"):
            target = rest.strip()
            if not target:
                self.fail(line, f"{name} points to nothing")
        elif kind in ("local", "hand"):
            params = self.parameters(line, rest)
        elif rest:
            self.fail(line, f"{name} is refused and takes no arguments here")
        row = Row(number, name, since, kind, flags, args, params, target, line)
        self.check(row)
        self.rows.append(row)
        self.numbers[number] = self.names[name] = name
        self.names[name] = row

    def check(self, row):
        if row.kind == "send" and row.outs():
            self.fail(row.line, f"{row.name} is one-way and cannot have outputs")
        if row.kind == "cached" and len(row.outs()) != 1:
            self.fail(row.line, f"{row.name} is cached and needs exactly one output")
        bulks = [i for i, a in enumerate(row.args) if a.kind == "bulk"]
        if bulks and bulks != [len(row.args) - 1]:
            self.fail(row.line, f"{row.name}: bulk data must be the last argument")
        hand = row.hand_on("client") and row.hand_on("server")
        if (bulks or not row.exported) and row.wire and not hand:
            self.fail(row.line, f"{row.name} needs bodies by hand on both sides")
        if (sum(a.direction in ("new", "got", "del") for a in row.args) > 1
                and not row.hand_on("client")):
            self.fail(row.line, f"{row.name}: two objects come or go: a client body by hand")
        fields = [a.name for a in row.args]
        for a in row.args:
            if a.name == "head" or fields.count(a.name) > 1:
                self.fail(row.line, f"{row.name}: '{a.name}' names another field of the message")
            if a.name == "moved" and row.bulk_out:
                self.fail(row.line, f"{row.name}: 'moved' stands behind the data of a result")
            if a.direction == "new" and row.kind == "cached":
                self.fail(row.line, f"{row.name}: an object is not made twice: no 'new' in cached")
            if a.kind in ("bytes", "id", "ids", "hash", "string") and not row.hand_on("client"):
                self.fail(row.line, f"{row.name}: '{a.kind}' needs a client body by hand")

    def parameters(self, line, text):
        m = re.fullmatch(r"\((.*)\)", text.strip())
        if not m:
            self.fail(line, "a C parameter list in parentheses is missing")
        return m.group(1).strip() or "void"

    def arguments(self, line, text):
        if text.strip() in ("", "()"):
            return []
        return [self.argument(line, part.strip()) for part in text.split(",")]

    def argument(self, line, text):
        m = re.fullmatch(r"(\w+)\s+(.*?)(\**)(\w+)", text)
        direction = m.group(1) if m else text.split()[0] if text else ""
        if direction not in DIRECTIONS:
            self.fail(line, f"missing direction (in, out, new, got or del) in '{text}'")
        if not m or not m.group(2).strip():
            self.fail(line, f"expected direction, type and name in '{text}'")
        ctype, stars, name = m.group(2).strip(), m.group(3), m.group(4)
        pod = ctype.startswith("pod ")
        ctype = ctype[4:].strip() if pod else ctype
        kind = self.kind_of(line, ctype, pod)
        by_pointer = direction in ("out", "new", "got") or pod
        if ctype not in SPECIAL and (len(stars) == 1) != by_pointer:
            self.fail(line, f"'{text}': out, new, got and pod arguments have one '*', others none")
        if direction in ("new", "got", "del") and kind != "handle":
            self.fail(line, f"'{text}': only objects can be new, got or del")
        return Arg(direction, ctype, name, kind)

    def kind_of(self, line, ctype, pod):
        if pod:
            if ctype not in PODS:
                self.fail(line, f"unknown pod type '{ctype}'")
            return "pod"
        if ctype in SPECIAL:
            return ctype
        if ctype == "CUdevice":
            return "device"
        if ctype in HANDLES:
            return "handle"
        if ctype in SCALARS:
            return "scalar"
        if ctype in self.enums:
            return "enum"
        return self.fail(line, f"unknown type '{ctype}'")
