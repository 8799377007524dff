"""tests/e2e/test_check.py - CRICKET_EMU=check=...: races and uninitialised reads of nvcc's programs in shared memory."""
import re

import pytest

from conftest import DRIVER, EXPECTED, Server, client_env, run

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="the emulated driver was not asked for")
# What is wrong in each kernel of shared_races.cu: what is found, and the two instructions.
MISTAKES = {
    "no_barrier": ("race", {"st", "ld"}),
    "warp_synchronous": ("race", {"st", "ld"}),
    "no_wait": ("race", {"cp.async.cg", "ld"}),
    "unwritten": ("uninitialised", {"ld"}),
    "same_place": ("race", {"st"}),
    "no_fence": ("race", {"st", "ld"}),
}


def told(app, folder, program, check):
    """The lines that the server has logged when @program has run on it."""
    server = Server(folder, CRICKET_EMU=f"check={check}")
    try:
        result = run([app(program)], client_env(server.address("unix")))
        assert result.out == (EXPECTED / f"{program}.txt").read_text(), result.err
        assert result.status == 0
        server.wait_idle()
        return [line for line in server.log().splitlines() if "of the PTX" in line]
    finally:
        server.kill()


def test_each_mistake_is_told_in_a_line(app, tmp_path):
    lines = told(app, tmp_path / "server", "shared_races", "race+init")
    for kernel, (what, instructions) in MISTAKES.items():
        about = [line for line in lines if re.search(rf"{what}: kernel \w*{kernel}\w*, block \d,0,0: ", line)]
        assert about, (kernel, lines)
        for line in about:      # a loop that the compiler has unrolled has several places
            assert set(re.findall(r"'([a-z.]+)', line \d+", line)) == instructions
            assert re.search(r"thread \d+,0,0 (reads|writes) (0|0x\w+) of shared memory \(\w+ \+ \d+\)", line)
            lines.remove(line)
    assert not lines


def test_only_what_is_asked_for_is_told(app, tmp_path):
    lines = told(app, tmp_path / "init", "shared_races", "init")
    assert len(lines) == 1 and "uninitialised" in lines[0]
    assert not told(app, tmp_path / "none", "shared_races", "")


@pytest.mark.parametrize("program", ("shared_idioms", "reduction", "matmul", "block_algorithms"))
def test_the_ways_of_the_guide_are_no_race(app, tmp_path, program):
    assert told(app, tmp_path / "server", program, "race+init") == []


def test_instructions_are_counted(app, tmp_path):
    server = Server(tmp_path / "server", CRICKET_EMU="check=count")
    try:
        run([app("vector_add")], client_env(server.address("unix")))
        server.wait_idle()
        counts = [int(n) for n in re.findall(r"kernel \w+: (\d+) instructions of lanes", server.log())]
        assert counts and min(counts) > 100
    finally:
        server.kill()


def test_a_word_that_is_none_is_said(app, tmp_path):
    server = Server(tmp_path / "server", CRICKET_EMU="check=races")
    try:
        run([app("vector_add")], client_env(server.address("unix")))
        assert "CRICKET_EMU: check=races is not one of race, init, bounds, count" in server.log()
    finally:
        server.kill()
