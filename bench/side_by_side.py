#!/usr/bin/env python3
"""bench/side_by_side.py [--group] NATIVE REMOTE... - the lines whose last word, an answer, differs, as a table.

Each file is what one program printed: natively, and remotely over each transport. Messages of Cricket are left out.
--group: instead of a row for each line, a row for each pair of answers, with the lines that have it.
"""
import collections
import pathlib
import sys


def answers_of(path):
    """{line without its last word: that word}; lines that occur more than once are numbered."""
    found, seen = {}, collections.Counter()
    for line in pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("cricket: "):
            continue
        what, _, answer = line.strip().rpartition(" ")
        what = " ".join(what.split()).rstrip(":")
        seen[what] += 1
        found[what if seen[what] == 1 else f"{what} ({seen[what]})"] = answer.removeprefix("CUDA_ERROR_").removeprefix("CUDA_")
    return found


def main():
    files = sys.argv[1:]
    grouped = files[0] == "--group"
    sides = [answers_of(path) for path in files[grouped:]]
    lines = list(dict.fromkeys(what for side in sides for what in side))
    rows = {what: tuple(side.get(what, "-") for side in sides) for what in lines}
    different = {what: row for what, row in rows.items() if len(set(row)) > 1}
    if grouped:
        groups = collections.defaultdict(list)
        for what, row in different.items():
            groups[row].append(what)
        for row, whats in sorted(groups.items(), key=lambda g: -len(g[1])):
            print(f"{len(whats):4} {' | '.join(row)}: {', '.join(whats)}")
    else:
        for what, row in different.items():
            print(f"{what}: {' | '.join(row)}")
    print(f"{len(different)} of {len(rows)} answers differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
