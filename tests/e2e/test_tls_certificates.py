"""tests/e2e/test_tls_certificates.py - certificates of clients as identities, certificates that the server makes, and lists of pins."""
import json
import signal
import subprocess

import pytest

from conftest import PRODUCTS, SERVER, SLOW, clean_env, client_env, ended, run, wait_until
from test_control import Asker
from test_exporter import exporter
from test_refusals import new_token
from tls import Authority
from tls_servers import TOKEN, authority, computes, files, pin_of, refused, running, secure, serving, tls_options  # noqa: F401


def owner(authority, name, **more):
    cert, key = authority.sign(name, names=None, use="clientAuth", **more)
    return {"CRICKET_TLS_CA": str(authority.ca), "CRICKET_TLS_CERT": str(cert), "CRICKET_TLS_KEY": str(key)}


def test_a_certificate_is_an_identity(tmp_path, files, authority, app):
    """Without a token there is no other way in over TCP; each name has limits of its own."""
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--sessions-per-identity", "1") as server:
        alice, bob = owner(authority, "alice"), owner(authority, "bob@lab.example")
        client = running(app, server.address("tcp"), **alice)
        assert "for certificate alice" in server.log()
        computes(run([app("vector_add")], client_env(server.address("tcp"), **bob)))
        assert "for certificate bob@lab.example" in server.log()
        refused(run([app("vector_add")], client_env(server.address("tcp"), **alice)), "certificate alice has 1 session,")
        refused(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_CA=str(authority.ca))),
                "admits only clients with a certificate")
        computes(run([app("vector_add")], client_env(server.address("unix"))))
        client.kill()
        client.communicate()


def test_token_or_certificate(tmp_path, files, authority, app):
    (tmp_path / "token").write_text(TOKEN + "\n")
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--token-file", tmp_path / "token") as server:
        anonymous = {"CRICKET_TLS_CA": str(authority.ca)}
        for admitted in (owner(authority, "carol"), dict(anonymous, CRICKET_TOKEN=TOKEN)):
            computes(run([app("vector_add")], client_env(server.address("tcp"), **admitted)))
        refused(run([app("vector_add")], client_env(server.address("tcp"), **anonymous)), "or with a certificate")
        assert "for certificate carol" in server.log() and "for the token's holder" in server.log()


def test_a_certificate_is_not_the_token_of_its_name(tmp_path, files, authority, app):
    """Neither in lists, metrics and the audit log nor for the holder of the token at the exporter."""
    secret, line = new_token("alice")
    (tmp_path / "tokens").write_text(line + "\n")
    audit = tmp_path / "audit"
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--token-file", tmp_path / "tokens", "--audit", audit) as server:
        ways = (owner(authority, "alice"), {"CRICKET_TLS_CA": str(authority.ca), "CRICKET_TOKEN": secret.decode()})
        programs = [running(app, server.address("tcp"), **way) for way in ways]
        begun = [json.loads(line) for line in audit.read_text().splitlines() if '"session-begin"' in line]
        assert [x["identity"] for x in begun] == ["certificate alice", "alice"]
        assert sorted(x["identity"] for x in Asker(server).ask("sessions")["sessions"]) == ["alice", "certificate alice"]
        with exporter(clean_env(HOME=str(tmp_path)), server.address("unix"), "-i", "-t", tmp_path / "tokens") as e:
            seen = json.loads(e.get("/status.json", Authorization=f"Bearer {secret.decode()}")[2])
            assert [(x["identity"], x["client_pid"]) for x in seen["sessions"]] == [("alice", programs[1].pid)]
        for program in programs:
            program.kill()
            program.communicate()


@pytest.mark.parametrize("how, words", [
    ({"days": 0}, "certificate has expired"),
    ({"subject": "/CN=a b"}, "no name that can be an identity"),
    ({"subject": "/O=lab"}, "no name that can be an identity"),
])
def test_a_clients_certificate_that_is_not_accepted(tmp_path, files, authority, app, how, words):
    audit = tmp_path / "audit"
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--audit", audit) as server:
        env = client_env(server.address("tcp"), CRICKET_RESUME="0", **owner(authority, "dave", **how))
        refused(run([app("vector_add")], env), "does not accept this end's certificate")
        assert_recorded(audit, words)
        wait_until(lambda: words in server.log(), 5, "the log tells")
        assert "session of" not in server.log()
        asker = Asker(server)       # the client has tried several times, and the last one may be on its way
        wait_until(lambda: asker.ask("status")["totals"]["refused"]["certificate"] == len(refusals(audit)), 5, "all are recorded and counted")


