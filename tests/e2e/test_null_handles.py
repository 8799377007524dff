"""tests/e2e/test_null_handles.py - what calls answer to NULL and zero handles, against an H200's answers.

`tests/null_handles/h200.answers` is what the program printed natively on an H200 (driver 580). The differences that
are left are in `tests/null_handles/differences`, a line each: state, call, the H200's answer, ours. All are errors on
both sides. A difference that is new fails the test, and so does one that is listed and gone.
"""
import pytest

from conftest import DRIVER, KIND, ROOT, client_env, run

FOLDER = ROOT / "tests" / "null_handles"
pytestmark = [pytest.mark.skipif(DRIVER != "emu", reason="the list is of the emulated driver's answers"),
              pytest.mark.skipif(bool(KIND), reason="wrong pointers are the point")]


def answers(text):
    return {tuple(line.split()[:2]): line.split()[2].removeprefix("CUDA_ERROR_") for line in text.splitlines()}


@pytest.mark.parametrize("way", ("shm", "tcp"))
def test_answers_are_those_of_an_h200_but_for_the_list(server, way):
    result = run([ROOT / "cpu" / "build" / "null_handles"], client_env(server.address(way)), timeout=120)
    assert result.status == 0, result.err
    native = answers((FOLDER / "h200.answers").read_text(encoding="utf-8"))
    ours = answers(result.out)
    assert set(ours) >= set(native)     # calls of later releases have no answer of that driver
    differ = [f"{state} {call} {native[state, call]} {ours[state, call]}"
              for state, call in native if native[state, call] != ours[state, call]]
    assert differ == (FOLDER / "differences").read_text(encoding="utf-8").splitlines()
