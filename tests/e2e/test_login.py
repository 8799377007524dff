"""tests/e2e/test_login.py - `cricket login`: whom it trusts, which token it keeps, and where other commands find both."""
import os
import pathlib
import pty
import re
import signal
import stat
import subprocess
import termios

import pytest

from conftest import PRODUCTS, SERVER, SLOW, Server, clean_env, command_env, run, wait_until
from ports import free_port
from tls import Authority, Middle

CRICKET = PRODUCTS / "cricket"
TOKEN = "a secret of twenty-six letters"
OTHER = "sha256:" + "0" * 64


@pytest.fixture(name="home")
def fixture_home(tmp_path):
    return clean_env(XDG_CONFIG_HOME=str(tmp_path / "config"))


@pytest.fixture(name="careful", scope="module")
def fixture_careful(tmp_path_factory):
    """A server with a key and a token, which also has an address that counts as one of another host."""
    folder = tmp_path_factory.mktemp("careful")
    made = run([SERVER, "--new-cert", folder / "tls", "127.0.0.2"], clean_env())
    (folder / "token").write_text(TOKEN + "\n", encoding="utf-8")
    server = Server(folder / "server", "--listen", "127.0.0.2:0", "--tls-cert", folder / "tls" / "cert.pem", "--tls-key",
                    folder / "tls" / "key.pem", "--token-file", folder / "token")
    server.pin = made.out.partition("CRICKET_TLS_PIN=")[2].strip()
    server.far = far(server)
    yield server
    server.stop()


def far(server):
    wait_until(lambda: "listening on 127.0.0.2:" in server.log(), 20, "it listens there")
    return next(x for x in server.log().splitlines() if "listening on 127.0.0.2:" in x).rpartition(" ")[2]


def cricket(env, *words, stdin=TOKEN + "\n"):
    return subprocess.run([str(w) for w in (CRICKET, *words)], env=env, capture_output=True, text=True, input=stdin,
                          timeout=60 * SLOW)


def own(home, name):
    return pathlib.Path(home["XDG_CONFIG_HOME"], "cricket", name)


def kept(home):
    """Names and contents of the user's files."""
    folder = own(home, "")
    return {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()} if folder.exists() else {}


def settings(home, *words):
    done = cricket(home, "env", "--format", "plain", *words)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def on_terminal(home, words, answers):
    """Run the command on a terminal; ANSWERS: pairs of a question and the answer that is typed, or a function that says so for
    the process. Status, and all that is shown."""
    terminal, end = pty.openpty()
    with subprocess.Popen([str(w) for w in (CRICKET, *words)], env=home, stdin=end, stdout=end, stderr=end) as process:
        os.close(end)
        shown = b""
        for question, answer in [*answers, (None, None)]:
            while question is None or question not in shown:
                try:
                    more = os.read(terminal, 4096)
                except OSError:
                    more = b""
                if not more:
                    break
                shown += more
            if question is not None and question in shown:
                os.write(terminal, (answer(process) if callable(answer) else answer) + b"\n")
        status = process.wait(60 * SLOW)
    os.close(terminal)
    return status, shown.decode()


# --- the key

def test_login_with_a_pin_is_all_that_a_client_needs(careful, home, app):
    done = cricket(home, "login", f"{careful.far}#{careful.pin}")
    assert done.returncode == 0 and "is stored" in done.stdout, done.stderr
    assert stat.S_IMODE(own(home, "config").stat().st_mode) == stat.S_IMODE(own(home, "tokens").stat().st_mode) == 0o600
    assert f"[{careful.far}]\naddress = {careful.far}\ntls-pin = {careful.pin}\n" == kept(home)["config"]
    assert cricket(home, "check", careful.far).returncode == 0
    done = cricket(command_env(**home), "run", "-s", f"tcp://{careful.far}", app("vector_add"))
    assert done.returncode == 0 and "0 wrong" in done.stdout, done.stderr
    assert TOKEN not in done.stdout + done.stderr + kept(home)["config"]


def test_an_unknown_key_is_shown_and_asked_about_once(careful, home):
    status, shown = on_terminal(home, ("login", careful.far), [(b"Trust this key", b"what"), (b"(yes/no)? what", b"yes"),
                                                               (b"Token of ", TOKEN.encode())])
    assert status == 0 and careful.pin in shown and "is stored" in shown and TOKEN not in shown
    assert f"tls-pin = {careful.pin}" in kept(home)["config"]
    status, shown = on_terminal(home, ("login", careful.far), [(b"Token of ", TOKEN.encode())])
    assert status == 0 and "Trust" not in shown


