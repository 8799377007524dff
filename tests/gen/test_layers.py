"""tests/gen/test_layers.py - the checks of the layers can fail."""
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check_includes(tree):
    return subprocess.run([tree / "tools" / "check-includes"], capture_output=True, text=True, timeout=60, check=False)


def tree_with(tmp_path, name, line):
    """A checkout of one file that includes LINE."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "check-includes", tmp_path / "tools")
    source = tmp_path / name
    source.parent.mkdir(parents=True)
    source.write_text(f'#include "{line}"\n')
    return tmp_path


def test_a_lower_layer_may_not_include_a_higher_one(tmp_path):
    ran = check_includes(tree_with(tmp_path, "client/wire/x.c", "client/memory/pool.h"))
    assert ran.returncode != 0
    assert 'client/wire may not include "client/memory/pool.h"' in ran.stdout


def test_a_higher_layer_may_include_a_lower_one(tmp_path):
    assert check_includes(tree_with(tmp_path, "server/graphs/x.c", "server/session/session.h")).returncode == 0


def test_a_source_belongs_into_a_layer(tmp_path):
    ran = check_includes(tree_with(tmp_path, "client/x.c", "client/wire/lane.h"))
    assert ran.returncode != 0
    assert "belongs into a sub-folder" in ran.stdout
