"""tests/e2e/test_home.py - users without a home folder, as those of some clusters' containers, and with one that nobody may write."""
import os
import subprocess

import pytest

from conftest import SERVER, clean_env
from test_command import CRICKET

NOBODY = 4711   # has no entry in the password database

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")


def as_nobody(*words, stdin="", **env):
    env = {name: value for name, value in {**clean_env(), **env}.items() if name != "HOME" or value}
    return subprocess.run(["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *map(str, words)], input=stdin, capture_output=True,
                          env={name: value for name, value in env.items() if name != "XDG_CONFIG_HOME"}, cwd="/", check=False, text=True, timeout=60)


@pytest.fixture(name="near")
def fixture_near(server):
    """The server's address for any user."""
    return server.address("tcp")


@pytest.mark.parametrize("home", ["", "relative"])
@pytest.mark.parametrize("words", [("token", "add", "bob"), ("token", "list"), ("login", "NEAR"), ("login", "-r", "NEAR"), ("login", "--install", "NEAR"),
                                   ("jupyter",), ("setup",)])
def test_a_user_without_a_home_is_told_what_to_set(near, words, home):
    words = [near if word == "NEAR" else word for word in words]
    command = [SERVER, "--setup", "host"] if words == ["setup"] else [CRICKET, *words]
    done = as_nobody(*command, stdin="token\n", HOME=home)
    assert done.returncode != 0 and done.stdout == "", done
    assert done.stderr.count("\n") == 1 and "this user has no home folder: set HOME to an absolute path" in done.stderr, done


@pytest.mark.parametrize("home", ["", "relative", "/nonexistent", "/"])
def test_what_needs_no_home_works_without_one(near, home):
    for words in (("check", near), ("servers",), ("env", "-s", near), ("run", "-s", near, "true"), ("store", "-s", near)):
        done = as_nobody(CRICKET, *words, HOME=home)
        assert done.returncode == 0 and done.stderr == "", (words, done)


@pytest.mark.parametrize("words", [("token", "add", "bob"), ("login", "NEAR"), ("jupyter",), ("login", "--install", "NEAR")])
def test_a_home_that_cannot_be_written_is_named(near, tmp_path, words):
    tmp_path.chmod(0o755)
    done = as_nobody(CRICKET, *[near if word == "NEAR" else word for word in words], stdin="token\n", HOME=str(tmp_path))
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and f"{tmp_path}/." in done.stderr and "Permission denied" in done.stderr, done