def test_no_connection_waits_for_a_user_who_thinks(careful, home):
    """The server closes one that is silent for 10 s: there is none while the command asks."""
    asked = []

    def think(answer):
        def look(process):
            asked.append([fd for fd in pathlib.Path(f"/proc/{process.pid}/fd").iterdir() if os.readlink(fd).startswith("socket:")])
            return answer
        return look
    status, shown = on_terminal(home, ("login", careful.far), [(b"Trust this key", think(b"yes")), (b"Token of ", think(TOKEN.encode()))])
    assert status == 0 and "is stored" in shown and asked == [[], []]


def test_a_key_that_is_not_confirmed_is_not_trusted(careful, home):
    status, shown = on_terminal(home, ("login", careful.far), [(b"Trust this key", b"no")])
    assert status == 1 and "nothing is stored" in shown and kept(home) == {}
    done = cricket(home, "login", careful.far)
    assert done.returncode == 1 and f"cricket login {careful.far}#{careful.pin}" in done.stderr and kept(home) == {}
    assert len(done.stderr.splitlines()) == 1


def test_another_key_than_the_pin_gets_no_token(careful, home):
    done = cricket(home, "login", f"{careful.far}#{OTHER}")
    assert done.returncode == 1 and "is not that of" in done.stderr and careful.pin in done.stderr and kept(home) == {}
    assert cricket(home, "login", f"{careful.far}#{OTHER},{careful.pin}").returncode == 0
    assert f"tls-pin = {OTHER},{careful.pin}" in kept(home)["config"]
    # a key that is changed later: the stored pin is not replaced without a word
    assert cricket(home, "login", f"{careful.far}#{careful.pin}").returncode == 0
    config = kept(home)["config"]
    assert OTHER not in config and config.count("tls-pin") == 1
    own(home, "config").write_text(config.replace(careful.pin, OTHER), encoding="utf-8")
    done = cricket(home, "login", careful.far)
    assert done.returncode == 1 and "is not that of" in done.stderr and OTHER in kept(home)["config"]


@pytest.mark.parametrize("pin", ["", "sha256:12", "md5:" + "0" * 64, OTHER + "0", OTHER + ",", "x"])
def test_a_wrong_pin_is_refused(careful, home, pin):
    done = cricket(home, "login", f"{careful.far}#{pin}")
    if pin.endswith(","):
        assert "is not that of" in done.stderr
    else:
        assert "pin" in done.stderr
    assert done.returncode in (1, 2) and kept(home) == {} and len(done.stderr.splitlines()) == 1


def test_variables_do_not_weaken_a_pin_of_the_command_line(careful, home):
    for more in ({"CRICKET_TLS": "off"}, {"CRICKET_TLS": "offer"}, {"CRICKET_TLS_PIN": careful.pin}):
        done = cricket({**home, **more}, "login", f"{careful.far}#{OTHER}")
        assert done.returncode == 1 and "is not that of" in done.stderr and kept(home) == {}


def test_a_section_keeps_its_other_lines(careful, home):
    own(home, "config").parent.mkdir(parents=True)
    text = f"# mine\nserver = lab\n\n[lab]\n# the big one\naddress = {careful.far}\ndevices = 0\ntls-pin = {OTHER}\n\n[own]\naddress = own:2\n"
    own(home, "config").write_text(text, encoding="utf-8")
    own(home, "config").chmod(0o640)
    done = cricket(home, "login", f"lab#{careful.pin}")
    assert done.returncode == 0, done.stderr
    config = kept(home)["config"]
    assert sorted(config.splitlines()) == sorted(text.replace(OTHER, careful.pin).splitlines())
    assert config.index("[lab]") < config.index(careful.pin) < config.index("[own]")
    assert stat.S_IMODE(own(home, "config").stat().st_mode) == 0o640
    assert settings(home, "-s", "lab")["CRICKET_TLS_PIN"] == careful.pin
    assert settings(home)["CRICKET_TOKEN"] == TOKEN


def test_a_configuration_that_is_a_link_stays_one(careful, home, tmp_path):
    own(home, "config").parent.mkdir(parents=True)
    (tmp_path / "dotfiles").write_text("# no line end", encoding="utf-8")
    own(home, "config").symlink_to(tmp_path / "dotfiles")
    assert cricket(home, "login", f"{careful.far}#{careful.pin}").returncode == 0
    assert own(home, "config").is_symlink() and careful.pin in (tmp_path / "dotfiles").read_text(encoding="utf-8")
    assert cricket(home, "servers").returncode == 0


