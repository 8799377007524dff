"""tests/e2e/test_advice.py - what `cricket check` advises when a step fails."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest

from conftest import DRIVER, PRODUCTS, ROOT, SERVER, SLOW, Server, clean_env, run
from namespaces import command, missing
from ports import free_port
from tls import Authority

CRICKET = PRODUCTS / "cricket"
OTHER = "sha256:" + "0" * 64


@pytest.fixture(name="home")
def fixture_home(tmp_path):
    (tmp_path / "cricket").mkdir()
    return clean_env(XDG_CONFIG_HOME=str(tmp_path))


@pytest.fixture(name="careful", scope="module")
def fixture_careful(tmp_path_factory):
    """A server with a key and a token."""
    folder = tmp_path_factory.mktemp("careful")
    made = run([SERVER, "--new-cert", folder / "tls", "127.0.0.1"], clean_env())
    (folder / "token").write_text("secret\n", encoding="utf-8")
    server = Server(folder / "server", "--tls-cert", folder / "tls" / "cert.pem", "--tls-key", folder / "tls" / "key.pem",
                    "--token-file", folder / "token")
    server.pin = made.out.partition("CRICKET_TLS_PIN=")[2].strip()
    yield server
    server.stop()


def cricket(env, *words, stdin=""):
    return subprocess.run([str(w) for w in (CRICKET, *words)], env=env, capture_output=True, text=True, input=stdin,
                          timeout=60 * SLOW)


def check(env, *words):
    """The step that fails first: its name, text and advice; and the command that comes next."""
    done = cricket(env, "check", "--json", *words)
    report = json.loads(done.stdout)
    assert done.returncode == 1 and not report["ok"]
    step = next(s for s in report["steps"] if not s["ok"])
    assert step["advice"] and report["next"] and "CRICKET_TLS=off" not in done.stdout
    shown = cricket(env, "check", *words).stdout.splitlines()
    where = ", on the server's host" if report["next_on_server"] else ""
    assert shown[-1] == f"next{where}: {report['next']}" and sum(line.startswith("next") for line in shown) == 1
    return step["name"], step["text"], step["advice"], report["next"]


# --- connections

def test_unknown_names_closed_ports_and_silence_have_their_own_advice(home):
    name, text, advice, following = check(home, "nohost.invalid")
    assert (name, following) == ("connection", "cricket servers") and "no host has this name" in text and "spelling" in advice
    name, text, refused, following = check(home, f"127.0.0.1:{free_port()}")
    assert name == "connection" and "refused" in text and "no server listens there" in refused and "--listen" in refused
    assert following == "systemctl status cricket-rpc-server" and refused != advice
    name, text, ssh, following = check(home, "ssh://nohost.invalid")
    assert name == "connection" and following == "ssh nohost.invalid true" and "--listen" not in ssh and "firewall" not in ssh


@pytest.mark.parametrize("address", ["http://x", "https://gpuhost:9909", "gpuhost:port", "gpuhost:99999", "tcp://", "::1"])
def test_what_is_no_address(home, address):
    name, _, advice, following = check(home, address)
    assert (name, following) == ("address", "cricket servers") and "as cricket(1) shows" in advice


def test_a_client_in_a_folder_that_the_linker_does_not_accept(home, server, tmp_path):
    folder = tmp_path / "my folder"
    folder.mkdir()
    shutil.copy(CRICKET, folder / "cricket")
    (folder / "cricket-client.so").symlink_to(CRICKET.parent / "cricket-client.so")
    for words in (["check", server.address("tcp")], ["run", "-s", server.address("tcp"), "true"]):
        done = run([folder / "cricket", *words], home)
        assert done.status != 0 and f"{folder}: the dynamic linker does not accept a path with spaces" in done.out + done.err
    done = run([folder / "cricket", "check", "--json", server.address("tcp")], home)
    assert json.loads(done.out)["next"] == f"cricket login {server.address('tcp')} --install"


def test_the_path_of_a_socket_alone_leads_to_its_address(home):
    name, text, advice, following = check(home, "/run/cricket.sock")
    assert name == "list" and "unix:/PATH" in text and "write unix: before" in advice and following == "cricket check unix:/run/cricket.sock"


@pytest.mark.skipif(missing() != "", reason=missing())
def test_a_name_without_a_name_server_may_be_misspelt(home, tmp_path):
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n", encoding="utf-8")      # where none is
    inside = command(f'mount --bind {tmp_path}/resolv.conf /etc/resolv.conf; exec "$@"')
    for name, words in (("labb", "spelling"), ("srv:labb", "this machine's network")):
        done = subprocess.run([*inside, CRICKET, "check", name], env=home, capture_output=True, text=True, timeout=60 * SLOW, check=False)
        assert done.returncode == 1 and "no name server answers" in done.stdout and words in done.stdout, done
        assert done.stdout.endswith("next: cricket servers\n")


def test_a_device_that_the_server_does_not_have(server, home):
    address = server.address("tcp")
    name, text, advice, following = check(home, f"{address}/7")
    assert name == "session" and "has no device 7" in text and "fewer GPUs" in advice and following == f"cricket servers {address}/7"
    assert cricket(home, "servers", f"{address}/7").stdout.splitlines()[1].startswith(f"{address} ")


@pytest.mark.parametrize("devices", ["0,7", "0, 7"])
def test_a_device_of_a_section_that_the_server_does_not_have(server, home, devices):
    address = server.address("unix")
    (pathlib.Path(home["XDG_CONFIG_HOME"]) / "cricket" / "config").write_text(f"[lab]\naddress = {address}\ndevices = {devices}\n", encoding="utf-8")
    name, text, advice, following = check(home, "lab")
    assert (name, following) == ("gpu", "cricket servers lab") and f"devices = {devices}: the server has 1" in text and "of its section" in advice


@pytest.mark.parametrize("scheme", ["unix:", "UNIX:", "shm:"])
def test_a_socket_is_no_port(home, tmp_path, scheme):
    """One that a killed server has left, and a path through a file."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left"))
    for path, words in (("left", "no server of this host listens at this socket"), ("left/x", "leads to no socket")):
        name, _, advice, following = check(home, f"{scheme}{tmp_path}/{path}")
        assert (name, following) == ("connection", "cricket servers") and words in advice and "port" not in advice and "firewall" not in advice


