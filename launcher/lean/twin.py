"""launcher/lean/twin.py - what ProcessLauncher.lean writes to the launcher, written in Python.

Lean is on few machines; this is, function by function, its requestText and what that calls, so that
the bytes can be tested everywhere. Whoever changes one changes the other, and the golden file.
"""
import base64
import json
import math
import struct


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