def test_a_certificate_of_an_authority_that_is_configured_needs_no_pin(tmp_path, home):
    authority = Authority(tmp_path / "authority")
    cert, key = authority.sign("server", names="IP:127.0.0.2")
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    server = Server(tmp_path / "server", "--listen", "127.0.0.2:0", "--tls-cert", cert, "--tls-key", key, "--token-file", tmp_path / "token")
    try:
        address = far(server)
        done = cricket({**home, "CRICKET_TLS_CA": str(authority.ca)}, "login", address)
        assert done.returncode == 0 and list(kept(home)) == ["tokens"], done.stderr
    finally:
        server.stop()


# --- the token

def test_a_wrong_token_is_not_kept(careful, home):
    done = cricket(home, "login", f"{careful.far}#{careful.pin}", stdin="abc\n")
    assert done.returncode == 1 and "refuses this token" in done.stderr and "mistyped" in done.stderr and kept(home) == {}
    assert cricket(home, "login", f"{careful.far}#{careful.pin}", stdin="").returncode == 1
    assert kept(home) == {}


def test_a_server_that_does_not_answer_leaves_all_as_it_is(home):
    for address in (f"127.0.0.1:{free_port()}", "nohost.invalid"):
        done = cricket(home, "login", address)
        assert done.returncode == 1 and address in done.stderr and kept(home) == {}


def test_a_token_does_not_cross_a_network_in_plain_text(tmp_path, home):
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    server = Server(tmp_path / "server", "--listen", "127.0.0.2:0", "--token-file", tmp_path / "token")
    try:
        address = far(server)
        done = cricket(home, "login", address)
        assert done.returncode == 1 and "plain text" in done.stderr and kept(home) == {}
        assert "plain text" in cricket(home, "login", f"{address}/0").stderr and kept(home) == {}
        (tmp_path / "servers").write_text(f"{address}\n", encoding="utf-8")
        for names in (f"{address},{address}/0", f"{server.address('unix')},{address}", f"file:{tmp_path}/servers"):
            done = cricket(home, "login", names)
            assert done.returncode == 1 and f"cricket login {address}" in done.stderr and kept(home) == {}
        assert cricket({**home, "CRICKET_TLS": "off"}, "login", address).returncode == 0
    finally:
        server.stop()


def test_what_a_server_that_only_seems_one_sees(careful, home):
    """A program in the middle passes the handshake on: it sees no token, and cannot change the answer."""
    middle = Middle(careful.port)
    try:
        assert cricket(home, "login", f"{middle.address}#{careful.pin}").returncode == 0
    finally:
        middle.stop()
    assert TOKEN.encode() not in bytes(middle.seen)


@pytest.fixture(name="plain")
def fixture_plain(tmp_path):
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    server = Server(tmp_path / "server", "--token-file", tmp_path / "token")
    yield server
    server.stop()


@pytest.mark.parametrize("spelling", ["127.0.0.1:{}", "tcp://127.0.0.1:{}", "localhost:{}", "LOCALHOST:{}", "tcp://LocalHost:{}",
                                      "TCP://localhost:{}"])
def test_a_token_is_found_under_each_spelling(plain, home, spelling):
    name = spelling.format(plain.port)
    first = f"localhost:{plain.port}" if "ocal" in spelling.lower() else f"127.0.0.1:{plain.port}"
    assert cricket(home, "login", first).returncode == 0
    assert settings(home, "-s", name)["CRICKET_TOKEN"] == TOKEN
    assert settings(home, "-s", name + "/0")["CRICKET_TOKEN"] == TOKEN
    own(home, "config").write_text(f"[lab]\naddress = {name}\n", encoding="utf-8")
    assert settings(home, "-s", "lab")["CRICKET_TOKEN"] == TOKEN
    assert cricket(home, "login", "--remove", name).returncode == 0
    assert "CRICKET_TOKEN" not in settings(home, "-s", first)
    assert cricket(home, "login", "--remove", first).returncode == 1


