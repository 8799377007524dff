"""tests/gen/test_layers.py - the checks of the layers can fail."""
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check_includes(tree):
    return subprocess.run([tree / "tools" / "check-includes"], capture_output=True, text=True, timeout=60, check=False)


def layers_of(folder):
    """The sub-folders of FOLDER, the lowest first."""
    lines = (ROOT / "tools" / "layers").read_text().splitlines()
    return next(line.split(":")[1].split() for line in lines if line.startswith(f"layers {folder}:"))


@pytest.mark.parametrize("folder", ["client", "server", "emu", "emu/ptx", "launcher", "command"])
def test_the_readme_has_the_layers_in_their_order(folder):
    rows = re.findall(r"^\| \[(\w+)\]\(\1/README.md\) \|", (ROOT / folder / "README.md").read_text(), re.M)
    assert rows == [name for name in layers_of(folder) if (ROOT / folder / name).is_dir()]
    assert sorted(rows) == sorted(p.name for p in (ROOT / folder).iterdir() if p.is_dir() and any(p.rglob("*.c")))


def test_the_client_ends_contexts_in_the_order_of_its_layers():
    names = re.findall(r"\tCK_LAYER_(\w+),?$", (ROOT / "client" / "link" / "hooks.h").read_text(), re.M)
    assert [name.lower() for name in names] == layers_of("client") + ["count"]


def tree_with(tmp_path, name, line):
    """A checkout of one file that includes LINE."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "check-includes", tmp_path / "tools")
    shutil.copy(ROOT / "tools" / "layers", tmp_path / "tools")
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
    ran = check_includes(tree_with(tmp_path, "client/x.c", "client/link/lane.h"))
    assert ran.returncode != 0
    assert "belongs into a sub-folder" in ran.stdout


@pytest.mark.parametrize("name, line", [("emu/objects/x.c", "emu/graphs/graph.h"), ("emu/core/x.h", "emu/ptx/language/ptx.h"),
                                        ("emu/ptx/memory/x.h", "emu/ptx/parse/parse.h"), ("emu/ptx/ops/x.c", "emu/objects/context.h"),
                                        ("server/memory/x.c", "emu/core/emu.h"), ("emu/memory/x.c", "emu/other/x.h")])
def test_the_emulated_driver_has_layers_too(tmp_path, name, line):
    ran = check_includes(tree_with(tmp_path, name, line))
    assert ran.returncode != 0
    assert f'may not include "{line}"' in ran.stdout


def test_without_rules_nothing_passes(tmp_path):
    tree = tree_with(tmp_path, "client/wire/x.c", "client/link/lane.h")
    assert check_includes(tree).returncode == 0
    (tree / "tools" / "layers").unlink()
    assert check_includes(tree).returncode != 0


def tree_of(tmp_path, rules, sizes):
    """tools/check-includes of a tree with these RULES, whose folders have so many files: SIZES."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "check-includes", tmp_path / "tools")
    (tmp_path / "tools" / "layers").write_text(rules)
    for folder, size in sizes.items():
        (tmp_path / folder).mkdir(parents=True)
        for i in range(size):
            suffix = ("c", "h", "cc", "def")[i % 4]
            (tmp_path / folder / f"f{i}.{suffix}").write_text('#include "cuda/cuda.h"\n')
    return check_includes(tmp_path)


@pytest.mark.parametrize("size, right", [(8, True), (9, False)])
@pytest.mark.parametrize("folder", ["m3", "emu/core", "emu/ptx/low"])
def test_a_folder_has_so_many_files_at_most(tmp_path, folder, size, right):
    ran = tree_of(tmp_path, "files: 8\nfolder m3:\nfolder emu:\nlayers emu: core ptx\nlayers emu/ptx: low\n", {folder: size, "tests/unit": 20})
    assert (ran.returncode == 0) == right
    assert right or f"{folder}: error: has 9 files: at most 8" in ran.stdout


