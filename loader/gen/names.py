#!/usr/bin/env python3
"""loader/gen/names.py - the two generated files of a half whose functions pass as they are.

    names.py LIST --c OUT.c --s OUT.S

LIST has a function a line: its name, and how many words of its arguments lie on the stack (none
said: 0; six integer or pointer arguments and eight floating ones do not). '#' begins a comment.
OUT.c is linked into both ends, OUT.S into the stub.
"""
import argparse
import pathlib
import sys

import common


def read(path):
    functions = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) > 2 or (len(words) == 2 and not words[1].isdigit()):
            sys.exit(f"{path}:{number}: error: not a name and a number: {line}")
        count = int(words[1]) if len(words) == 2 else 0
        if count > 16:
            sys.exit(f"{path}:{number}: error: more than 16 words on the stack")
        functions.append((words[0], count))
    return functions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list", type=pathlib.Path)
    parser.add_argument("--c", type=pathlib.Path, required=True)
    parser.add_argument("--s", type=pathlib.Path, required=True)
    args = parser.parse_args()
    functions = read(args.list)
    args.c.write_text(common.names_c("names.py", [n for n, _ in functions]))
    args.s.write_text(common.entries_s("names.py", functions, lambda name: name))


if __name__ == "__main__":
    main()
