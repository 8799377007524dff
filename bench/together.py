#!/usr/bin/env python3
"""bench/together.py [--at-a-time N] [PROGRAM...] - seconds that each program of tests/test_apps takes among others.

N programs run at a time (10), the next when one ends. Prints a row for each as JSON on the last line. All start a session,
and contexts are made one after the other on a GPU, so that what counts is how much a start costs and what waiting
programs take from those that work. Without PROGRAM: every sixth one of those that end by themselves.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

APPS = pathlib.Path(__file__).resolve().parents[1] / "tests" / "test_apps" / "bin"
# Never end; crash natively; want arguments or a broker.
LEFT_OUT = re.compile("spin|endless|awkward|bad_handles|any_runtime|environment|managed_lost|late_sources|registered|"
                      "m3_|multi_launch")
EVERY = 6
TIME = 60


def programs(names):
    found = sorted(p for p in APPS.iterdir() if p.is_file() and os.access(p, os.X_OK))
    if names:
        return [p for p in found if p.name in names]
    return [p for p in found if not LEFT_OUT.match(p.name)][::EVERY]


def seconds(program):
    begin = time.monotonic()
    status = subprocess.run([program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIME,
                            check=False).returncode
    return time.monotonic() - begin, status


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--at-a-time", type=int, default=10)
    parser.add_argument("program", nargs="*")
    options = parser.parse_args()
    chosen = programs(options.program)
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.at_a_time) as pool:
        taken = list(pool.map(seconds, chosen))
    rows = {p.name: {"value": round(t, 4), "unit": "s", "check": [status]}
            for p, (t, status) in zip(chosen, taken)}
    rows["all"] = {"value": round(time.monotonic() - begin, 4), "unit": "s"}
    print(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(main())
