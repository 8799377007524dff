"""tests/e2e/test_config.py - the server's configuration file, and what --show-config says of it."""
import os
import re

import pytest

from conftest import ROOT, SERVER, Server, clean_env, free_port, listens, run, wait_until


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


@pytest.mark.parametrize("options, words", [
    (["--listen", "http://x"], "listen: http://x: not HOST, HOST:PORT"), (["--listen", "127.0.0.1:99999"], "listen: 127.0.0.1:99999: not HOST"),
    (["--listen", "nohost.invalid"], "listen: nohost.invalid: no"), (["--listen", "203.0.113.7:0"], "listen: 203.0.113.7:0: this host does not have"),
    (["--listen", "0.0.0.0:0"], "listen: 0.0.0.0:0: other hosts can connect (--listen), and there is no token"),
    (["--listen", "127.0.0.1:{port}", "--listen", "127.0.0.1:{port}"], "listen: 127.0.0.1:{port}: an address before it includes it"),
    (["--insecure", "--listen", "0.0.0.0:{port}", "--listen", "127.0.0.1:{port}"], "listen: 127.0.0.1:{port}: an address before it includes it"),
    (["--listen", "unix:{tmp}/s", "--unix", "{tmp}/s"], "listen: unix:{tmp}/s: it is given twice"),
    (["--unix", "/no/such/s"], "unix: /no/such/s: No such file"),
    (["--unix", "/etc/passwd"], "unix: /etc/passwd: the file is no socket"), (["--pid-file", "/no/such/pid"], "pid-file: /no/such/pid: No such file"),
    (["--pid-file", "{tmp}/link"], "pid-file: {tmp}/link: it is a symbolic link"), (["--audit", "{tmp}"], "audit: {tmp}: Is a directory"),
    (["--state-dir", "/no/such/dir"], "state-dir: /no/such/dir: No such file"), (["--state-dir", "/tmp"], "state-dir: /tmp: not a folder that is"),
    (["--checkpoint-dir", "/etc/passwd", "--checkpoint-every", "1h"], "checkpoint-dir: /etc/passwd: not a folder that is"),
    (["--tls-cert", "/no/such", "--tls-key", "/no/such"], "tls-cert, tls-key: /no/such: No such file"),
    (["--driver", "/no/such.so"], "driver: /no/such.so: /no/such.so: cannot open shared object file"),
    (["--client-files", "/no/such"], "client-files: /no/such: No such file"), (["--client-files", "/etc/passwd"], "client-files: /etc/passwd: Not a directory"),
    (["--nccl", "/no/such.so"], "nccl: /no/such.so: No such file"), (["--nccl", "{tmp}"], "nccl: {tmp}: Is a directory"),
])
def test_what_a_start_refuses_is_marked_as_wrong(options, words, tmp_path):
    """By both: the same options without --show-config end with an error too."""
    (tmp_path / "link").symlink_to(tmp_path / "none")
    port, before = free_port(), sorted(tmp_path.iterdir())
    options, words = [option.format(tmp=tmp_path, port=port) for option in ("--driver", "emu", *options)], words.format(tmp=tmp_path, port=port)
    result = show(*options)
    assert result.status == 2 and f"# WRONG: {words}" in result.out and result.out.count("WRONG") == 1, result.out
    assert sorted(tmp_path.iterdir()) == before
    own = [] if "--unix" in options else ["--unix", tmp_path / "own"]
    start = run([SERVER, *options, *own], clean_env(), timeout=60)
    assert start.status in (1, 2), start.err


@pytest.mark.parametrize("option, value, words", [
    ("criu", "/no/criu", "/no/criu: No such file or directory: checkpoints fail"), ("criu", "no-such-program", "no-such-program: No such file"),
    ("criu", "{tmp}", "{tmp}: Is a directory: checkpoints fail"), ("cache-dir", "/etc/passwd", "/etc/passwd: Not a directory: the server keeps no modules"),
    ("confine", "/usr:/no/such:/etc", "/no/such: No such file or directory: workers that start before"),
])
def test_a_path_that_may_appear_later_is_a_warning(option, value, words, tmp_path):
    value, words = value.format(tmp=tmp_path), words.format(tmp=tmp_path)
    result = show("--driver", "emu", f"--{option}", value)
    if "no Landlock" in result.err:
        pytest.skip("this kernel has no Landlock")
    assert result.status == 0 and f"# {option}: {words}" in result.out, result.out + result.err
    server = Server(tmp_path / "server", f"--{option}", value)
    try:
        assert f"WARNING: --{option} {words}" in server.log()
    finally:
        server.stop()


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_what_this_user_may_not_do_is_marked_as_wrong(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "kept").mkdir(0o700)
    options = ["--socket-group", "root", "--worker-users", "1000-2000", "--pid-file", tmp_path / "pid", "--state-dir", tmp_path / "kept"]
    result = run(["setpriv", "--reuid", "4711", "--regid", "4712", "--clear-groups", SERVER, *options, "--show-config"], clean_env())
    names = re.findall("^# WRONG: (.*?):", result.out, re.M)
    assert result.status == 2 and names == ["worker-users", "pid-file", "state-dir", "socket-group"], result.out
    os.chown(tmp_path / "kept", 4711, 4712)
    result = show("--state-dir", tmp_path / "kept")  # by root, of a server of that user
    assert result.status == 0 and f"# state-dir: {tmp_path}/kept is for a server of the user with number 4711" in result.out


def test_what_a_running_server_holds_is_not_wrong(tmp_path):
    options = ["--pid-file", tmp_path / "pid", "--state-dir", tmp_path / "kept", "--audit", tmp_path / "audit"]
    server = Server(tmp_path / "server", *options)
    try:
        files = sorted(tmp_path.iterdir())
        result = show("--driver", "emu", "--listen", server.address("tcp"), "--unix", server.unix, *options)
        assert result.status == 0 and "WRONG" not in result.out, result.out
        for where in (f"listen: {server.address('tcp')}", f"unix: {server.unix}"):
            assert re.search(rf"^# {where}: cricket-rpc-server \(pid {server.process.pid}\) uses the address already$", result.out, re.M), result.out
        assert sorted(tmp_path.iterdir()) == files
    finally:
        server.stop()


@pytest.mark.skipif(os.path.exists("/var/log/cricket"), reason="the service has run here")
def test_a_folder_that_the_service_makes_may_be_missing():
    result = show("--audit", "/var/log/cricket/audit")
    assert result.status == 0 and "# audit: the service's unit makes /var/log/cricket\n" in result.out


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
    (["--cache-size", "big"], "--cache-size big: not a size"), (["--cache-size", "1X"], "--cache-size 1X: not a size"),
    (["--policy", "/no/such"], "--policy: /no/such: No such file"), (["--check-policy", "/usr"], "/usr: Is a directory"),
    (["--token-file", "/usr"], "--token-file: /usr: Is a directory"), (["--config", "/usr"], "--config /usr: Is a directory"),
    (["--driver", ""], "--driver : it is empty"), (["--criu", ""], "--criu : it is empty"), (["--m3", ""], "--m3 : it is empty"),
    (["--log", ""], "--log : not a level"), (["--log", "info,"], "--log info,: not a level"), (["--warm-devices", "0,"], "--warm-devices 0,: not a list"),
    (["--new-token", "a", "b"], "b: unexpected argument"), (["--checkpoint-dir", "/x"], "--checkpoint-every, --checkpoint-dir: must be given"),
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
