"""tests/e2e/test_setup.py - from nothing to a server for other hosts: `cricket-rpc-server --setup`, `cricket login`, `cricket token`."""
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import PRODUCTS, SERVER, SLOW, Server, clean_env, command_env, run, wait_until

CRICKET = PRODUCTS / "cricket"
FAR = "127.0.0.2"       # counts as an address of another host


@pytest.fixture(name="home")
def fixture_home(tmp_path):
    """One user of two machines: they share the file system, and nothing else."""
    return clean_env(XDG_CONFIG_HOME=str(tmp_path / "config"))


@pytest.fixture(name="client")
def fixture_client(tmp_path):
    return command_env(XDG_CONFIG_HOME=str(tmp_path / "client"))


def set_up(env, *words):
    done = run([SERVER, "--setup", *words], env)
    assert done.status == 0, done.err
    return done.out


def parts(text):
    """What --setup prints: the server's options, the client's command, the token."""
    command = shlex.split(next(line for line in text.splitlines() if "--listen" in line))
    login = re.search(r"^ +cricket login (\S+)$", text, re.M)[1]
    token = re.search(r"^ +token: (\S+)$", text, re.M)
    return command, login, token and token[1]


def cricket(env, *words, stdin=""):
    return subprocess.run([str(w) for w in (CRICKET, *words)], env=env, capture_output=True, text=True, input=stdin,
                          timeout=60 * SLOW)


def folder_of(env):
    return pathlib.Path(env["XDG_CONFIG_HOME"], "cricket", "server")


def serve(tmp_path, command):
    """Start the server as --setup says, at an address that other tests do not use."""
    assert command[:3] == [str(SERVER), "--listen", "0.0.0.0:9909"]
    server = Server(tmp_path / "server", "--listen", f"{FAR}:0", *command[3:])
    wait_until(lambda: f"listening on {FAR}:" in server.log(), 20, "it listens there")
    server.far = next(x for x in server.log().splitlines() if f"listening on {FAR}:" in x).rpartition(" ")[2]
    return server


def test_three_commands_lead_to_a_remote_gpu(tmp_path, home, client, app):
    command, login, token = parts(set_up(home, FAR))
    server = serve(tmp_path, command)
    try:
        host, pin = login.split("#")
        assert host == FAR
        done = cricket(client, "login", f"{server.far}#{pin}", stdin=token + "\n")
        assert done.returncode == 0, done.stderr
        done = cricket(client, "run", "-s", server.far, app("vector_add"))
        assert done.returncode == 0 and " 0 wrong" in done.stdout, done.stderr
        assert token not in server.log()
    finally:
        server.stop()


