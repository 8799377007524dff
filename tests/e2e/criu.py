"""tests/e2e/criu.py - CRIU for the tests that dump and restore processes: which program, and whether it can work here.

tools/criu.sh brings it from Debian 13; where it cannot be had, or cannot work, the tests are skipped.
"""
import functools
import os
import subprocess

import pytest

from conftest import ROOT, SAN, TSAN


@functools.cache
def obstacle():
    """(the program, None), or (None, the reason why there is none)."""
    if SAN or TSAN:
        return None, "the shadow memory of a sanitizer is more than CRIU dumps"
    if os.geteuid() != 0:
        return None, "CRIU dumps other processes as root only"
    brought = subprocess.run([ROOT / "tools" / "criu.sh"], capture_output=True, text=True, timeout=300)
    if brought.returncode == 3:
        return None, "no CRIU: " + brought.stderr.strip()
    assert brought.returncode == 0, brought.stderr
    program = brought.stdout.strip()
    check = subprocess.run([program, "check"], capture_output=True, text=True, timeout=60)
    if check.returncode != 0:
        return None, "CRIU cannot work here: " + (check.stderr.strip().splitlines() or ["?"])[-1]
    return program, None


def criu():
    """The path of a CRIU that works; skips the test where there is none."""
    program, why = obstacle()
    if why:
        pytest.skip(why)
    return program
