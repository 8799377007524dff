"""gpu_launcher.py - run GPU kernels from Python by way of gpu_launcher; nothing to install.

    from gpu_launcher import Launcher

    with Launcher() as gpu:
        results = gpu.launch(module="saxpy.ptx", kernel="saxpyKernel", grid=4, block=256,
                             scalars=[1000, 2.5], arrays={"X": x, "Y": y, "R": r})

Arrays are NumPy arrays, array.array, bytes, or lists of floats; results are NumPy arrays where NumPy is
installed, else array.array. Data travels in frames; docs/launcher-protocol.md describes them.
"""
import array
import json
import math
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys

try:
    import numpy
except ImportError:
    numpy = None

MAGIC = 0xCDA0CAFE
VERSION = 1
ALIGN = 64
HEAD = struct.Struct("<IIQ")

# Names of types here: of array.array and of NumPy.
CODES = {"f32": "f", "f64": "d", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I",
         "i64": "q", "u64": "Q", "bool": "B"}
KINDS = {"f2": "f16", "f4": "f32", "f8": "f64", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64",
         "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64", "b1": "bool"}


class LaunchError(Exception):
    """A failure: the launcher's error object."""

    def __init__(self, error):
        super().__init__(f"{error['stage']}: {error['code']}: {error['message']}")
        self.stage, self.code, self.exit = error["stage"], error["code"], error["exit"]
        self.message, self.log = error["message"], error.get("log")


class Typed:
    """Bytes as an array of a type that Python has no array for: Typed("bf16", data)."""

    def __init__(self, type_, data):
        self.type, self.data = type_, bytes(data)


def _padding(size):
    return -size % ALIGN


def _bytes_of(value):
    """(type, bytes, count) of an array in any of the forms that are taken."""
    if isinstance(value, Typed):
        size = {"f16": 2, "bf16": 2}.get(value.type) or struct.calcsize(CODES[value.type])
        return value.type, value.data, len(value.data) // size
    if numpy is not None and isinstance(value, numpy.ndarray):
        flat = numpy.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        kind = KINDS[flat.dtype.str[1:]]
        return kind, memoryview(flat).cast("B") if flat.size else b"", flat.size
    if isinstance(value, (bytes, bytearray, memoryview)):
        flat = memoryview(value)
        return "u8", flat.cast("B") if flat.nbytes else b"", flat.nbytes
    if not isinstance(value, array.array):
        value = array.array("f", value)
    kinds = {code: kind for kind, code in CODES.items() if kind != "bool"}
    code = {"l": "q", "L": "Q"}.get(value.typecode, value.typecode)
    return kinds[code], memoryview(value).cast("B") if value else b"", len(value)


def _array_of(kind, data):
    """An array of what came back."""
    if numpy is not None:
        if kind == "bf16":
            return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        dtype = {kind_: name for name, kind_ in KINDS.items()}[kind]
        return numpy.frombuffer(data, numpy.dtype(dtype))
    if kind not in CODES:
        return Typed(kind, data)
    result = array.array(CODES[kind])
    result.frombytes(data)
    return result


def _number(value):
    """A scalar in the protocol's form: a value that JSON has no number for is a string."""
    if isinstance(value, dict):
        return {**value, "value": _number(value["value"])}
    if isinstance(value, (list, tuple)):
        return [_number(v) for v in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, int) and value >= 1 << 63 else value


def encode(document, blobs):
    """A frame, as a list of pieces: DOCUMENT with BLOBS behind it, each at a multiple of 64."""
    text = json.dumps(document).encode()
    start = HEAD.size + 4 + len(text)
    pieces = [text, bytes(_padding(start))]
    size = start + _padding(start)
    for blob in blobs:
        pieces += [blob, bytes(_padding(len(blob)))]
        size += len(blob) + _padding(len(blob))
    return [HEAD.pack(MAGIC, VERSION, size - HEAD.size) + struct.pack("<I", len(text)), *pieces]


def _program():
    """The launcher where none is named."""
    here = pathlib.Path(__file__).resolve().parent      # PREFIX/lib/cricket/python, or python/ of the source
    places = [os.environ.get("GPU_LAUNCHER"), shutil.which("gpu_launcher"), here.parent.parent.parent / "bin" / "gpu_launcher",
              here.parent / "cpu" / "gpu_launcher", pathlib.Path("gpu_launcher").resolve()]
    found = next((place for place in places if place and (place == places[0] or os.access(place, os.X_OK))), None)
    if not found:
        raise FileNotFoundError("there is no gpu_launcher in PATH: install Cricket, or set GPU_LAUNCHER to its path")
    return found


