#!/usr/bin/env python3
"""bench/wcm_table.py LOG --ranks N --link GB/s - what bench/wcm.sh has measured, as a table in Markdown.

A row a run, a column a segment size: GB/s a rank, the mean over the ranks; in brackets the share of what the links could
carry, for runs over several GPUs.
"""
import argparse
import json

NAMES = {"ipc": "processes, ipc", "vmm": "processes, vmm", "threads": "one process", "own-ipc": "own GPU, cuMemAlloc",
         "own-vmm": "own GPU, exportable", "narrow": "4-byte loads", "each-at": "4-byte loads, At() at each",
         "write": "writes", "add": "atomic adds"}


def size_name(size):
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--link", type=float, required=True)
    args = parser.parse_args()
    rows, sizes = {}, []
    with open(args.log, encoding="utf-8") as log:
        for line in log:
            point = json.loads(line)
            rows.setdefault((point["where"], point["table"], point["kind"]), {})[point["segment"]] = point
            if point["segment"] not in sizes:
                sizes.append(point["segment"])
    light = args.link * args.ranks / (args.ranks - 1) if args.ranks > 1 else None
    print(f"{args.ranks} ranks; GB/s a rank" + (f", and of {light:.0f}" if light else ""))
    print("\n| where | memory | what | " + " | ".join(map(size_name, sizes)) + " |")
    print("|---|---|---|" + "---|" * len(sizes))
    for (where, table, kind), points in rows.items():
        cells = []
        for size in sizes:
            point = points.get(size)
            if not point:
                cells.append("-")
                continue
            share = f" ({100 * point['mean'] / light:.0f} %)" if light and not kind.startswith("own") else ""
            cells.append(("WRONG " if point["wrong"] else "") + f"{point['mean']:.3g}{share}")
        print(f"| {where} | {table} | {NAMES.get(kind, kind)} | " + " | ".join(cells) + " |")


main()
