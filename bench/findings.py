#!/usr/bin/env python3
"""bench/findings.py PROGRAM SOURCE COMMAND SANITIZER [KERNEL...] - the faulty kernels of SOURCE (tests/test_apps/kernel_errors.cu), one
run each: what `cricket run -s emu --check` reports, beside compute-sanitizer's memcheck, racecheck and initcheck of shared memory on the GPU.

A cell has the lines of the source that a report names, `-` without a report, and `?` for a report without a line.
"""
import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TOOLS = {"race": ["racecheck"], "uninitialised": ["initcheck", "--initcheck-address-space", "shared"], "fault": ["memcheck"]}
AT_ONCE = min(8, os.cpu_count() or 1)
TIMEOUT = 60


def output(*words):
    """What a program prints; its status does not matter."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"failed: {error}"
    return done.stdout


def kernels_of(source):
    """{kernel: {(kind, line)}} as the comments of the source say."""
    found, kernel = {}, None
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        if head := re.match(r"__global__ void (\w+)\(", line):
            kernel = found.setdefault(head[1], set())
        if what := re.search(r"/\* finds ([\w ]+) here \*/", line):
            kernel.add((what[1] if what[1] in TOOLS else "fault", number))
    return found


def lines_in(text, source):
    """The numbers of the source's lines that a report names; {None}: it names none."""
    return {int(n) for n in re.findall(rf"{re.escape(source.name)}:(\d+)", text)} or {None}


def emulated(command, program, kernel, source):
    found = set()
    for line in output(command, "run", "-s", "emu", "--check", "--", program, kernel).splitlines():
        if report := re.match(r"cricket: (race|uninitialised|fault): ", line):
            found |= {(report[1], n) for n in lines_in(line, source)}
    return found


def supported(sanitizer):
    """The tools that this version has: initcheck of shared memory came after CUDA 13.0."""
    known = output(sanitizer, "--help")
    return {kind: tool for kind, tool in TOOLS.items() if all(word in known for word in tool if word.startswith("--"))}


def sanitized(sanitizer, tools, program, kernel, source):
    """Each report has several lines, which all begin with =========. An error that the program sees is a report of memcheck."""
    found = set()
    for kind, tool in tools.items():
        text = output(sanitizer, "--tool", *tool, "--show-backtrace", "device", program, kernel)
        total = re.search(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", text)
        if not total:
            found.add((f"{tool[0]} failed: {text.strip().splitlines()[-1].strip('= ') if text.strip() else 'no output'}", None))
        elif int(total[1] or total[2]):
            found |= {(kind, n) for n in lines_in(text, source)}
    return found


def cell(found):
    rows = [f"{kind} {' '.join('?' if n is None else str(n) for n in sorted((n for k, n in found if k == kind), key=str))}"
            for kind in sorted({kind for kind, _ in found})]
    return ", ".join(rows) or "-"


def main():
    program, source, command, sanitizer = sys.argv[1:5]
    source = pathlib.Path(source)
    wanted = kernels_of(source)
    names = sys.argv[5:] or list(wanted)
    tools = supported(sanitizer)
    for kind in TOOLS.keys() - tools.keys():
        print(f"this compute-sanitizer has no {' '.join(TOOLS[kind])}")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ours = list(pool.map(lambda k: emulated(command, program, k, source), names))
        theirs = list(pool.map(lambda k: sanitized(sanitizer, tools, program, k, source), names))
    print("| kernel | error | emulated GPU | compute-sanitizer |\n|---|---|---|---|")
    for name, mine, other in zip(names, ours, theirs):
        print(f"| {name} | {cell(wanted[name])} | {cell(mine)} | {cell(other)} |")
    compared = [{(k, n) for k, n in mine if k in tools} for mine in ours]
    kinds = [({k for k, _ in mine}, {k for k, _ in other}) for mine, other in zip(compared, theirs)]
    print(f"{sum(m == o for m, o in kinds)} of {len(names)} kernels with the same kinds of errors, {sum(m == o for m, o in zip(compared, theirs))} "
          f"with the same lines; only the emulated GPU reports {sum(bool(m - o) for m, o in kinds)}, only compute-sanitizer "
          f"{sum(bool(o - m) for m, o in kinds)}")


if __name__ == "__main__":
    main()