def refusals(audit):
    return [event for event in map(json.loads, audit.read_text().splitlines()) if event["event"] == "refused"]


def assert_recorded(audit, words):
    wait_until(lambda: refusals(audit), 5, "the audit log has the refusal")
    for event in refusals(audit):
        assert (event["reason"], event["address"], event["identity"]) == ("certificate", "127.0.0.1", None)
        assert words in event["why"]


def test_a_clients_certificate_of_another_authority(tmp_path, files, authority, app):
    other = owner(Authority(tmp_path / "other"), "alice")
    other["CRICKET_TLS_CA"] = str(authority.ca)
    audit = tmp_path / "audit"
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--audit", audit) as server:
        assert run([app("vector_add")], client_env(server.address("tcp"), **other)).status != 0
        assert_recorded(audit, "the client's certificate: ")
        assert "session of" not in server.log()


def test_a_client_that_does_not_accept_the_server_is_not_refused(tmp_path, files, authority, app):
    """It has ended the handshake itself."""
    stranger, audit = Authority(tmp_path / "stranger"), tmp_path / "audit"
    with serving(tmp_path / "server", files, "--tls-ca", authority.ca, "--audit", audit) as server:
        env = client_env(server.address("tcp"), **{**owner(authority, "alice"), "CRICKET_TLS_CA": str(stranger.ca)})
        assert run([app("vector_add")], env).status != 0
        wait_until(lambda: "TLS: refused" in server.log(), 5, "the handshake has ended")
        computes(run([app("vector_add")], client_env(server.address("tcp"), **owner(authority, "alice"))))
        assert not refusals(audit)


def test_a_server_that_other_hosts_reach_needs_more_than_encryption(tmp_path, files, authority):
    """A token, or certificates of clients."""
    def starts(*more):
        p = subprocess.Popen([str(w) for w in (SERVER, "--driver", "emu", "--listen", "0.0.0.0:0", "--unix", tmp_path / "u",
                                               *tls_options(files, *more))],
                             env=clean_env(), stderr=subprocess.PIPE, text=True)
        try:
            for line in p.stderr:
                if "driver emu" in line or "there is no token" in line:
                    return "driver emu" in line
        finally:
            p.terminate()
            p.communicate()
    assert not starts()
    assert starts("--tls-ca", authority.ca)
    assert not starts("--tls-ca", authority.ca, "--tls", "offered")


def test_new_cert_prints_what_both_ends_need(tmp_path, app):
    result = run([SERVER, "--new-cert", tmp_path / "tls", "127.0.0.1", "gpuhost"], clean_env())
    assert result.status == 0, result.err
    server_line, client_line = result.out.splitlines()
    files = (tmp_path / "tls" / "cert.pem", tmp_path / "tls" / "key.pem")
    assert server_line.split() == ["server:", "--tls-cert", str(files[0]), "--tls-key", str(files[1])]
    assert files[1].stat().st_mode & 0o777 == 0o600
    pin = client_line.partition("CRICKET_TLS_PIN=")[2]
    with serving(tmp_path / "server", files) as server:
        assert pin_of(server) == pin
        for trust in ({"CRICKET_TLS_PIN": pin}, {"CRICKET_TLS_CA": str(files[0])}):
            computes(run([app("vector_add")], client_env(server.address("tcp"), **trust)))
    assert run([SERVER, "--new-cert", tmp_path / "more", "not a name"], clean_env()).status == 2


def new_cert(folder, *names):
    return run([SERVER, "--new-cert", folder, *names], clean_env())


def test_a_new_certificate_for_the_same_key_keeps_the_pin(tmp_path, app):
    folder = tmp_path / "tls"
    first = new_cert(folder, "127.0.0.1").out
    old, key = (folder / "cert.pem").read_bytes(), (folder / "key.pem").read_bytes()
    pin = first.partition("CRICKET_TLS_PIN=")[2].strip()
    with serving(tmp_path / "server", (folder / "cert.pem", folder / "key.pem")) as server:
        again = new_cert(folder, "127.0.0.1", "gpuhost").out
        assert again.partition("CRICKET_TLS_PIN=")[2].strip() == pin and "the pin is as before" in again
        assert (folder / "cert.pem").read_bytes() != old and (folder / "key.pem").read_bytes() == key
        assert sorted(p.name for p in folder.iterdir()) == ["cert.pem", "key.pem"]
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "SIGHUP" in server.log(), 10, "the signal arrives")
        computes(run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TLS_PIN=pin)))


