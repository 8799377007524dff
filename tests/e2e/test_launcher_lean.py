"""tests/e2e/test_launcher_lean.py - the Lean 4 client: its bytes by its twin, itself where Lean is."""
import base64
import concurrent.futures
import json
import re
import shutil
import struct
import subprocess
import sys
from fractions import Fraction

import pytest

from conftest import DRIVER, ROOT, SLOW, clean_env
from test_launcher import KERNELS, LAUNCHER, WAY, Answer

LEAN = ROOT / "launcher" / "lean"
GOLDEN = ROOT / "tests" / "data" / "launcher" / "lean" / "requests.jsonl"
sys.path.insert(0, str(LEAN))
from twin import CASES, float_to_json, request_text  # noqa: E402


def golden():
    return GOLDEN.read_text(encoding="utf-8").splitlines()


def launch(text, kernel):
    command = [str(c) for c in (LAUNCHER, *WAY, KERNELS, kernel, *"1 1 1 256 1 1".split())]
    return Answer(subprocess.run(command, input=text.encode(), env=clean_env(), capture_output=True,
                                 timeout=20 * SLOW, check=False))


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


def test_launches_at_the_same_time_as_the_tasks_of_lean_make_them():
    """Each in a launcher of its own, all from one process."""
    def saxpy(alpha):
        text = request_text([4, alpha], [("X", [1, 2, 3, 4]), ("Y", [1, 1, 1, 1]), ("R", [0, 0, 0, 0])])
        return struct.unpack("<4f", base64.b64decode(launch(text, "saxpyKernel").results["R"]["b64"]))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(saxpy, (1, 2, 3, 4)))
    assert results == [tuple(alpha * x + 1 for x in (1, 2, 3, 4)) for alpha in (1, 2, 3, 4)]


def test_the_example_uses_what_the_client_has():
    """Without a Lean compiler: the names that the example calls are defined, and lake knows the program."""
    example = (LEAN / "test_process_gpu.lean").read_text(encoding="utf-8")
    client = "".join(path.read_text(encoding="utf-8") for path in (LEAN / "CLean" / "GPU").glob("*.lean"))
    called = set(re.findall(r"\b(?:run|execute|await|getCached)Kernel\w*|\bgetCachedKernel\b", example))
    assert {"runKernelGPU_Process", "runKernelGPU_ProcessAsync", "awaitKernel", "getCachedKernel"} <= called
    assert all(re.search(rf"def {name}\b", client) for name in called)
    assert 'name = "test_process_gpu"' in (LEAN / "lakefile.toml").read_text(encoding="utf-8")


def test_lean_itself():
    if not shutil.which("lake"):
        pytest.skip("no Lean here (lake): only the bytes of its twin are tested")
    subprocess.run(["lake", "build"], cwd=LEAN, check=True, timeout=600, env=clean_env())
    done = subprocess.run(["lake", "env", "lean", "--run", "Golden.lean", str(LAUNCHER)], cwd=LEAN, check=True,
                          timeout=120, capture_output=True, text=True, env=clean_env(CRICKET_DRIVER=DRIVER))
    lines = done.stdout.splitlines()
    assert lines[:-1] == golden()
    assert "3.5" in lines[-1] and "8.5" in lines[-1]
    subprocess.run(["lake", "build", "test_process_gpu"], cwd=LEAN, check=True, timeout=600, env=clean_env())
    program = LEAN / ".lake" / "build" / "bin" / "test_process_gpu"
    subprocess.run([program, LAUNCHER, "100000"], cwd=LEAN, check=True, timeout=120, env=clean_env(CRICKET_DRIVER=DRIVER))
