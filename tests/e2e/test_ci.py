"""tests/e2e/test_ci.py - .ci/run: which steps run when, with commands that only write down that they were called."""
import re
import shutil
import sys

import pytest

from conftest import KIND, ROOT, clean_env, is_alive, run, wait_until

pytestmark = pytest.mark.skipif(bool(KIND), reason="nothing here depends on sanitizers")
SCRIPTS = sorted(f"{folder}/{p.name}" for folder in ("tools", "tests/systems") for p in (ROOT / folder).iterdir()
                 if p.suffix == ".sh" and p.name != "lib.sh" or p.name in ("check-abi", "check-cuda"))
# By hand, as they take gigabytes, or minutes for images; the last is run by make check-arm64.
BY_HAND = {"tests/systems/first_use.sh", "tests/systems/images.sh", "tests/systems/arm64.sh"}


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    """Its own script, between stubs; FAIL=WORD fails, and SKIP=WORD skips, what is called with that word."""
    stub = '#!/bin/sh\necho "$0 $*" >>"$CALLS"\ncase "$0 $*" in *"${FAIL:-no such word}"*) exit 3 ;; *"${SKIP:-no such word}"*) exit 77 ;; esac\n'
    for name in (".ci/run", *SCRIPTS, "bin/make"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stub)
        path.chmod(0o755)
    shutil.copy2(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    return tmp_path


def ci(tree, *steps, **env):
    """(result, the calls, the summary's lines)"""
    calls = tree / "calls"
    calls.write_text("")
    result = run([tree / ".ci" / "run", *steps], clean_env(PATH=f"{tree / 'bin'}:/usr/bin:/bin", CALLS=str(calls),
                                                                **{"CI_DAY": "0", **env}))
    summary = re.findall(r"^(ok|skipped|FAILED|later) +\d+ s  cpu +\d+ s  (.*)$", result.out, re.M)
    return result, calls.read_text(), summary


def test_the_readme_runs_in_three_systems_each_in_full_on_its_day(tree):
    whole = []
    for day in range(3):
        result, calls, _ = ci(tree, "readme", "starts", CI_DAY=str(day))
        assert result.status == 0, result.err
        ran = re.findall(r"readme.sh (\w+)(.*)", calls)
        assert sorted(suite for suite, _ in ran) == ["bookworm", "noble", "trixie"]
        whole += [suite for suite, how in ran if how == ""]
        assert [how for _, how in ran].count(" start") == 2
    assert sorted(whole) == ["bookworm", "noble", "trixie"]


def test_where_no_fresh_system_can_be_made_all_tests_run_here(tree):
    _, calls, summary = ci(tree, "readme", "starts", SKIP="readme.sh")
    assert "make check\n" in calls and [how for how, _ in summary] == ["ok", "skipped"]


def test_what_the_fresh_system_skipped_runs_again_and_no_more(tree):
    (tree / "tests/systems/readme.sh").write_text('#!/bin/sh\nmkdir -p build && printf "%s\\n" tests/e2e/test_a.py::one tests/e2e/test_a.py::two tests/e2e/test_b.py >"$CRICKET_SKIPPED"\n')
    (tree / "bin/make").write_text('#!/bin/sh\necho "make $* of $CRICKET_TEST_ONLY" >>"$CALLS"\n')
    _, calls, _ = ci(tree, "readme", "more")
    assert re.search(r"make check-style check-e2e FILES=tests/e2e/test_a.py tests/e2e/test_b.py  of .*/build/skipped-\w+\n", calls), calls


def test_a_list_of_tests_chooses_functions_and_files(tmp_path):
    only = tmp_path / "only"
    only.write_text("tests/e2e/test_ci.py::test_a_failure_with_either_sanitizer_ends_the_run\ntests/e2e/test_unit.py\n", encoding="utf-8")
    collect = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", f"--rootdir={ROOT}",
               *(ROOT / "tests" / "e2e" / name for name in ("test_ci.py", "test_unit.py"))]
    names = run(collect, clean_env(CRICKET_TEST_ONLY=str(only))).out.split("\n\n", maxsplit=1)[0].splitlines()
    assert [n for n in names if "test_ci" in n] == [f"tests/e2e/test_ci.py::test_a_failure_with_either_sanitizer_ends_the_run[{k}]" for k in ("SAN", "TSAN")]
    assert len(names) > 4


def test_with_time_every_script_has_its_step(tree):
    result, calls, summary = ci(tree, CI_MINUTES="100")
    assert result.status == 0 and {how for how, _ in summary} == {"ok"}
    assert "make check SAN=1 FILES=" in calls and "make check TSAN=1\n" in calls and "make check-arm64\n" in calls
    assert {f for f in SCRIPTS if f.startswith("tests/systems/") and f not in calls} == BY_HAND