def test_new_cert_replaces_no_certificate_that_it_could_not_make(tmp_path, authority, files):
    folder = tmp_path / "tls"
    folder.mkdir()
    for name, source in (("cert.pem", files[0]), ("key.pem", files[1])):        # an authority has signed it
        (folder / name).write_bytes(source.read_bytes())
        (folder / name).chmod(0o600)
    before = (folder / "cert.pem").read_bytes()
    done = new_cert(folder, "gpuhost")
    assert done.status == 2 and "cert.pem" in done.err and (folder / "cert.pem").read_bytes() == before
    (folder / "key.pem").unlink()                                               # a certificate without its key
    done = new_cert(folder, "gpuhost")
    assert done.status == 2 and "cert.pem: File exists" in done.err and not (folder / "key.pem").exists()
    (folder / "cert.pem").unlink()
    (folder / "key.pem").write_text("no key\n")
    (folder / "key.pem").chmod(0o600)
    done = new_cert(folder, "gpuhost")
    assert done.status == 2 and "key.pem" in done.err and not (folder / "cert.pem").exists()
    (folder / "key.pem").chmod(0o644)
    assert "other users can read" in new_cert(folder, "gpuhost").err


def test_a_list_of_pins_lets_a_key_be_replaced(tmp_path, secure, authority, app):
    """Before and after the change of the server's key, with the same pins."""
    pin, other = pin_of(secure), "sha256:" + "0" * 64
    for pins in (f"{other},{pin}", f"{pin.upper().replace('SHA', 'sha')},{other}", f" {other} , {pin}"):
        computes(run([app("vector_add")], client_env(secure.address("tcp"), CRICKET_TLS_PIN=pins)))
    for pins, words in ((f"{other},{other[:-1]}1", "not that of the given pin"), (f"{pin},", None), (f"{pin},sha256:12", "not a pin"),
                        (",", "not a pin"), (f"{pin}{pin}", "not a pin")):
        result = run([app("vector_add")], client_env(secure.address("tcp"), CRICKET_TLS_PIN=pins))
        refused(result, words) if words else computes(result)


def cricket(env, *words, stdin=""):
    return subprocess.run([str(w) for w in (PRODUCTS / "cricket", *words)], env=env, capture_output=True, text=True,
                          input=stdin, timeout=60 * SLOW)


def test_a_configuration_file_says_whom_to_trust(tmp_path, secure, authority):
    (tmp_path / "cricket").mkdir()
    home = clean_env(XDG_CONFIG_HOME=str(tmp_path))
    for key, variable, value in (("tls-pin", "CRICKET_TLS_PIN", pin_of(secure)),
                                 ("tls-pin", "CRICKET_TLS_PIN", ",".join([f"sha256:{i:064}" for i in range(5)] + [pin_of(secure)])), ("tls-ca", "CRICKET_TLS_CA", authority.ca)):
        (tmp_path / "cricket" / "config").write_text(f"[lab]\naddress = {secure.address('tcp')}\n{key} = {value}\n")
        done = cricket(home, "check", "lab")
        assert done.returncode == 0, done.stdout + done.stderr
        assert [line for line in done.stdout.splitlines() if line.split()[:2] == ["ok", "tls"] and "TLSv1.3" in line]
        assert f"{variable}={value}" in cricket(home, "env", "--format", "plain", "-s", "lab").stdout.splitlines()
    done = cricket(dict(home, CRICKET_TLS_CA="/nowhere"), "check", "lab")       # a variable comes before the file
    assert done.returncode == 1 and "FAILED tls" in done.stdout and "/nowhere" in done.stdout
    done = cricket(home, "check", secure.address("unix"))
    assert done.returncode == 0 and "not needed: a socket of this host" in done.stdout
    assert cricket(home, "check", secure.address("tcp")).returncode == 0        # the section has this address
    (tmp_path / "cricket" / "config").unlink()
    done = cricket(home, "check", secure.address("tcp"))
    assert done.returncode == 1 and "none: everyone who can read the network can read all data" in done.stdout
    assert "admits only clients that use TLS" in done.stdout
