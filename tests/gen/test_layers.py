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


def names_checked(tmp_path, source):
    """What tools/check-names says of a tree whose client has the file SOURCE, compiled."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=lambda _, names: [n for n in names if n != "check-names"])
    for folder in ("client", "server", "launcher", "command", "slurm", "emu", "m3", "wcm", "rpc", "util", "elf", "libcuda"):
        for text, path in ((source if folder == "client" else "static int unused;\n", tmp_path / folder / "x.c"),):
            path.parent.mkdir()
            path.write_text(text)
            built = tmp_path / "cpu" / "build" / folder / "x.o"
            built.parent.mkdir(parents=True)
            subprocess.run(["cc", "-w", "-c", "-o", built, path], check=True, timeout=60)
    return subprocess.run([tmp_path / "tools" / "check-names"], capture_output=True, text=True, timeout=60, check=False)


def test_a_name_without_its_prefix_is_refused(tmp_path):
    ran = names_checked(tmp_path, "void ckc_right(void) {}\nvoid cks_wrong(void) {}\n")
    assert ran.returncode != 0
    assert "cks_wrong does not begin with ckc_" in ran.stdout and "ckc_right" not in ran.stdout


def test_names_with_their_prefix_pass(tmp_path):
    assert names_checked(tmp_path, "void ckc_right(void) {}\nint ck_wire_x;\n").returncode == 0
