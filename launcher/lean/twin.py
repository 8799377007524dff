"""launcher/lean/twin.py - what ProcessLauncher.lean and test_process_gpu.lean do, written in Python.

Lean is on few machines; this follows its functions one by one, so that the bytes and the launches
can be tested everywhere. A change of one file needs the same change of the other, and of the golden
file.
"""
import base64
import concurrent.futures
import json
import math
import pathlib
import re
import struct
import subprocess


def float_to_json(value):
    """floatToJson: the decimal number that a double is."""
    bits, = struct.unpack("<Q", struct.pack("<d", value))
    sign = "-" if bits >> 63 else ""
    field, fraction = bits >> 52 & 2047, bits & (1 << 52) - 1
    if field == 2047:
        return f'"{sign}Infinity"' if fraction == 0 else '"NaN"'
    mantissa, exponent = fraction + ((1 << 52) if field else 0), max(field, 1) - 1075
    while exponent < 0 and mantissa and mantissa % 2 == 0:
        mantissa, exponent = mantissa // 2, exponent + 1
    if mantissa == 0:
        return f"{sign}0"
    if exponent >= 0:
        return f"{sign}{mantissa << exponent}"
    return f"{sign}{mantissa * 5 ** -exponent}e-{-exponent}"


def float32_bytes(value):
    """Of floatsToBytes: rounded as the processor does, and infinite beyond the range."""
    if math.isnan(value):
        return struct.pack("<I", 0x7FC00000)
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def floats_to_bytes(values):
    return b"".join(map(float32_bytes, values))


def request_text(scalars, arrays):
    """requestText. Names as Lean's Name.toString gives them."""
    def array(name, values):
        data = base64.b64encode(floats_to_bytes(values)).decode()
        return json.dumps(name, ensure_ascii=False) + ':{"type":"f32","b64":"' + data + '"}'

    return '{"scalars":[' + ",".join(map(float_to_json, scalars)) + '],"arrays":{' + \
        ",".join(array(name, values) for name, values in arrays) + "}}"


def bytes_to_floats(data):
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def run_launcher(launcher, args, text):
    """runLauncher and parseOutput."""
    done = subprocess.run([launcher, *args], input=text.encode(), capture_output=True, check=False)
    reply = json.loads(done.stdout)
    if "error" in reply:
        raise RuntimeError("{stage}: {code}: {message}".format(**reply["error"]))
    return reply


def compile_to_ptx(kernel, launcher):
    name, source = kernel
    return run_launcher(launcher, ["--compile", "-", name], source)


def execute_kernel(kernel, grid, block, scalars, arrays, launcher):
    """executeKernel; a kernel is (name, source)."""
    ptx = compile_to_ptx(kernel, launcher)["ptx"]
    args = ["--connect", "auto", ptx, kernel[0], *map(str, (*grid, *block))]
    results = run_launcher(launcher, args, request_text(scalars, arrays))["results"]
    return [(name, bytes_to_floats(base64.b64decode(results[name]["b64"]))) for name, _ in arrays]


def execute_kernel_async(*launch):
    """executeKernelAsync: a thread for each launch. result() is awaitKernel."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    future = pool.submit(execute_kernel, *launch)
    pool.shutdown(wait=False)
    return future


def kernel_of(example, name):
    """(name, source) of a kernel that a Lean file defines."""
    text = (pathlib.Path(__file__).parent / example).read_text(encoding="utf-8")
    source = re.search(rf'name := "{name}"\s+source := "((?:[^"\\]|\\.)*)"', text).group(1)
    return name, source.replace('\\"', '"').replace("\\n", "\n")


def process_gpu(launcher, floats):
    """test_process_gpu.lean: the same launches, and the lines that it prints of each check."""
    kernel, bad = (kernel_of("test_process_gpu.lean", name) for name in ("saxpyKernel", "badKernel"))

    def saxpy(n, alpha):
        return alpha, [i % 1024 for i in range(n)], [1] * n

    def launch(state):
        alpha, x, y = state
        return (kernel, ((len(x) + 255) // 256, 1, 1), (256, 1, 1), [len(x), alpha],
                [("X", x), ("Y", y), ("R", [0] * len(x))], launcher)

    def right(results, state):
        alpha, x, y = state
        return dict(results)["R"] == [alpha * a + b for a, b in zip(x, y)]

    def refused(work):
        try:
            work()
            return False
        except RuntimeError:
            return True

    failing = (bad, (1, 1, 1), (256, 1, 1), [1], [], launcher)
    first, second = compile_to_ptx(kernel, launcher), compile_to_ptx(kernel, launcher)
    yield "cache", first["hash"] == second["hash"] and pathlib.Path(second["ptx"]).exists()
    state = saxpy(1000, 2.5)
    yield "correctness", right(execute_kernel(*launch(state)), state)
    yield "errors", refused(lambda: execute_kernel(*failing))
    states = [saxpy(256 * k, k) for k in (1, 2, 3, 4)]
    failed, launches = execute_kernel_async(*failing), [execute_kernel_async(*launch(s)) for s in states]
    yield "async", all(right(one.result(), s) for one, s in zip(launches, states))
    yield "async error", refused(failed.result)
    state = saxpy(floats, 2)
    yield "large", right(execute_kernel(*launch(state)), state)


# Those of Golden.lean.
CASES = [
    ([4, 2.5], [("X", [1, 2, 3, 4]), ("Y", [1, 1, 1, 1]), ("R", [0, 0, 0, 0])]),
    ([], []),
    ([-0.0, 0.1, 1e-8, 1e300, -1e-310, math.nan, math.inf, -math.inf], [("z", [])]),
    ([1], [("one", [1e-8]), ("two", [0.1, -0.1]), ("three", [1, 16777217, 1e39])]),
    ([], [("a.b", [math.nan]), ('«quoted "name"»', [5])])]

if __name__ == "__main__":
    for case in CASES:
        print(request_text(*case))