def test_what_setup_makes_is_for_its_user_only(home):
    text = set_up(home, "gpuhost", "alice")
    folder = folder_of(home)
    modes = {str(p.relative_to(folder)): oct(stat.S_IMODE(p.stat().st_mode)) for p in folder.rglob("*")}
    assert modes == {"tls": "0o700", "tls/cert.pem": "0o644", "tls/key.pem": "0o600", "tokens": "0o600"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    _, login, token = parts(text)
    assert login.startswith("gpuhost#sha256:") and token not in (folder / "tokens").read_text(encoding="utf-8")
    assert cricket(home, "token", "list").stdout.splitlines()[1].split()[0] == "alice"


def test_setup_again_changes_nothing(home):
    first = set_up(home, "gpuhost")
    folder = folder_of(home)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    again = set_up(home, "other")
    assert before == {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert parts(again)[1] == parts(first)[1].replace("gpuhost", "other") and parts(again)[2] is None
    (folder / "tls" / "cert.pem").unlink()                                      # a new one for the same key
    assert parts(set_up(home, "gpuhost"))[1] == parts(first)[1]


@pytest.mark.parametrize("words, text", [(["not a host"], "not the name or the address of a host"), (["tcp://gpuhost"], "not the name"),
                                         (["gpuhost:9909"], "not the name"), (["gpuhost", "no/name"], "not a name"),
                                         (["gpuhost", *map(str, range(33))], "too many names")])
def test_setup_refuses_wrong_names(home, words, text):
    for _ in range(2):          # also where certificate and key are there
        done = run([SERVER, "--setup", *words], home)
        assert done.status == 2 and text in done.err and len(done.err.splitlines()) == 1 and not done.out
        set_up(home, "gpuhost")


def test_setup_makes_a_token_for_each_name_that_has_none(home):
    first = re.findall(r"token of (\w+): ([0-9a-f]{64})", set_up(home, "gpuhost", "alice", "bob"))
    assert [name for name, _ in first] == ["alice", "bob"]
    assert parts(set_up(home, "gpuhost", "bob", "carol"))[2]
    assert [line.split()[0] for line in cricket(home, "token", "list").stdout.splitlines()[1:]] == ["alice", "bob", "carol"]


def test_setup_leaves_a_secret_as_it_is(home):
    folder_of(home).mkdir(parents=True)
    (folder_of(home) / "tokens").write_text("a secret\n", encoding="utf-8")
    done = run([SERVER, "--setup"], home)
    assert done.status == 2 and "single secret" in done.err
    assert cricket(home, "token", "add", "alice").returncode == 1
    assert (folder_of(home) / "tokens").read_text(encoding="utf-8") == "a secret\n"


def in_a_system_with_the_service(tmp_path, script):
    """Run SCRIPT as root where the service is installed, in a copy of /etc."""
    etc = tmp_path / "etc"
    etc.mkdir()
    for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache", "hosts", "host.conf", "alternatives"):
        source = pathlib.Path("/etc", name)
        if source.is_dir():
            shutil.copytree(source, etc / name, symlinks=True)
        elif source.exists():
            shutil.copy(source, etc / name)
    with open(etc / "passwd", "a", encoding="utf-8") as f:
        f.write("cricket:x:4711:4712::/nonexistent:/usr/sbin/nologin\n")
    with open(etc / "group", "a", encoding="utf-8") as f:
        f.write("cricket:x:4712:\n")
    (etc / "systemd" / "system").mkdir(parents=True)
    (etc / "systemd" / "system" / "cricket-rpc-server.service").touch()
    return run(["unshare", "--mount", "sh", "-ec", f"mount --bind {etc} /etc; {script}"], clean_env(SUDO_USER="dora"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for another /etc")
def test_root_sets_up_the_service(tmp_path):
    done = in_a_system_with_the_service(tmp_path, f"""
        umask 077
        {SERVER} --setup gpuhost
        {SERVER} --setup gpuhost >/dev/null
        {SERVER} --setup gpuhost alice | grep "has options already"
        cat /etc/cricket/server.conf
        setpriv --reuid 4711 --regid 4712 --clear-groups {SERVER} --config /etc/cricket/server.conf --show-config >/dev/null
        {CRICKET} token revoke alice >/dev/null
        {CRICKET} token add erik >/dev/null
        find /etc/cricket -printf '%P %m %u %G\\n' | sort
        setpriv --reuid 4711 --regid 4712 --clear-groups cat /etc/cricket/tls/key.pem /etc/cricket/tokens >/dev/null
        setpriv --reuid 4711 --regid 4712 --clear-groups sh -c 'true >>/etc/cricket/tokens' 2>/dev/null && echo "may write"
        {CRICKET} token list
    """)
    if "unshare" in done.err or "mount:" in done.err:
        pytest.skip("no mounts here: " + done.err.splitlines()[-1])
    assert done.status == 0, done.err
    for line in ("listen = 0.0.0.0:9909", "token-file = /etc/cricket/tokens", "tls-cert = /etc/cricket/tls/cert.pem",
                 "tls-key = /etc/cricket/tls/key.pem", "policy = /etc/cricket/policy", "audit = /var/log/cricket/audit"):
        assert line in done.out.splitlines()
    assert done.out.count("has options already, which stay") == 1 and done.out.count("listen = ") == 1
    assert "systemctl restart cricket-rpc-server" in done.out and "may write" not in done.out
    for line in ("tls 750 root 4712", "tls/cert.pem 640 root 4712", "tls/key.pem 640 root 4712", "tokens 640 root 4712"):
        assert line in done.out.splitlines()
    assert [line.split()[0] for line in done.out.splitlines()[-2:]] == ["dora", "erik"]


# --- cricket token

def test_a_list_that_is_not_there_is_named(home):
    done = cricket(home, "token", "list")
    assert done.returncode == 0 and re.fullmatch(r"There are no tokens: there is no /.*\. `cricket token add NAME` makes it\.\n", done.stdout), done.stdout
    assert cricket(home, "token", "add", "alice").returncode == 0
    assert cricket(home, "token", "list").stdout.splitlines()[1].split()[0] == "alice"


def test_tokens_are_added_listed_and_revoked_while_a_server_runs(tmp_path, home, client):
    tokens = tmp_path / "tokens"
    alice = cricket(home, "token", "add", "alice", "-f", tokens).stdout.strip()
    assert re.fullmatch("[0-9a-f]{64}", alice) and stat.S_IMODE(tokens.stat().st_mode) == 0o600
    server = Server(tmp_path / "server", "--token-file", tokens)
    address = server.address("tcp")
    try:
        bob = cricket(home, "token", "add", "bob", "--file", tokens, "--expires", "2999-12-31").stdout.strip()
        old = cricket(home, "token", "add", "bob", "-f", tokens, "-e", "2999-01-31").stdout.strip()
        tokens.write_text(tokens.read_text(encoding="utf-8").replace("2999-01-31", "2020-01-31"), encoding="utf-8")
        for token, status in ((alice, 0), (bob, 0), (old, 1), ("wrong", 1)):
            assert cricket(client, "login", address, stdin=token).returncode == status
        listed = [line.split() for line in cricket(home, "token", "list", "-f", tokens).stdout.splitlines()[1:]]
        assert [(n, *rest) for n, _, *rest in listed] == [("alice", "never"), ("bob", "2999-12-31"), ("bob", "2020-01-31", "(expired)")]
        assert cricket(client, "login", address, stdin=bob).returncode == 0 and cricket(client, "check", address).returncode == 0
        done = cricket(home, "token", "revoke", "bob", "-f", tokens)
        assert done.returncode == 0 and "2 tokens of bob are revoked" in done.stdout
        done = cricket(client, "check", address)
        assert done.returncode == 1 and "not one of the server's tokens" in done.stdout
        assert cricket(client, "login", address, stdin=alice).returncode == 0
        assert cricket(home, "token", "revoke", "bob", "-f", tokens).returncode == 1
        assert alice not in tokens.read_text(encoding="utf-8")
    finally:
        server.stop()


def test_a_list_keeps_comments_mode_and_links(tmp_path, home):
    real, link = tmp_path / "real", tmp_path / "tokens"
    link.symlink_to(real)
    real.write_text("# users\n\nalice:" + "0" * 64 + "\nalicea:" + "1" * 64, encoding="utf-8")
    real.chmod(0o640)
    assert cricket(home, "token", "add", "bob", "-f", link).returncode == 0
    assert cricket(home, "token", "revoke", "alice", "-f", link).returncode == 0
    lines = real.read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["# users", "", "alicea:" + "1" * 64] and lines[3].startswith("bob:") and len(lines) == 4
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o640 and sorted(os.listdir(tmp_path)) == ["real", "tokens"]


def test_changes_at_the_same_time_are_all_kept(tmp_path, home):
    tokens = tmp_path / "tokens"
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda i: cricket(home, "token", "add", f"user{i}", "-f", tokens), range(24)))
    assert not [d.stderr for d in done if d.returncode]
    assert {line.split(":")[0] for line in tokens.read_text(encoding="utf-8").splitlines()} == {f"user{i}" for i in range(24)}


@pytest.mark.parametrize("words", [["add"], ["add", "a", "b"], ["list", "a"], ["revoke"], ["frob", "a"], [], ["list", "-e", "2027-01-01"]])
def test_wrong_arguments_of_token(tmp_path, home, words):
    done = cricket(home, "token", *words, "-f", tmp_path / "tokens")
    assert done.returncode == 2 and "see `cricket token --help`" in done.stderr and not (tmp_path / "tokens").exists()


@pytest.mark.parametrize("words, text", [(["add", "no/name"], "not a name"), (["add", "a", "-e", "soon"], "not a date"),
                                         (["add", "a", "-e", "2027-13-01"], "not a date"), (["add", "a", "-e", "2027-02-30"], "not a date"),
                                         (["add", "a", "-e", "2027-1-1"], "not a date"), (["revoke", ""], "not a name"), (["add", "x" * 49], "not a name"),
                                         (["add", "a\nb"], "not a name"), (["add", "a", "-e", "2020-01-31"], "this day is over: 2020-01-31"),
                                         (["list"], "No such file or directory"), (["revoke", "alice"], "no token of alice")])
def test_wrong_names_and_dates_change_nothing(tmp_path, home, words, text):
    done = cricket(home, "token", *words, "-f", tmp_path / "tokens")
    assert done.returncode == 1 and text in done.stderr


@pytest.mark.parametrize("content, text", [("a secret", "single secret"), ("alice:12\n", ":1: not NAME:HASH"), ("\ufeff#\n", ":1: not NAME:HASH"),
                                           ("#" * 65500, "at most")],
                         ids=["secret", "line", "mark", "long"])
def test_a_wrong_list_is_not_changed(tmp_path, home, content, text):
    tokens = tmp_path / "tokens"
    tokens.write_text(content, encoding="utf-8")
    done = cricket(home, "token", "add", "bob", "-f", tokens)
    assert done.returncode == 1 and text in done.stderr and tokens.read_text(encoding="utf-8") == content