@pytest.mark.parametrize("path", ["./sock", "../run/sock", "~/sock"])
def test_a_relative_path_is_no_list_of_devices(home, path):
    name, text, advice, _ = check(home, path)
    assert name == "list" and "an absolute path" in text and "write unix:" in advice


@pytest.mark.skipif(DRIVER != "emu", reason="a server without a driver")
def test_a_server_of_this_host_that_does_not_start_says_why(home):
    env = {**home, "XDG_RUNTIME_DIR": home["XDG_CONFIG_HOME"]}
    name, text, advice, _ = check(env, "local")
    # it may end before or after it has been asked something
    assert name in ("connection", "protocol") and "cricket-rpc-server has ended" in text and "driver cuda" in text and "see its reason" in advice
    assert "read the network" not in cricket(env, "check", "local").stdout
    assert "cricket-rpc-server has ended" in cricket(env, "servers", "local").stdout


def test_a_socket_that_is_missing(home, tmp_path):
    name, text, advice, _ = check(home, f"unix:{tmp_path}/none.sock")
    assert name == "connection" and "No such file" in text and "no server of this host" in advice


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_socket_without_permission_is_not_one_that_is_missing(home):
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        shutil.copy(CRICKET, folder / "cricket")
        server = Server(folder / "server")
        try:
            (folder / "server").chmod(0o755)
            done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", folder / "cricket", "check", server.address("unix")],
                                  env={**home, "XDG_CONFIG_HOME": "/nonexistent"}, capture_output=True, text=True, timeout=60 * SLOW)
        finally:
            server.stop()
    assert "Permission denied" in done.stdout and "become a member of its group" in done.stdout, done.stdout + done.stderr


def test_another_program_at_the_port(home):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]

        def serve():
            try:
                while True:
                    s.accept()[0].close()
            except OSError:
                pass
        threading.Thread(target=serve, daemon=True).start()
        name, _, advice, following = check(home, f"127.0.0.1:{port}")
        assert (name, following) == ("protocol", "cricket servers") and "another program" in advice
        s.shutdown(socket.SHUT_RDWR)


# --- TLS

def test_tls_that_is_demanded_without_a_pin_shows_the_pin(careful, home):
    address = careful.address("tcp")
    for env in ({}, {"CRICKET_TOKEN": "secret"}, {"CRICKET_TLS": "require"}, {"CRICKET_TLS": "off"}):
        name, _, advice, following = check({**home, **env}, address)
        assert name in ("session", "tls") and following == f"cricket login {address}#{careful.pin}"
        assert f"if its administrator confirms this pin, {careful.pin}" in advice.replace("the server's administrator", "its administrator")
    assert cricket(home, *following.split()[1:], stdin="secret\n").returncode == 0
    assert cricket(home, "check", address).returncode == 0


