"""tests/e2e/test_direct.py - CUDA programs on the emulated driver itself, without client and server.

What they print is what they print on a real GPU: expected/NAME.txt, as through the server.
"""
import re

import pytest

from conftest import DRIVER, EMULATED, EXPECTED, KIND, PRODUCTS, TSAN, clean_env, run, runtime, with_words
from test_apps import ASSERTION, BUILDS, INTERPOSED

# With TSan the same driver runs the same programs behind the server.
pytestmark = pytest.mark.skipif(DRIVER != "emu" or TSAN, reason="not with this driver or sanitizer")

# The sanitizers are slow: with them each program in one of its builds.
# These do what is wrong, and the driver says so on stderr as well; nothing else writes there.
TOLD = {"answers", "fault", "driver_ptx", "link_ptx"}
RUNS = [(name, build) for name, build in BUILDS if not KIND or build == name]


@pytest.mark.parametrize("name, build", RUNS, ids=[build for _, build in RUNS])
def test_program_prints_what_it_prints_on_a_real_gpu(app, direct_env, name, build):
    if KIND and name in INTERPOSED:
        pytest.skip("the sanitizer takes functions of the C library that the program uses")
    result = run([app(build)], direct_env)
    assert result.out == (EXPECTED / f"{name}.txt").read_text(), result.err
    assert result.status == 0, result.err
    if name == "assertion":
        assert re.search(ASSERTION, result.err, re.MULTILINE)
    elif name not in TOLD:
        assert result.err == ""


@pytest.mark.parametrize("build", ["vector_add", "vector_add_shared", "driver_ptx"])
def test_the_emulated_driver_can_be_preloaded(app, build):
    result = run([app(build)], clean_env(LD_PRELOAD=f"{runtime()}:{EMULATED}".lstrip(":")))
    assert result.out == (EXPECTED / f"{build.removesuffix('_shared')}.txt").read_text(), result.err
    assert result.status == 0


def test_the_folder_has_the_names_that_programs_look_for():
    for name in ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"):
        assert (PRODUCTS / "emu" / name).resolve() == EMULATED.resolve()


def test_the_folder_works_from_anywhere(app, direct_env, tmp_path):
    """A copy of the folder and of the library beside it is all that a program needs."""
    (tmp_path / "emu").mkdir()
    (tmp_path / EMULATED.name).write_bytes(EMULATED.read_bytes())
    (tmp_path / "emu" / "libcuda.so.1").symlink_to(f"../{EMULATED.name}")
    result = run([app("first_kernel")], dict(direct_env, LD_LIBRARY_PATH=str(tmp_path / "emu")))
    assert result.status == 0, result.err


def test_several_devices(app, direct_env):
    result = run([app("peer_copy")], with_words(direct_env, "CRICKET_EMU", "devices=2"))
    assert result.status == 0, result.err
    assert result.out == (EXPECTED / "peer_copy.txt").read_text()


def test_no_device_is_said(app, direct_env):
    result = run([app("environment"), "devices"], with_words(direct_env, "CRICKET_EMU", "devices=0"))
    assert result.out.split() == ["cudaErrorNoDevice"]


def test_memory_has_the_size_that_was_asked_for(app, direct_env):
    result = run([app("out_of_memory")], with_words(direct_env, "CRICKET_EMU", "memory=64M"))
    assert result.status == 0, result.err
    assert result.out == (EXPECTED / "out_of_memory.txt").read_text()
