"""tests/e2e/test_config.py - the server's configuration file, and what --show-config says of it."""
import re

import pytest

from conftest import ROOT, SERVER, Server, clean_env, listens, run, wait_until


def show(*options, **env):
    return run([SERVER, *options, "--show-config"], clean_env(**env))


def line_of(text, name):
    """VALUE, ORIGIN of an option in the output of --show-config."""
    (found,) = re.findall(rf"^#?{name} = (.*?) +# (.*)$", text, re.M)
    return found


def test_the_reference_is_what_the_program_prints():
    result = run([SERVER, "--new-config"], clean_env())
    assert result.status == 0 and (ROOT / "server" / "server.conf").read_text() == result.out


def test_the_reference_has_all_options_and_sets_none(tmp_path):
    text = run([SERVER, "--new-config"], clean_env()).out
    names = set(re.findall(r"^#([a-z0-9-]+) = ", text, re.M))
    options = set(re.findall(r"^  --([a-z0-9-]+)", run([SERVER, "--help"], clean_env()).out, re.M))
    assert options - names == {"config", "new-config", "show-config", "new-token", "setup", "announce", "new-cert", "check-policy", "ctl", "help", "help-env",
                               "version"}
    (tmp_path / "conf").write_text(text)
    assert show("--config", tmp_path / "conf").out == show().out


def test_each_option_has_its_value_and_origin(tmp_path):
    conf = tmp_path / "conf"
    conf.write_text("# a comment\nlisten = 127.0.0.1:9001   # another\nlisten=127.0.0.2:9001\n  max-sessions = 12\nno-shm = yes\ngpu-time = no\n")
    text = show("--config", conf, "--max-sessions", "7", CRICKET_DRIVER="emu").out
    assert re.findall(r"^listen = (.*?) +# (.*)$", text, re.M) == [("127.0.0.1:9001", f"{conf}:2"), ("127.0.0.2:9001", f"{conf}:3")]
    assert line_of(text, "max-sessions") == ("7", "command line")
    assert line_of(text, "no-shm") == ("yes", f"{conf}:5") and line_of(text, "gpu-time") == ("no", "default")
    assert line_of(text, "driver") == ("emu", "CRICKET_DRIVER") and line_of(text, "keep") == ("60s", "default")


def test_it_counts_tokens_and_identities_and_checks_their_files(tmp_path):
    tokens, policy = tmp_path / "tokens", tmp_path / "policy"
    tokens.write_text(f"alice:{'0' * 64}\nbob:{'1' * 64}:2020-01-31\n")
    policy.write_text('identities: ( { token = "alice"; sessions = 1; } );')
    result = show("--token-file", tokens, "--policy", policy)
    assert result.status == 0 and f"# {tokens}: 2 tokens, 1 of them expired\n# {policy}: 1 identities, and the default" in result.out
    policy.write_text("x = 1;")
    result = show("--token-file", tokens, "--policy", policy)
    assert result.status == 2 and f"# WRONG: policy: {policy}:1: unknown key: x" in result.out
    assert "0000" not in result.out and "one token, without a name" in show(CRICKET_TOKEN="secret").out


@pytest.mark.parametrize("text, words", [
    ("lisen = 1\n", ":1: there is no such option: lisen"), ("\nlisten\n", ":2: not NAME = VALUE: listen"),
    ("policy = here\n", ":1: policy = here: not an absolute path"), ("version = yes\n", ":1: this option is for the command line only: version"),
    ("no-shm = 1\n", ":1: neither yes nor no: 1"), ("policy =\n", ":1: without a value: policy"), ("drain = 10x\n", ":1: drain = 10x: not a time"),
    ("warm = x\n", ":1: warm = x: not a number from 0 to 64"), ("config = /etc\n", ":1: this option is for the command line only: config"),
    ("log = " + "x" * 5000 + "\n", ":1: the line is too long"),
])
def test_a_wrong_line_is_named(text, words, tmp_path):
    (tmp_path / "conf").write_text(text)
    result = show("--config", tmp_path / "conf")
    assert result.status == 2 and f"{tmp_path}/conf{words}" in result.err and result.err.count("\n") == 1 and result.out == ""


@pytest.mark.parametrize("options, words", [
    (["--policy", "here"], "--policy here: not an absolute path"), (["--warm", "x"], "--warm x: not a number"),
    (["--max-lanes", "0"], "--max-lanes 0: not a number from 1"), (["--log", "loud"], "--log loud: not a level"),
    (["--tls", "x"], "--tls x: neither required nor offered"), (["--socket-mode", "9"], "--socket-mode 9: not a mode"),
    (["--confine", "here"], "--confine here: not none"), (["--worker-users", "0"], "--worker-users 0: not FIRST-LAST"),
    (["--cache-size", "big"], "--cache-size big: not a size"), (["--checkpoint-dir", "/x"], "--checkpoint-every, --checkpoint-dir: must be given"),
    (["stray"], "stray: unexpected argument"), (["--config", "/no/such"], "--config /no/such: No such file"),
])
def test_a_message_names_the_option(options, words):
    result = run([SERVER, *options], clean_env())
    assert result.status == 2 and f"cricket-rpc-server: {words}" in result.err, result.err


def test_a_file_with_a_minus_sign_may_be_missing(tmp_path):
    assert show("--config", f"-{tmp_path}/none").status == 0
    (tmp_path / "conf").write_text("warm = 3\n")
    assert line_of(show("--config", f"-{tmp_path}/conf").out, "warm") == ("3", f"{tmp_path}/conf:1")


def test_a_running_server_shows_the_options_with_which_it_was_started(tmp_path):
    """An upgrade keeps them, even if the file has changed; a restart takes the new ones."""
    conf = tmp_path / "conf"
    conf.write_text("max-sessions = 3\n")
    server = Server(tmp_path / "server", "--config", conf)
    ctl = [SERVER, "--unix", server.unix, "--ctl"]
    try:
        wait_until(lambda: listens(f"{server.unix}.ctl"), 10, "the control socket is there")
        assert line_of(run([*ctl, "config"], clean_env()).out, "max-sessions") == ("3", f"{conf}:1")
        conf.write_text("max-sessions = 4\n")
        assert run([*ctl, "upgrade"], clean_env()).status == 0
        assert line_of(run([*ctl, "config"], clean_env()).out, "max-sessions")[0] == "3"
    finally:
        server.stop()