class Launcher:
    """A connection: to a process of its own (gpu_launcher --batch), or to a daemon's socket.

    PROGRAM is the launcher to start (default: the variable GPU_LAUNCHER, else gpu_launcher in PATH, beside this module's
    installation, or in the current folder), with OPTIONS such as ["--driver", "emu"]; CONNECT is the path of a daemon's socket
    and takes the place of both.
    """

    def __init__(self, program=None, options=(), connect=None):
        self._process = self._socket = None
        if connect is not None:
            self._socket = socket.socket(socket.AF_UNIX)
            try:
                self._socket.connect(os.fspath(connect))
            except OSError as problem:
                self._socket.close()
                raise type(problem)(problem.errno, f"{problem.strerror}: is a gpu_launcher --daemon running there? A server is named with "
                                    "options=['--connect', HOST]", os.fspath(connect)) from None
            self._in = self._socket.makefile("rb", buffering=1 << 16)
            self._out = self._socket.makefile("wb", buffering=0)
            self.defaults(cwd=os.getcwd())
            return
        self._process = subprocess.Popen([os.fspath(program or _program()), *map(str, options), "--batch", "--lend"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1 << 16)
        self._in, self._out = self._process.stdout, self._process.stdin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the connection; arrays kept on the GPU go."""
        for stream in (self._out, self._in):
            try:
                stream.close()
            except OSError:
                pass
        if self._socket:
            self._socket.close()
        if self._process:
            self._process.wait()

    # --- requests

    def launch(self, **request):
        """Launches a kernel and returns {name: array}. See submit for the arguments."""
        return self._results(self._ask(*self._launch(request)))

    def submit(self, **request):
        """The same without waiting: returns the number for poll, wait and cancel.

        module or source, kernel, grid, block (numbers or sequences), shared, options, timeout_ms, returns
        (names); scalars (list) and arrays ({name: array}), or args (list of both). An array may also be a
        dict as the protocol has it, with the array itself as "data":
        {"data": x, "mode": "in", "keep": True}, {"ref": "X"}, {"n": 100, "type": "f32"}.
        """
        return self._ask(*self._launch({**request, "async": True}))[0]["id"]

    def poll(self, number):
        """None while the launch is not done, then its results."""
        reply = self._ask({"cmd": "poll", "id": number}, [])
        return self._results(reply) if "results" in reply[0] else None

    def wait(self, number):
        """The results of a launch."""
        return self._results(self._ask({"cmd": "wait", "id": number}, []))

    def cancel(self, number):
        """Ends a launch. One that runs takes along what was kept on the GPU."""
        self._ask({"cmd": "cancel", "id": number}, [])

    def read(self, *names):
        """Arrays that were kept on the GPU."""
        return self._results(self._ask({"cmd": "read", "arrays": list(names)}, []))

    def free(self, *names):
        """Lets go of arrays that were kept on the GPU."""
        self._ask({"cmd": "free", "arrays": list(names)}, [])

    def ping(self):
        """Whether the launcher answers."""
        return self._ask({"cmd": "ping"}, [])[0]["status"] == "ready"

    def defaults(self, **values):
        """Defaults for later launches."""
        self._write([json.dumps({"cmd": "defaults", **values}).encode()])

    # --- messages

    @staticmethod
    def _launch(request):
        """(document, blobs) of a launch."""
        blobs, at = [], 0

        def place(value):
            nonlocal at
            more = dict(value) if isinstance(value, dict) else {}
            data = more.pop("data", None) if isinstance(value, dict) else value
            if data is None:
                return more
            kind, blob, count = _bytes_of(data)
            more = {"type": kind, **more, "n": count, "at": at}
            blobs.append(blob)
            at += len(blob) + _padding(len(blob))
            return more

        def argument(value):
            scalar = isinstance(value, (bool, int, float, str)) or \
                (isinstance(value, dict) and "value" in value) or \
                (numpy is not None and isinstance(value, numpy.generic))
            return _number(value) if scalar else place(value)

        document = dict(request)
        for size in ("grid", "block"):
            if isinstance(document.get(size), int):
                document[size] = [document[size]]
            elif size in document:
                document[size] = list(document[size])
        if "returns" in document:
            document["return"] = list(document.pop("returns"))
        if "module" in document:
            document["module"] = os.fspath(document["module"])
        if "arrays" in document:
            document["arrays"] = {name: place(value) for name, value in document["arrays"].items()}
        for key in ("scalars", "args"):
            if key in document:
                document[key] = [argument(value) for value in document[key]]
        return document, blobs

    def _write(self, pieces):
        for piece in pieces:
            view = memoryview(piece).cast("B") if len(piece) else b""
            while len(view):
                view = view[self._out.write(view):]
        self._out.flush()

    def _read(self, size):
        data = bytearray(size)
        view, have = memoryview(data), 0
        while have < size:
            try:
                n = self._in.readinto(view[have:])
            except ConnectionError:     # it went with something unread
                n = 0
            if not n:
                raise LaunchError({"stage": "service", "code": "LAUNCHER_LOST", "exit": 8,
                                   "message": "the launcher has ended"})
            have += n
        return data

    def _ask(self, document, blobs):
        """Sends a frame; returns (document, data section) of the reply."""
        try:
            self._write(encode(document, blobs))
        except ConnectionError:
            pass        # what it said before it went is still to be read
        magic, version, size = HEAD.unpack(self._read(HEAD.size))
        if (magic, version) != (MAGIC, VERSION):
            raise LaunchError({"stage": "service", "code": "BAD_REPLY", "exit": 8,
                               "message": "the reply is not a frame"})
        body = memoryview(self._read(size))
        length, = struct.unpack_from("<I", body)
        reply = json.loads(bytes(body[4:4 + length]))
        if "error" in reply:
            raise LaunchError(reply["error"])
        start = HEAD.size + 4 + length
        return reply, body[start + _padding(start) - HEAD.size:]

    @staticmethod
    def _results(reply):
        document, data = reply
        results = {}
        for name, where in document["results"].items():
            if "at" not in where:
                results[name] = where
                continue
            size = {"f16": 2, "bf16": 2}.get(where["type"]) or struct.calcsize(CODES[where["type"]])
            results[name] = _array_of(where["type"], data[where["at"]:where["at"] + where["n"] * size])
        return results


def main():
    """A demonstration: SAXPY on a few numbers, with the launcher in argv[1]."""
    source = """extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
                { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }"""
    with Launcher(*sys.argv[1:2]) as gpu:
        print(list(gpu.launch(source=source, kernel="saxpy", grid=1, block=32, scalars=[3, 2.0],
                              arrays={"x": {"data": [1, 2, 3], "mode": "in"}, "y": [10, 20, 30]})["y"]))


if __name__ == "__main__":
    main()