def calls_checked(tmp_path, rules, sources):
    """What tools/check-layers says of a tree with these RULES and SOURCES (path -> text), compiled."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "check-layers", tmp_path / "tools")
    (tmp_path / "tools" / "layers").write_text(rules)
    for name, text in sources.items():
        path, built = tmp_path / name, (tmp_path / "cpu" / "build" / name).with_suffix(".o")
        path.parent.mkdir(parents=True, exist_ok=True)
        built.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        subprocess.run(["cc", "-w", "-c", "-o", built, path], check=True, timeout=60)
    return subprocess.run([tmp_path / "tools" / "check-layers"], capture_output=True, text=True, timeout=60, check=False)


def test_a_lower_layer_may_not_call_a_higher_one(tmp_path):
    rules = "circle: 4\nfolder emu: util\nlayers emu: core top\n"
    ran = calls_checked(tmp_path, rules, {"emu/core/x.c": "void ck_y(void);\nvoid ck_x(void) { ck_y(); }\n", "emu/top/y.c": "void ck_y(void) {}\n"})
    assert ran.returncode != 0
    assert "emu/core/x.c: error: calls the higher emu/top/y.c: ck_y" in ran.stdout


def test_layers_within_a_layer_are_checked_too(tmp_path):
    rules = "circle: 4\nfolder emu: util\nlayers emu: core ptx top\nlayers emu/ptx: low high\n"
    ran = calls_checked(tmp_path, rules, {"emu/ptx/low/x.c": "void ck_y(void);\nvoid ck_z(void);\nvoid ck_x(void) { ck_y(); ck_z(); }\n",
                                          "emu/ptx/high/y.c": "void ck_y(void) {}\n", "emu/core/z.c": "void ck_z(void) {}\n"})
    assert ran.returncode != 0
    assert "emu/ptx/low/x.c: error: calls the higher emu/ptx/high/y.c: ck_y" in ran.stdout
    assert "ck_z" not in ran.stdout


@pytest.mark.parametrize("name, line, right", [("emu/objects/x.c", "emu/ptx/language/ptx.h", True), ("emu/ptx/ops/x.c", "emu/core/emu.h", True),
                                               ("emu/ptx/run/x.c", "emu/ptx/ops/ops.h", True), ("emu/ptx/x.c", "emu/core/emu.h", False)])
def test_a_layer_of_a_layer_includes_what_that_one_may(tmp_path, name, line, right):
    assert (check_includes(tree_with(tmp_path, name, line)).returncode == 0) == right


def test_a_higher_layer_may_call_a_lower_one(tmp_path):
    rules = "circle: 4\nfolder emu: util\nlayers emu: core top\n"
    ran = calls_checked(tmp_path, rules, {"emu/core/x.c": "void ck_x(void) {}\n", "emu/top/y.c": "void ck_x(void);\nvoid ck_y(void) { ck_x(); }\n"})
    assert ran.returncode == 0


def ring(size):
    """Files of one folder without layers, each of which calls the next."""
    return {f"m3/f{i}.c": f"void m3_f{(i + 1) % size}(void);\nvoid m3_f{i}(void) {{ m3_f{(i + 1) % size}(); }}\n" for i in range(size)}


@pytest.mark.parametrize("size, right", [(4, True), (5, False)])
def test_a_circle_has_four_files_at_most(tmp_path, size, right):
    circle = [line for line in (ROOT / "tools" / "layers").read_text().splitlines() if line.startswith("circle")]
    ran = calls_checked(tmp_path, f"{circle[0]}\nfolder m3:\n", ring(size))
    assert (ran.returncode == 0) == right
    assert right or "m3: error: 5 files call each other in a circle" in ran.stdout


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


# --- the tests of whole programs

def test_a_product_is_named_by_the_kind_of_its_build():
    """A clone that was built with sanitizers alone has no cpu/cricket: tests that run there use conftest's PRODUCTS."""
    for path in sorted((ROOT / "tests" / "e2e").glob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        plain = set(re.findall(r'ROOT / "cpu" / "((?:cricket|lib|m3-server|gpu_launcher)[^"]*)"', text))
        skipped = re.search(r"^pytestmark = .*?skipif\((?:bool\(KIND\)|SAN or TSAN)", text, re.M | re.S)
        assert not plain or skipped, f"{path.name}: {plain}: by PRODUCTS"
