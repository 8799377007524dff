"""Read rpc/driver.api: rows, arguments, types. Errors name file and line."""

import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONTINUED = " " * 8  # what a line begins with that goes on with the row above

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

# Words after the body: whose body is written by hand; what the message is, a field of struct ck_proc each.
BODIES = ("client", "server", "both")
PROPERTIES = ("noerr", "quiet", "shares", "drains", "driverless", "light", "launches", "loads", "ahead", "silent",
              "unprofiled", "nomem", "recall")
KEY_HEAD = 2  # words of the key of a cached answer before the arguments: the message's number, the context

# Properties that only some messages have: the bodies that may have it, and why.
ONLY = {
    "noerr": (("call",), "noerr is for calls: nothing else tells errors of earlier commands"),
    "quiet": (("send",), "quiet is for one-way messages: a call has a reply"),
    "shares": (("call",), "shares is for calls: the client must know at once that an object is shared"),
    "light": (("send",), "light is for one-way messages that wait for nothing"),
    "launches": (("send",), "launches is for one-way messages: nothing waits for a launch"),
    "loads": (("call", "send"), "loads is for messages"),
    "ahead": (("call",), "ahead is for calls: nothing else has a reply"),
    "silent": (("call",), "silent is for calls: nothing else has a reply"),
    "unprofiled": (("call", "send"), "unprofiled is for messages"),
    "nomem": (("call",), "nomem is for calls: nothing else reports that there is no memory"),
    "recall": (("call", "cached"), "recall is for calls whose answer is kept"),
    "drains": (("call", "send", "cached"), "drains is for messages"),
    "nodrains": (("call", "send", "cached"), "nodrains is for messages"),
    "driverless": (("call", "send"), "driverless is for messages"),
}

# What a call is named that creates or destroys something on the server, also if no argument is an object.
VERBS = (r"(?:Create|Destroy|Alloc|Free|Load|Unload|Import|Map|Unmap|Reserve|Trim)(?![a-z])"
         r"|_(?:create|destroy|alloc|free|load|build|import)(?:_|$)")

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
        self.size = None  # of a pod, in bytes: Table.measure

    @property
    def xdr(self):
        """XDR declaration of the field."""
        n = self.name
        if self.kind == "pod":
            return f"opaque {n}[{self.size}]"
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
        self.function = 0  # word of the key of a kept answer that is the function's id: Table.read_recall

    @property
    def exported(self):
        return self.name.startswith("cu")

    @property
    def wire(self):
        return self.kind in WIRE

    @property
    def short(self):
        """The name in those of C functions and numbers, which begin with ck_ or CK_ anyway."""
        return self.name.removeprefix("ck_")

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


def declared(name):
    """Do the headers of cuda/ declare the type?"""
    folder = os.path.join(ROOT, "cuda")
    for header in sorted(os.listdir(folder)):
        if header.endswith(".h"):
            with open(os.path.join(folder, header), encoding="utf-8") as f:
                if re.search(rf"^(typedef .*|}}) *{name};", f.read(), re.M):
                    return True
    return False


def sizes_of(types):
    """Size of each C type, from the compiler: an array of so many bytes is in its assembly."""
    text = '#include "cuda/types.h"\n' + "".join(
        f"char ck_size_{t}[sizeof({t})] = {{ 1 }};\n" for t in types)
    done = subprocess.run([os.environ.get("CC", "cc").split()[0], "-S", "-xc", "-I", ROOT, "-o", "-", "-"],
                          input=text, capture_output=True, text=True, check=True, timeout=60)
    return {t: int(n) for t, n in re.findall(r"\.size\s+ck_size_(\w+), (\d+)", done.stdout)}


