#!/usr/bin/env python3
"""loader/gen/cuda.py - both ends of the CUDA half, from the output of tools/apigen.py for rpc/driver.api.

    cuda.py --map client.map --api api.h --api nvml_api.h --cc 'gcc -I..' --hand cuda.c --out FOLDER

Every cu and nvml name that the client exports passes as it is, except those that --hand defines in
the stub: they have functions among their arguments, or answer with addresses. Names without a
prototype are calls that the client refuses; a real driver may take them, so MOST_WORDS are passed.
FOLDER gets names.c (both ends), entries.S and table.c (the stub), and by_value.txt: the names that
take a structure by value, for the test that calls each of them.
"""
import argparse
import pathlib
import re
import shlex

import common
import words

MOST_WORDS = 16     # stubs/call.S has code for no more
DYNAMIC = 2048      # entries for functions that no table names


def prototypes(headers):
    return {name: words.split(params) for header in headers for name, params in
            re.findall(r"^\w+[\w *]*?\b(\w+)\(([^;]*)\);", header.read_text(), re.M)}


def functions(exported, headers, compiler):
    """([(name, words on the stack)], [names that take an aggregate by value])"""
    params = {n: t for n, t in prototypes(headers).items() if n in exported}
    types = sorted({t for row in params.values() for t in row if t})
    measured = {**words.measure(types, [h.resolve() for h in headers], compiler), None: None}
    table = []
    for name in exported:
        count = words.on_stack([measured[t] for t in params[name]]) if name in params else MOST_WORDS
        if count > MOST_WORDS:
            raise words.Unknown(f"{name} has {count} words on the stack, and stubs/call.S passes {MOST_WORDS}")
        table.append((name, count))
    return table, [n for n in exported if any(words.is_aggregate(measured[t]) for t in params.get(n, []))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--map", type=pathlib.Path, required=True)
    parser.add_argument("--api", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--cc", type=shlex.split, required=True)
    parser.add_argument("--hand", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    exported = re.findall(r"^\s*((?:cu|nvml)[A-Z]\w*);", args.map.read_text(), re.M)
    try:
        table, by_value = functions(exported, args.api, args.cc)
    except words.Unknown as why:
        raise SystemExit(f"cuda.py: error: {why}") from None
    hand = set(re.findall(r"^API (?:CUresult|nvmlReturn_t) (\w+)\(", args.hand.read_text(), re.M))
    hand |= {f"{n}_ptsz" for n in re.findall(r"^PER_THREAD\((cu\w+),", args.hand.read_text(), re.M)}
    unknown = hand - {n for n, _ in table}
    if unknown:
        raise SystemExit(f"cuda.py: error: the client does not export {', '.join(sorted(unknown))}")
    (args.out / "names.c").write_text(common.names_c("cuda.py", [n for n, _ in table]))
    (args.out / "by_value.txt").write_text("".join(f"{n}\n" for n in by_value))
    hidden = {f"lh_{n}" for n in hand}
    dynamic = [(f"lh_dynamic{i}", MOST_WORDS) for i in range(DYNAMIC)]
    entries = common.entries_s("cuda.py", table + dynamic,
                               lambda n: f"lh_{n}" if n in hand else n,
                               hidden | {n for n, _ in dynamic})
    # Functions without names go through code that checks their arguments first.
    entries = re.sub(rf"(lh_dynamic\d+:\n.*?)jmp lh_call{MOST_WORDS}\n", r"\1jmp lh_call_dynamic\n",
                     entries, flags=re.S)
    (args.out / "entries.S").write_text(entries)
    rows = "".join(f"\t{n},\n" for n, _ in table)
    externs = "".join(f"extern char {n}[];\n" for n, _ in table)
    (args.out / "table.c").write_text(
        f'/* {common.BANNER.format("cuda.py")} */\n#include "loader/stubs/cuda.h"\n\n{externs}\n'
        f"const unsigned int lh_count = {len(table)};\n"
        f"void *const lh_entries[] = {{\n{rows}}};\n\n"
        f"extern char lh_dynamic0[], lh_dynamic1[];\n"
        f"void *lh_dynamic_entry(unsigned int i)\n{{\n"
        f"\treturn i < {DYNAMIC} ? lh_dynamic0 + (lh_dynamic1 - lh_dynamic0) * i : 0;\n}}\n")


if __name__ == "__main__":
    main()