def test_another_key_than_the_pin_is_never_made_to_look_well(careful, home, tmp_path):
    address = careful.address("tcp")
    (tmp_path / "cricket" / "config").write_text(f"[lab]\naddress = {address}\ntls-pin = {OTHER}\n", encoding="utf-8")
    for words, env in ((["lab"], {}), ([address], {}), ([address], {"CRICKET_TLS_PIN": f"{OTHER},{OTHER}"})):
        name, _, advice, following = check({**home, **env}, *words)
        assert name == "tls" and "another program may answer" in advice and careful.pin not in following + advice
        assert following == f"cricket login {words[0]}#PIN-OF-THE-ADMINISTRATOR"


def test_certificates_that_do_not_fit(home, tmp_path):
    authority = Authority(tmp_path / "authority")
    for name, options, words in (("other", {"names": "DNS:elsewhere"}, "use a name that is in the server's certificate"),
                                 ("old", {"days": 0}, "a certificate that is valid now")):
        cert, key = authority.sign(name, **options)
        server = Server(tmp_path / name, "--tls-cert", cert, "--tls-key", key)
        try:
            step, _, advice, _ = check({**home, "CRICKET_TLS_CA": str(authority.ca)}, server.address("tcp"))
            assert step == "tls" and words in advice
        finally:
            server.stop()


def test_settings_of_tls_that_are_wrong(careful, server, home):
    name, text, advice, following = check({**home, "CRICKET_TLS_CA": "/nowhere"}, careful.address("tcp"))
    assert name == "tls" and "/nowhere" in text and "correct the setting" in advice and following.startswith("cricket env")
    name, _, advice, following = check({**home, "CRICKET_TLS": "require"}, server.address("tcp"))
    assert name == "tls" and "give the server a key" in advice and following == "cricket-rpc-server --setup"


def test_in_a_list_the_advice_is_about_one_server(careful, server, home):
    names = f"{server.address('tcp')},{careful.address('tcp')}"
    name, _, _, following = check({**home, "CRICKET_TLS": "require"}, names)
    assert name == "tls" and following == "cricket-rpc-server --setup"
    names = f"{careful.address('tcp')},{server.address('tcp')}"
    _, _, _, following = check({**home, "CRICKET_TLS": "require"}, names)
    assert following == f"cricket login {careful.address('tcp')}#{careful.pin}"


# --- sessions

def test_a_wrong_token_is_called_wrong(home, tmp_path):
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    server = Server(tmp_path / "server", "--token-file", tmp_path / "token")
    address = server.address("tcp")
    try:
        name, text, advice, following = check(home, address)
        assert name == "session" and "only clients with its token" in text and "get a token" in advice
        assert following == f"cricket login {address}"
        name, text, advice, following = check({**home, "CRICKET_TOKEN": "secreet"}, address)
        assert name == "session" and text.startswith("error 800: ") and "is not one of the server's tokens" in text
        assert "the token is wrong: revoked, expired or mistyped" in advice and following == f"cricket login {address}"
        assert cricket({**home, "CRICKET_TOKEN": "secret"}, "check", address).returncode == 0
    finally:
        server.stop()


def test_a_full_server_is_waited_for(home, tmp_path):
    from stranger import Session
    server = Server(tmp_path / "server", "--max-sessions", "1")
    try:
        held = Session(server)
        name, _, advice, following = check(home, server.address("tcp"))
        assert name == "session" and "wait" in advice and following == f"cricket run -s {server.address('tcp')} --wait 10m -- PROGRAM"
        held.end()
    finally:
        server.stop()


def test_a_server_that_stops_is_not_waited_for(home, tmp_path):
    from stranger import Session
    server = Server(tmp_path / "server")
    try:
        held = Session(server)
        assert cricket(home, "drain", "-s", server.address("unix"), "10m").returncode == 0
        name, text, advice, following = check(home, server.address("tcp"))
        assert (name, following) == ("session", "cricket servers") and "it is stopping" in text and "no more sessions" in advice
        assert "1 running program has ended" in server.log()
    finally:
        server.stop()
    held.end()


def test_each_text_of_the_table_is_one_that_a_program_prints():
    """Else a message has changed, and its advice is never given."""
    text = (ROOT / "command" / "check" / "advice.def").read_text(encoding="utf-8")
    seen = {s for s in re.findall(r'ADVICE\(\w+, \w+, "([^"]*)"', text) if s}
    assert len(seen) > 12
    sources = "".join(p.read_text(encoding="utf-8") for folder in ("rpc", "server", "client", "util", "command") for p in (ROOT / folder).rglob("*.c"))
    sources = re.sub(r'"\s*"', "", sources)
    known = {"Connection refused", "Permission denied", "No such file"}        # the C library's
    assert not {s for s in seen - known if s not in sources}
