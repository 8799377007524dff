"""bench/apps/common.py - what a script here prints: a line of numbers, and one of the version and times.

APPS_DEVICE=cpu tries those of PyTorch where there is no GPU.
"""
import importlib.metadata
import json
import os
import sys
import time

DEVICE = os.environ.get("APPS_DEVICE", "cuda")
MISSING = 77            # the status that says: something is not installed here


def missing(what):
    """Ends the script: it needs WHAT, which is not installed."""
    print(what, file=sys.stderr)
    sys.exit(MISSING)


def version_of(package):
    return f"{package} {importlib.metadata.version(package)}"


def rounded(numbers):
    """NUMBERS as JSON can hold them: lists of integers, texts, and floats of 32 bits' precision."""
    if isinstance(numbers, (list, tuple)):
        return [rounded(n) for n in numbers]
    return numbers if isinstance(numbers, (int, str)) else float(f"{float(numbers):.9g}")


def report(version, work):
    """Runs WORK twice: the first run compiles and loads, the second is timed and gives the numbers."""
    began = time.perf_counter()
    rounded(work())         # reads the numbers: what has been launched does not reach into the second run
    middle = time.perf_counter()
    numbers = work()
    end = time.perf_counter()
    print(json.dumps({"numbers": rounded(numbers)}))
    print(json.dumps({"version": version, "first_s": round(middle - began, 4), "seconds": round(end - middle, 4)}),
          flush=True)
