#!/usr/bin/env python3
"""bench/kinds.py FOLDER - files of 4 MiB for the stage compress: random, float, bfloat16, text, zeros.

The two number formats hold weights as a new model has them: normally distributed, with a deviation of 0.02.
"""
import array
import pathlib
import random
import sys

SIZE = 4 << 20
ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    folder, chance = pathlib.Path(sys.argv[1]), random.Random(1)
    weights = array.array("f", (chance.gauss(0, 0.02) for _ in range(SIZE // 2))).tobytes()
    text = b"".join(p.read_bytes() for p in sorted(ROOT.glob("*/*/*.c")) + sorted(ROOT.glob("*/*.c")))
    halves = bytearray(SIZE)
    halves[::2], halves[1::2] = weights[2::4], weights[3::4]    # the upper half of each, on x86-64
    kinds = {"random": chance.randbytes(SIZE), "float": weights[:SIZE], "bfloat16": halves, "text": text[:SIZE],
             "zeros": bytes(SIZE)}
    for name, data in kinds.items():
        (folder / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
