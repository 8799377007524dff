"""tests/gen/test_goldens.py - what tools/apigen.py makes of a small table, and that what it made
of the real one is not stale."""
import shutil

import pytest

from helpers import DATA, ROOT, TABLE, apigen

GOLDEN = DATA / "golden"
SMALL = [DATA / "small.api", "--control", DATA / "control.x", "--types", DATA / "enums.h"]


def files_in(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.fixture(scope="module", name="made")
def made_from_the_small_table(tmp_path_factory):
    out = tmp_path_factory.mktemp("made")
    assert apigen(*SMALL, "--out", out, "--coverage", out / "coverage.md",
                  "--x", out / "stock.x") == (0, "")
    return out


def test_the_same_files_are_made(made):
    assert files_in(made) == files_in(GOLDEN)


@pytest.mark.parametrize("name", files_in(GOLDEN))
def test_each_file_is_as_it_was(made, name):
    assert (made / name).read_text() == (GOLDEN / name).read_text(), (
        f"{name} changed; if it should have, make golden/ anew (tests/gen/README.md)")


def test_the_protocol_differs_from_that_of_the_build_only_in_bulk_data():
    ours = (GOLDEN / "cricket.x").read_text().split("*/", 2)[2]
    stock = (GOLDEN / "stock.x").read_text().split("*/", 2)[2]
    assert stock != ours
    assert stock.replace("opaque data<>;\n\tint moved;", "opaque data<>;") \
        .replace("opaque data<>", "unsigned int data_length") == ours


def test_a_file_that_is_right_is_not_written_again(tmp_path):
    out = tmp_path / "out"
    shutil.copytree(GOLDEN, out)
    before = {name: (out / name).stat().st_mtime_ns for name in files_in(out)}
    assert apigen(*SMALL, "--out", out)[0] == 0
    assert {name: (out / name).stat().st_mtime_ns for name in files_in(out)} == before


@pytest.mark.parametrize("option, path", [("--x", ROOT / "rpc" / "cricket.x"),
                                          ("--coverage", ROOT / "docs" / "coverage.md"),
                                          ("--coverage-nvml", ROOT / "docs" / "coverage-nvml.md"),
                                          ("--coverage-nccl", ROOT / "docs" / "coverage-nccl.md")])
def test_what_is_committed_is_not_stale(option, path):
    assert apigen(TABLE, option, path, "--check") == (0, "")


def test_the_check_finds_a_stale_file_and_leaves_it(tmp_path):
    stale = tmp_path / "cricket.x"
    text = (ROOT / "rpc" / "cricket.x").read_text().replace("= 99;", "= 98;")
    stale.write_text(text)
    status, said = apigen(TABLE, "--x", stale, "--check")
    assert (status, said) == (1, f"{stale}: stale: run make gen\n")
    assert stale.read_text() == text
    assert apigen(TABLE, "--x", tmp_path / "none.x", "--check")[0] == 1
    assert not (tmp_path / "none.x").exists()
