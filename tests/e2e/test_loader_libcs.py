"""tests/e2e/test_loader_libcs.py - kernel-loader with other releases' C libraries, where they have been
unpacked and the tests' programs have been built with them: tests/loader/libcs.sh does that.
"""
import os
import re

import pytest

from conftest import ROOT, SAN, TSAN, clean_env, run
from test_loader import CHECK_NAMES, maps

LIBCS = sorted(p.parent for p in (ROOT / "build" / "libcs").glob("*/bin") if (p / "checks").exists())

pytestmark = [
    pytest.mark.skipif(SAN or TSAN, reason="the loader runs without a libc, so without a sanitizer"),
    pytest.mark.skipif(not LIBCS, reason="no other libc: tests/loader/libcs.sh fetches some"),
]


def load(libc, *command, options=()):
    halves = [w for name in ("toy", "other") for w in ("--lh", f"{name}={libc / 'bin' / name}_lh.exe")]
    return run([libc / "bin" / "kernel-loader", *halves, *options, "--", *command], clean_env(), 60)


@pytest.fixture(name="libc", params=LIBCS or [None], ids=lambda p: p.name if p else "none")
def fixture_libc(request):
    return request.param


def test_its_system_calls_are_found(libc):
    files = [libc / "root/lib/x86_64-linux-gnu" / name for name in ("ld-linux-x86-64.so.2", "libc.so.6")]
    result = run([libc / "bin" / "kernel-loader", "--check", *files], clean_env())
    assert (result.status, result.out.count(": known")) == (0, 2), result.err


@pytest.mark.parametrize("program", ["checks", "checks_fixed"])
@pytest.mark.parametrize("check", CHECK_NAMES)
def test_check(libc, program, check):
    result = load(libc, libc / "bin" / program, check)
    assert (result.status, result.out.splitlines()[-1]) == (0, f"{check} ok"), result.err


def test_every_mapping_lies_in_its_window(libc):
    lines = maps(load(libc, libc / "bin" / "empty", options=["--map"]))
    files = {half: {os.path.basename(n) for h, _, _, n in lines if h == half} for half, *_ in lines}
    assert not [n for n in files["kernel"] if not re.match(r"\[", n)], files["kernel"]
    for half in ("toy", "other", "upper"):
        assert [n for n in files[half] if re.match(r"libc[.-]", n)] and [n for n in files[half] if n.startswith("ld-")]
