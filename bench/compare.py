#!/usr/bin/env python3
"""bench/compare.py [--ratios] NATIVE REMOTE - a table of two runs of one bench (JSON on the last line).

--ratios: also the median of the ratios, and the one that 90 % of the rows do not exceed.
"""
import json
import sys


def load(path):
    """The rows of a run: of several passes, one JSON line each, the medians; none when it broke off."""
    try:
        with open(path, encoding="utf-8") as f:
            passes = [json.loads(line) for line in f if line.startswith("{") and line.endswith("}\n")]
    except OSError:
        return {}
    rows = passes[-1] if passes else {}
    for name, r in rows.items():
        for key in ("value", "ms"):
            values = sorted(p[name][key] for p in passes if key in p.get(name, {}))
            if key in r:
                r[key] = values[len(values) // 2]
    return rows


def main():
    native, remote = map(load, sys.argv[-2:])
    ratios = []
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
        if a:
            ratios.append(b / a)
        print(f"{name:28} {a:10.3f} {b:10.3f} {b / a if a else 0:7.2f}  "
              f"{unit}{'' if not n.get('check') else ', same' if same else ', DIFFERENT'}")
    if sys.argv[1] == "--ratios" and ratios:
        ratios.sort()
        print(f"ratios: median {ratios[len(ratios) // 2]:.2f}, 90 % {ratios[len(ratios) * 9 // 10]:.2f}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
