"""tests/e2e/test_ci_recipes.py - docs/ci.md: its scripts, and GitHub's action, with a pip that installs the command of this build.

tests/systems/dist.sh installs the real wheel.
"""
import json
import os
import re
import subprocess
import sys

import pytest

from conftest import DRIVER, KIND, PRODUCTS, ROOT, clean_env, wait_until

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.skipif(DRIVER != "emu" or bool(KIND), reason="nothing here depends on them")
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
ACTION = ROOT / ".github" / "actions" / "cricket-emu" / "action.yml"
COUNT = "python3 -c 'import ctypes; print(\"init\", ctypes.CDLL(\"libcuda.so.1\").cuInit(0))'"


@pytest.fixture(name="env")
def fixture_env(tmp_path):
    """A runner: its python3 makes environments whose pip installs the command as it is built here."""
    for name in ("bin", "run", "runner", "tests"):
        (tmp_path / name).mkdir()
    wheel = tmp_path / "cricket_gpu-0-py3-none-any.whl"
    wheel.touch()
    scripts = {"bin/pip": f'case "$1 $* " in "install install"*" {wheel} "*) ;; *) exit 1 ;; esac\nln -s {PRODUCTS}/cricket "$(dirname "$0")/cricket"',
               "bin/python3": f'[ "$1 $2" = "-m venv" ] || exec {sys.executable} "$@"\nmkdir -p "$3/bin"; cp {tmp_path}/bin/pip "$3/bin"',
               "tests/run": COUNT}
    for name, text in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh -e\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return clean_env(XDG_CONFIG_HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path / "run"), WHEEL=str(wheel),
                     PATH=f"{tmp_path}/bin:{os.environ['PATH']}")


def bash(script, env, folder):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=env, cwd=folder, capture_output=True, text=True, timeout=180,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def block(heading):
    """The first block of code below a heading."""
    text = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(line[4:] for line in re.search(r"(?:^    .*\n|^\n)+", text[text.index("\n    ") + 1:], re.M)[0].splitlines())


def steps_of_github():
    """The steps of the action, as the one of the page configures it."""
    used = next(s for s in yaml.safe_load(block("GitHub"))["jobs"]["test"]["steps"] if "cricket-emu" in s.get("uses", ""))
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert set(used["with"]) <= set(action["inputs"]) and action["runs"]["using"] == "composite"
    return action["runs"]["steps"]


def run_step(step, inputs, env, folder):
    """What GitHub does with a step of a composite action."""
    if "if" in step and not inputs["run"]:
        return ""
    values = {name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: inputs[m[1]], text) for name, text in step["env"].items()}
    paths = (folder / "runner" / "path").read_text().split() if (folder / "runner" / "path").exists() else []
    return bash(step["run"], {**env, **values, "PATH": ":".join([*reversed(paths), env["PATH"]])}, folder)


def test_the_action_installs_the_command_and_runs_with_it(env, tmp_path):
    env.update(RUNNER_TEMP=str(tmp_path / "runner"), GITHUB_PATH=str(tmp_path / "runner" / "path"))
    said = [run_step(step, {"package": env["WHEEL"], "run": COUNT}, env, tmp_path) for step in steps_of_github()]
    assert said[-1] == "init 0\n"
    path = (tmp_path / "runner" / "path").read_text().strip()
    assert os.listdir(path) == ["cricket"]      # and no other python3
    wait_until(lambda: not os.listdir(env["XDG_RUNTIME_DIR"]), 20, "the servers are gone")


def test_the_dev_container_gets_the_command(env, tmp_path):
    config = json.loads((ROOT / "docs" / "examples" / "devcontainer" / "emulated" / "devcontainer.json").read_text(encoding="utf-8"))
    assert config["containerEnv"] == {"WHEEL": "${localEnv:WHEEL}"}
    assert bash(f"{config['postCreateCommand']}\ncricket run -s emu -- {COUNT}", env, tmp_path).splitlines()[-1] == "init 0"


def test_the_script_of_gitlab_runs(env, tmp_path):
    lines = yaml.safe_load(block("GitLab"))["test"]["script"]
    assert bash("\n".join(lines), env, tmp_path).splitlines()[-1] == "init 0"


def test_the_plain_script_runs(env, tmp_path):
    script = block("A plain script").replace("python3 -m pytest", "./tests/run")
    assert "cricket run -s emu -- ./tests/run" in script
    assert bash(script, env, tmp_path).splitlines()[-1] == "init 0"
