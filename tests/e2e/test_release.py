"""tests/e2e/test_release.py - tools/check-version: one version in all files, and the tag of a release; GitHub's workflows."""
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import KIND, ROOT, clean_env, run

pytestmark = pytest.mark.skipif(bool(KIND), reason="nothing here depends on sanitizers")
RELEASE = re.search(r"^RELEASE := (.*)$", (ROOT / "cpu" / "Makefile").read_text(encoding="utf-8"), re.M)[1]
IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    """What the check reads, in a repository with one commit."""
    for name in ("cpu/Makefile", "tools/check-version", "CHANGELOG.md", "debian/changelog", "man", "docs", "docker",
                 "tests/data/protocol"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, target)
    git(tmp_path, "init", "-q", ".")
    commit(tmp_path)
    return tmp_path


def git(tree, *words):
    subprocess.run(["git", *words], cwd=tree, env=clean_env(**IDENTITY), check=True, timeout=60, capture_output=True)


def commit(tree):
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "all", "--allow-empty")


def check(tree, *options):
    return run([tree / "tools" / "check-version", *options], clean_env(**IDENTITY))


def change(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_all_places_have_the_version(tree):
    result = check(tree)
    assert (result.status, result.out, result.err) == (0, f"check-version: {RELEASE} in all places\n", "")


@pytest.mark.parametrize("place", [
    "debian/changelog", "CHANGELOG.md", "man/cricket.1", "man/m3-server.8", "docs/install.md", "docs/using.md",
    "docs/kubernetes.md", "docker/kubernetes/client/job.yaml"])
def test_a_place_with_another_version_is_named(tree, place):
    change(tree / place, RELEASE, "9.9.9")
    result = check(tree)
    assert result.status == 1 and place in result.err and "9.9.9" in result.err, result.err


@pytest.mark.parametrize("place", [f"docs/releases/{RELEASE}.md", f"tests/data/protocol/{RELEASE}.txt"])
def test_a_missing_part_of_a_release_is_named(tree, place):
    (tree / place).unlink()
    result = check(tree)
    assert result.status == 1 and f"{place}: missing" in result.err


def test_a_man_page_without_a_version_is_named(tree):
    change(tree / "man" / "m3.1", f'"Cricket {RELEASE}"', '"Cricket"')
    assert "man/m3.1: its first line" in check(tree).err


def test_fix_leaves_what_is_written_by_hand(tree):
    change(tree / "cpu" / "Makefile", f"RELEASE := {RELEASE}", "RELEASE := 9.9.9")
    assert check(tree).status == 1
    lines = check(tree, "--fix").err.splitlines()
    assert [re.search(r"error: (\S+):", line)[1] for line in lines] == [
        "CHANGELOG.md", "debian/changelog", "docs/releases/9.9.9.md", "tests/data/protocol/9.9.9.txt"]
    change(tree / "CHANGELOG.md", f"## {RELEASE} - ", "## 9.9.9 - ")
    change(tree / "debian" / "changelog", RELEASE, "9.9.9")
    for line in lines[2:]:
        pathlib.Path(tree / re.search(r"error: (\S+):", line)[1]).touch()
    assert check(tree).status == 0


@pytest.mark.parametrize("text", ["RELEASE := 1.2", "RELEASE :=", "RELEASE := 1.2.3-rc1"])
def test_a_version_of_another_form_is_refused(tree, text):
    change(tree / "cpu" / "Makefile", f"RELEASE := {RELEASE}", text)
    result = check(tree)
    assert result.status == 1 and "no version like 1.2.3" in result.err


def test_a_release_has_its_own_tag_or_none(tree):
    assert check(tree, "--tag").status == 0
    git(tree, "tag", "-m", "it", f"v{RELEASE}")
    assert check(tree, "--tag").status == 0
    git(tree, "tag", "v9.9.9")
    result = check(tree, "--tag")
    assert result.status == 1 and "the tag v9.9.9 is on this commit" in result.err
    assert check(tree).status == 0


def test_a_version_is_released_once(tree):
    git(tree, "tag", "-m", "it", f"v{RELEASE}")
    commit(tree)
    result = check(tree, "--tag")
    assert result.status == 1 and f"the tag v{RELEASE} is on another commit" in result.err


def test_make_release_begins_with_the_check():
    plan = subprocess.run(["make", "-n", "--no-print-directory", "release"], cwd=ROOT, env=clean_env(), capture_output=True,
                          text=True, timeout=120, check=True)
    assert plan.stdout.startswith("tools/check-version --tag")


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda p: p.stem)
def test_a_workflow_runs_what_is_there(path):
    yaml = pytest.importorskip("yaml", reason="python3-yaml is missing (make deps)")
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    options = run([ROOT / "tools" / "deps.sh", "--help"], clean_env()).out
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = [c.split() for job in workflow["jobs"].values() for step in job["steps"] for c in step.get("run", "").split("&&")]
    ours = [c for c in commands if c[:1] and ("/" in c[0] or c[0] == "make")]
    assert ours
    for program, *words in ours:
        if program == "make":
            assert all(re.search(rf"^{w}:", makefile, re.M) for w in words), words
        else:
            assert (ROOT / program).is_file() and all(w in options for w in words), words