class Table:
    """All rows of one file, checked."""

    def __init__(self, path, text, enums):
        self.path, self.enums, self.rows = path, enums, []
        self.more = []  # messages that other tables add, see nvml_table.py
        self.numbers, self.names = {}, {}
        self.reasons = {}  # why names are refused: word -> text
        for i, line in self.lines(text):
            if line.startswith("reason "):
                self.add_reason(i, line)
            else:
                self.add(i, line)
        self.measure()
        if not any(row.wire for row in self.rows):
            self.fail(1, "a table without a message")
        for row in self.rows:
            if row.target:
                self.check_target(row)

    def lines(self, text):
        """(line number, text) of each row, with the lines that go on with it."""
        found = []
        for i, raw in enumerate(text.splitlines(), 1):
            line = raw.split("#", 1)[0].rstrip()
            if line.startswith(CONTINUED) and found:
                found[-1][1] += " " + line.strip()
            elif line.strip():
                found.append([i, line.strip()])
        return found

    def add_reason(self, line, text):
        words = text.split(None, 2)
        if len(words) < 3:
            self.fail(line, "expected: reason WORD text")
        self.reasons[words[1]] = words[2]

    def measure(self):
        """Ask the compiler for the sizes of all structures that travel as their bytes."""
        pods = [a for r in self.rows for a in r.args if a.kind == "pod"]
        sizes = sizes_of(sorted({a.ctype for a in pods})) if pods else {}
        for a in pods:
            a.size = sizes[a.ctype]

    def fail(self, line, what):
        raise TableError(f"{self.path}:{line}: error: {what}")

    def messages(self):
        """Rows that have a message on the wire."""
        return sorted([r for r in self.rows if r.wire] + self.more, key=lambda r: r.number)

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
        kind, flags, word = self.body(line, body)
        args, params, target = [], None, None
        if kind in WIRE:
            args = self.arguments(line, rest)
            ends = any(a.direction in ("new", "del") for a in args) or re.search(VERBS, name)
            if ends and not {"drains", "nodrains"} & set(flags):
                self.fail(line, f"{name} creates or destroys an object: drains or nodrains? tests/gpu/holds.c finds out")
        elif kind in ("alias", "ptsz"):
            target = rest.strip()
            if not target:
                self.fail(line, f"{name} points to nothing")
        elif kind in ("local", "hand"):
            params = self.parameters(line, rest)
        elif len(rest.split()) > 1:
            self.fail(line, f"{name} is refused and takes no arguments here")
        elif rest and rest not in self.reasons:
            self.fail(line, f"no line 'reason {rest}' above says why {name} is refused")
        row = Row(number, name, since, kind, flags, args, params, target, line)
        row.reason = rest if kind == "refuse" else ""
        self.read_recall(row, word)
        self.check(row)
        self.rows.append(row)
        self.numbers[number] = self.names[name] = name
        self.names[name] = row

    def body(self, line, text):
        """The kind of a row, the words after it, and N of recall=N."""
        kind, *flags = text.split(",")
        if kind not in KINDS:
            self.fail(line, f"unknown body '{kind}'")
        words = [re.fullmatch(r"recall=(\d)", flag) for flag in flags]
        flags = ["recall" if m else flag for m, flag in zip(words, flags)]
        for flag in flags:
            if flag not in BODIES + ("noctx",) and flag not in ONLY:
                self.fail(line, f"unknown word '{flag}' after the body")
            if flags.count(flag) > 1:
                self.fail(line, f"'{flag}' stands twice after the body")
            if flag in ONLY and kind not in ONLY[flag][0]:
                self.fail(line, ONLY[flag][1])
        if "drains" in flags and {"light", "nodrains"} & set(flags):
            self.fail(line, "a message that drains is neither light nor nodrains")
        return kind, flags, next((int(m[1]) for m in words if m), None)

    def read_recall(self, row, word):
        """Where the key of an answer that is kept between sessions has the function's id."""
        if "recall" not in row.flags:
            return
        if row.hand_on("client") == (word is None):
            self.fail(row.line, f"{row.name}: recall=N with a client body by hand, whose key only it knows; else recall")
        if word is not None and word != 0 and not KEY_HEAD <= word < KEY_HEAD + 2:
            self.fail(row.line, f"{row.name}: the function's id is word {KEY_HEAD} or {KEY_HEAD + 1} of a key; 0: no function")
        places = [KEY_HEAD + i for i, a in enumerate(row.ins()) if a.ctype in ("CUfunction", "CUkernel")]
        row.function = word if word is not None else (places or [0])[0]

    def check(self, row):
        if row.kind == "send" and row.outs():
            self.fail(row.line, f"{row.name} is one-way and cannot have outputs")
        for a in row.ins() if row.kind == "cached" and not row.hand_on("client") else ():
            if a.kind in ("pod", "bytes", "string", "ids", "bulk"):
                self.fail(row.line, f"{row.name}: cached calls take numbers and handles only: "
                                    f"the answer would be kept under the address of '{a.name}'")
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
            if not declared(ctype):
                self.fail(line, f"unknown pod type '{ctype}': declare it in a header that cuda/types.h includes")
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
        if declared(ctype):
            return self.fail(line, f"unknown type '{ctype}': a structure is 'pod {ctype} *'; a number goes into "
                             "SCALARS, a handle into HANDLES, of tools/api/table.py")
        return self.fail(line, f"unknown type '{ctype}': declare it in a header that cuda/types.h includes; "
                         "a number or a handle also in tools/api/table.py")