@pytest.mark.parametrize("other", ["gpuhost:9909", "tcp://gpuhost", "GPUHOST", "tcp://GpuHost:9909", "gpuhost/0"])
def test_key_and_token_of_a_section_are_found_by_its_address(home, other):
    own(home, "config").parent.mkdir(parents=True)
    own(home, "config").write_text(f"[gpuhost]\naddress = gpuhost\ndevices = 0\ntls-pin = {OTHER}\n", encoding="utf-8")
    own(home, "tokens").write_text(f"gpuhost {TOKEN}\n", encoding="utf-8")
    own(home, "tokens").chmod(0o600)
    found = settings(home, "-s", other)
    assert (found["CRICKET_TLS_PIN"], found["CRICKET_TOKEN"], found["REMOTE_GPU_ADDRESS"]) == (OTHER, TOKEN, "gpuhost" if other == "GPUHOST" else other)
    for another in ("gpuhost:9910", "gpuhost2", "ssh://gpuhost", "unix:/gpuhost"):
        assert not {"CRICKET_TLS_PIN", "CRICKET_TOKEN"} & set(settings(home, "-s", another))


def test_tokens_of_several_servers_do_not_disturb_each_other(plain, careful, home):
    assert cricket(home, "login", plain.address("tcp")).returncode == 0
    assert cricket(home, "login", f"{careful.far}#{careful.pin}").returncode == 0
    assert cricket(home, "login", plain.address("tcp")).returncode == 0
    assert len(kept(home)["tokens"].splitlines()) == 2
    assert settings({**home, "CRICKET_TOKEN": "mine"}, "-s", careful.far)["CRICKET_TOKEN"] == "mine"
    assert cricket(home, "login", "--remove", plain.address("tcp")).returncode == 0
    assert settings(home, "-s", careful.far)["CRICKET_TOKEN"] == TOKEN
    own(home, "tokens").chmod(0o644)
    done = cricket(home, "env", "-s", careful.far)
    assert done.returncode == 1 and "chmod 600" in done.stderr


def test_a_list_of_servers_is_asked_as_a_whole(plain, careful, home):
    names = f"{plain.address('tcp')},127.0.0.1:{free_port()}"
    assert cricket(home, "login", names).returncode == 1 and kept(home) == {}
    names = f"{plain.address('tcp')},{plain.address('unix')}"
    done = cricket(home, "login", names)
    assert done.returncode == 0 and "is stored, for this list as it is written: not for its servers alone" in done.stdout
    assert settings(home, "-s", names)["CRICKET_TOKEN"] == TOKEN


def test_white_space_around_a_token_is_not_part_of_it(plain, home):
    assert cricket(home, "login", plain.address("tcp"), stdin=f"\t  {TOKEN} \r\n").returncode == 0
    assert settings(home, "-s", plain.address("tcp"))["CRICKET_TOKEN"] == TOKEN
    assert cricket(home, "login", plain.address("unix"), stdin="  \n").returncode == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_terminal_shows_what_is_typed_after_the_question_was_interrupted(plain, home, how):
    terminal, end = pty.openpty()
    before = termios.tcgetattr(end)
    # A shell without job control has what it starts in the background ignore SIGINT.
    command = ["env", "--default-signal=INT", CRICKET, "login", plain.address("tcp")]
    with subprocess.Popen(command, env=home, stdin=end, stdout=end, stderr=end) as process:
        shown = b""
        while b"Token of " not in shown:
            shown += os.read(terminal, 4096)
        assert not termios.tcgetattr(end)[3] & termios.ECHO
        process.send_signal(how)
        assert process.wait(60 * SLOW) == -how
    assert termios.tcgetattr(end) == before
    os.close(terminal)
    os.close(end)


def test_a_token_is_not_asked_for_where_it_could_not_be_sent(careful, home):
    wrong = careful.pin[:-1] + ("0" if careful.pin[-1] != "0" else "1")
    for name, why in ((f"{careful.far}#{wrong}", f"is not that of the given pin (CRICKET_TLS_PIN, tls-pin): its pin is {careful.pin}"),
                      (f"127.0.0.1:{free_port()}#{careful.pin}", "Connection refused")):
        status, shown = on_terminal(home, ("login", name), [])
        assert status == 1 and "Token of" not in shown and why in shown and shown.count("\n") == 1 and kept(home) == {}


def test_login_does_not_show_the_token_on_a_terminal(plain, home):
    status, shown = on_terminal(home, ("login", plain.address("tcp")), [(b"Token of ", TOKEN.encode())])
    assert status == 0 and "is stored" in shown and TOKEN not in shown and re.search(r"Try it: cricket check \S+", shown)
