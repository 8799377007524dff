"""tests/e2e/test_launcher_lean.py - the Lean 4 client: its bytes by its twin, itself where Lean is."""
import base64
import json
import os
import shutil
import struct
import subprocess
import sys
from fractions import Fraction

import pytest

from conftest import DRIVER, HANG, ROOT, SLOW, clean_env
from test_launcher import KERNELS, LAUNCHER, WAY, Answer

LEAN = ROOT / "launcher" / "lean"
GOLDEN = ROOT / "tests" / "data" / "launcher" / "lean" / "requests.jsonl"
sys.path.insert(0, str(LEAN))
from twin import CASES, float_to_json, process_gpu, request_text  # noqa: E402


def golden():
    return GOLDEN.read_text(encoding="utf-8").splitlines()


def launch(text, kernel):
    command = [str(c) for c in (LAUNCHER, *WAY, KERNELS, kernel, *"1 1 1 256 1 1".split())]
    return Answer(subprocess.run(command, input=text.encode(), env=clean_env(), capture_output=True,
                                 timeout=HANG, check=False))


def test_the_twin_writes_the_golden_bytes():
    assert [request_text(*case) for case in CASES] == golden()


def test_scalars_are_written_exactly():
    for value in (0.1, 1e-8, 1e300, -5e-324, 2.2250738585072014e-308, 123456789.125):
        mantissa, _, exponent = float_to_json(value).partition("e")
        assert Fraction(int(mantissa)) * Fraction(10) ** int(exponent or 0) == Fraction(value)
        assert json.loads(float_to_json(value)) == value


def test_the_launcher_takes_the_bytes_and_replies_in_base64():
    results = launch(golden()[0], "saxpyKernel").results
    values = struct.unpack("<4f", base64.b64decode(results["R"]["b64"]))
    assert list(results) == ["X", "Y", "R"] and values == (3.5, 6.0, 8.5, 11.0)
    assert launch(golden()[1], "none").results == {}
    # every number reads, the smallest double included; the kernel has fewer parameters
    launch(golden()[2], "none").error(2, "BAD_INPUT", "and 9 are given")
    third = json.loads(golden()[2])["scalars"]
    args = [{"name": "out", "type": "f64", "n": 8}, 0, 0, 0, 0, {"type": "f64", "data": [third[3]]}, 0, third[4], 0]
    out = launch(json.dumps({"args": args}), "mixed").results["out"]
    assert (out[5], out[7]) == (-1e-310, 1e300)


CHECKS = ["cache", "correctness", "errors", "async", "async error", "large"]
# A compiler that knows one kernel.
COMPILER = r"""#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
grep -q 'this is no CUDA' "$1" && { echo 'error: this is no CUDA' >&2; exit 1; }
cp "$PTX" "$out"
"""
# A launcher whose second to fifth launch go on only when all four have begun.
TOGETHER = r"""#!/bin/bash
[ "$1" = --compile ] && exec "$LAUNCHER" --compiler "$NVCC" "$@"
begun() { ls "$MEET" | wc -l; }
first=$(begun)
touch "$MEET/$$"
for ((i = 0; first > 0 && $(begun) < 5 && i < 300; i++)); do sleep 0.1; done
[ "$first" -gt 0 ] && [ "$(begun)" -lt 5 ] && { echo '{"error": {"stage": "test", "code": "ALONE", "message": ""}}'; exit 1; }
exec "$LAUNCHER" "$@"
"""


@pytest.fixture
def together(tmp_path, monkeypatch):
    """The path of a launcher for test_process_gpu, in an environment for it."""
    for name, text in (("nvcc", COMPILER), ("launcher", TOGETHER)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "meet").mkdir()
    env = clean_env(CRICKET_DRIVER=DRIVER, XDG_CACHE_HOME=str(tmp_path / "cache"), PTX=str(KERNELS),
                    XDG_RUNTIME_DIR=str(tmp_path), LAUNCHER=str(LAUNCHER), NVCC=str(tmp_path / "nvcc"),
                    MEET=str(tmp_path / "meet"))
    for name in set(os.environ) - set(env):
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return str(tmp_path / "launcher")


def test_the_twin_of_the_example_runs_launches_at_the_same_time(together):
    assert list(process_gpu(together, 100000)) == [(what, True) for what in CHECKS]


def test_the_example_in_lean_checks_the_same(together):
    if not shutil.which("lake"):
        pytest.skip("no Lean here (lake): only its twin is tested")
    subprocess.run(["lake", "build"], cwd=LEAN, check=True, timeout=600)
    done = subprocess.run(["lake", "env", "lean", "--run", "test_process_gpu.lean", together], cwd=LEAN, check=True,
                          timeout=120 * SLOW, capture_output=True, text=True)
    assert [line[:-4] for line in done.stdout.splitlines() if line.endswith(": ok")] == CHECKS


def test_lean_itself():
    if not shutil.which("lake"):
        pytest.skip("no Lean here (lake): only the bytes of its twin are tested")
    subprocess.run(["lake", "build"], cwd=LEAN, check=True, timeout=600, env=clean_env())
    done = subprocess.run(["lake", "env", "lean", "--run", "Golden.lean", str(LAUNCHER)], cwd=LEAN, check=True,
                          timeout=120, capture_output=True, text=True, env=clean_env(CRICKET_DRIVER=DRIVER))
    lines = done.stdout.splitlines()
    assert lines[:-1] == golden()
    assert "3.5" in lines[-1] and "8.5" in lines[-1]
