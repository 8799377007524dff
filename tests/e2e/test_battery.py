"""tests/e2e/test_battery.py - the battery of tests/gpu itself: what it says of cases that go wrong.

Both sides use the emulated GPU; the side is told by a file that only the first run finds missing.
"""
import json
import sys

import pytest

from conftest import DRIVER, KIND, ROOT, clean_env, run

pytestmark = [pytest.mark.skipif(DRIVER != "emu", reason="bench/gpu.sh battery runs it on a real GPU"),
              pytest.mark.skipif(bool(KIND), reason="it takes the products without sanitizers")]
BATTERY = ROOT / "tests" / "gpu" / "battery.py"

CASES = '''
import os, pathlib, signal, time
from harness import case, Missing
FOLDER = pathlib.Path(os.environ["FOLDER"])

def times(name):
    """How often this has been called, over all processes."""
    file = FOLDER / name
    file.write_text(file.read_text() + "x" if file.exists() else "")
    return len(file.read_text())

@case()
def same(): return {"a": [1, 2.5, "text"]}

@case(tolerance=1e-2)
def near(): return 1.0 + times("near") * 1e-3

@case()
def other(): return 10 * min(times("other"), 1) if times("third") < 2 else 0

@case()
def varies(): return 1.0 + 1e-6 * times("varies")

@case()
def dies():
    if times("dies"): os.kill(os.getpid(), signal.SIGSEGV)

@case(seconds=1)
def hangs():
    if times("hangs"): time.sleep(30)

@case()
def raises():
    if times("raises"): raise RuntimeError("no such thing")

@case(limit="a limit")
def limited():
    if times("limited"): raise RuntimeError("no such thing")

@case()
def never(): raise RuntimeError("not natively either")

@case()
def absent(): raise Missing("nothing here")

@case(gpus=2)
def two(): return 1

@case(env={"BATTERY_WORD": "told"})
def told(): return os.environ["BATTERY_WORD"]

@case()
def last(): print("words on stdout are no result"); return "still here"
'''

EXPECTED = {
    "same": "equal", "near": "within (0.01)", "other": "differs", "varies": "varies", "dies": "fails (signal 11)",
    "hangs": "fails (no result in 1 s)", "raises": "fails (RuntimeError: no such thing)",
    "limited": "limit (a limit)", "never": "native fails (RuntimeError: not natively either)",
    "absent": "not installed (nothing here)", "two": "not installed (needs 2 GPUs)", "told": "equal",
    "last": "equal", "ends": "equal"}


def battery(folder, *arguments, **env):
    env = clean_env(CRICKET_TEST_DRIVER="emu", BATTERY_GPUS="1", FOLDER=str(folder),
                    PYTHONPATH=str(folder), **env)
    return run([sys.executable, BATTERY, "--out", folder / "out", *arguments], env, timeout=120)


def test_a_case_that_goes_wrong_is_told_and_stops_no_other(tmp_path):
    (tmp_path / "cases_made_up.py").write_text(CASES, encoding="utf-8")
    result = battery(tmp_path, "cases_made_up")
    assert result.status == 1, result.out + result.err
    said = {}
    for line in result.out.splitlines():
        if line.startswith("made_up: "):
            name, rest = line.removeprefix("made_up: ").split(None, 1)
            said[name] = rest.split("  ")[-1]
    for name, word in EXPECTED.items():
        assert said[name].startswith(word), (name, said[name], result.err)
    assert set(said) == set(EXPECTED)
    assert "4 differs" not in result.out
    table = (tmp_path / "out" / "compatibility.md").read_text(encoding="utf-8")
    assert "| made_up: dies |" in table and "How it is run" in table
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert set(results["cases_made_up"]) == set(EXPECTED)


def test_what_there_is_no_time_for_is_not_run(tmp_path):
    (tmp_path / "cases_slow.py").write_text(
        "import time\nfrom harness import case\n"
        "@case()\ndef slow(): time.sleep(60)\n@case()\ndef after(): return 1\n", encoding="utf-8")
    result = battery(tmp_path, "cases_slow", "--seconds", "2")
    assert result.status == 1
    assert "2 not run" in result.out, result.out + result.err


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_programs_run_on_both_sides(tmp_path, app, transport):
    app("vector_add")
    result = battery(tmp_path, "cases_programs", "-k", "^(vector_add|matmul|environment_.*)$",
                     "--transport", transport)
    assert result.status == 0, result.out + result.err
    assert "7 equal" in result.out, result.out