def test_without_time_one_step_by_turns_runs_each_day_another_one(tree):
    seen = set()
    for day in range(13):
        _, _, summary = ci(tree, CI_MINUTES="0", CI_DAY=str(day))
        later = {name.split(":")[0] for how, name in summary if how == "later"}
        turns = [name for how, name in summary if how == "ok"][7:]
        assert len(turns) == 1 and len(later) == 12
        seen.add(turns[0])
    assert len(seen) == 13


def test_the_first_step_that_fails_ends_the_run(tree):
    result, calls, summary = ci(tree, FAIL="deps.sh --clang")
    assert result.status == 1 and summary == [("FAILED", "packages and nvcc")] and "readme.sh" not in calls


WHOLE = '[ -z "$2" ] || exit 0\n'      # the rest of a stub of readme.sh is for the system of the day


def test_what_the_sanitizers_need_is_built_while_the_readme_runs(tree):
    (tree / "tests/systems/readme.sh").write_text(f'#!/bin/sh\n{WHOLE}until grep -q "units .*TSAN=1" "$CALLS"; do sleep 0.01; done\n')
    result, calls, summary = ci(tree, CI_MINUTES="0")
    assert result.status == 0, result.err
    assert [name.split(" ")[0] for _, name in summary][:7] == ["packages", "README", "README", "programs", "build", "unit", "threads,"]
    assert calls.index("units throw far random nccl TSAN=1") < calls.index("make check SAN=1")


def test_the_tests_with_both_sanitizers_run_at_the_same_time(tree):
    """Neither ends before the other has begun."""
    (tree / "bin/make").write_text('#!/bin/sh\necho "make $*" >>"$CALLS"\ncase "$*" in "check SAN=1"*) other=TSAN ;; "check TSAN=1") other=SAN ;; *) exit ;; esac\n'
                                   'until grep -q "make check $other=1" "$CALLS"; do sleep 0.01; done\n')
    result, _, summary = ci(tree, CI_MINUTES="0")
    assert result.status == 0, result.err
    assert [name.split(" ")[0] for _, name in summary][5:7] == ["unit", "threads,"]


@pytest.mark.parametrize("kind", ["SAN", "TSAN"])
def test_a_failure_with_either_sanitizer_ends_the_run(tree, kind):
    result, _, summary = ci(tree, FAIL=f"make check {kind}=1", CI_MINUTES="0")
    assert result.status == 1 and summary[-1] == ("FAILED", {"SAN": "unit tests and a sixth of the others, with ASan and UBSan",
                                                             "TSAN": "threads, with TSan"}[kind])


def test_a_step_that_fails_beside_another_ends_the_run_too(tree):
    result, calls, summary = ci(tree, FAIL="test-apps SAN=1")
    assert result.status == 1 and summary[-1] == ("FAILED", "programs of the tests with sanitizers")
    assert "TSAN" not in calls and "make check SAN=1" not in calls


def test_where_the_readme_fails_what_runs_beside_it_is_ended(tree):
    (tree / "bin/make").write_text('#!/bin/sh\necho $$ >pid.new && mv pid.new pid && exec sleep 600\n')
    (tree / "tests/systems/readme.sh").write_text(f"#!/bin/sh\n{WHOLE}until [ -e pid ]; do sleep 0.01; done\nexit 3\n")
    (tree / "tools/deps.sh").write_text("#!/bin/sh\n")
    result, _, summary = ci(tree)
    assert result.status == 1 and summary[-1] == ("FAILED", "README on a fresh system: all")
    wait_until(lambda: not is_alive(int((tree / "pid").read_text())), 5, "make has ended")


def test_six_days_run_every_file_with_sanitizers(tree):
    names = {f"tests/e2e/test_{name}.py" for name in ("a", "b", "c", "d", "e", "f", "g")}
    for name in (*names, "tests/e2e/test_docs.py"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    sixths = [re.search("FILES=(.*)", ci(tree, "san", CI_DAY=str(day))[1])[1].split() for day in range(6)]
    assert sorted(sum(sixths, [])) == sorted(names)


def test_a_step_that_is_none_is_refused(tree):
    result, _, _ = ci(tree, "no-such-step")
    assert result.status == 2 and "no step no-such-step" in result.err
    listed = run([tree / ".ci" / "run", "--list"], clean_env()).out
    assert re.search(r"^san +unit tests", listed, re.M) and re.search(r"^slurm +Slurm$", listed, re.M)
