#!/usr/bin/env python3
"""bench/compare.py NATIVE REMOTE - a table of two runs of one bench (JSON on the last line)."""
import json
import sys


def load(path):
    """The last line that is JSON; nothing when the run broke off."""
    with open(path, encoding="utf-8") as f:
        lines = [line for line in f if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def main():
    native, remote = load(sys.argv[1]), load(sys.argv[2])
    print(f"{'row':28} {'native':>10} {'remote':>10} {'ratio':>7}  results")
    bad = 0
    for name, n in native.items():
        r = remote.get(name, {"error": "missing"})
        if "error" in n or "error" in r:
            bad += 1
            print(f"{name:28} {n.get('error', '')} | {r.get('error', '')}")
            continue
        same = n.get("check", []) == r.get("check", [])
        bad += not same
        unit = n.get("unit", "ms")
        a, b = n.get("value", n.get("ms")), r.get("value", r.get("ms"))
        print(f"{name:28} {a:10.3f} {b:10.3f} {b / a if a else 0:7.2f}  "
              f"{unit}{'' if not n.get('check') else ', same' if same else ', DIFFERENT'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
