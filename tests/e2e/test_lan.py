"""tests/e2e/test_lan.py - `cricket servers --lan`, with a stand-in for avahi-browse, and `cricket-rpc-server --setup --announce`.

The stand-in prints lines as avahi-browse 0.8 does.
"""
import json
import os
import xml.etree.ElementTree

import pytest

from conftest import PRODUCTS, SERVER, command_env, run
from test_setup import in_a_system_with_the_service

CRICKET = PRODUCTS / "cricket"
PIN = "sha256:" + "0123456789abcdef" * 4
LINES = f"""+;v0;IPv4;Cricket\\032on\\032gpu1;_cricket._tcp;local
=;v0;IPv4;Cricket\\032on\\032gpu1;_cricket._tcp;local;gpu1.local;10.77.0.1;9909;"pin={PIN}"
=;v0;IPv6;\\027[2J\\010x;_cricket._tcp;local;gpu2.local;fe80::1;9910;"pin=none"
=;v0;IPv4;wrong;_cricket._tcp;local;gpu3.local;10.77.0.3;0;
"""


def lan(tmp_path, script, *words):
    """`cricket servers --lan` with a program avahi-browse that does what SCRIPT says; None: there is none."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lines").write_text(LINES, encoding="utf-8")
    if script is not None:
        (tmp_path / "bin" / "avahi-browse").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tmp_path / "bin" / "avahi-browse").chmod(0o755)
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin" if script is not None else str(tmp_path / "bin")
    return run([CRICKET, "servers", "--lan", *words], command_env(XDG_CONFIG_HOME=str(tmp_path), PATH=path))


def test_servers_of_the_network_are_listed(tmp_path):
    done = lan(tmp_path, f'echo "$@" >{tmp_path}/words; cat {tmp_path}/lines')
    assert (done.status, done.err) == (0, "")
    rows = [line.split("  ") for line in done.out.splitlines()[1:3]]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["Cricket on gpu1", "10.77.0.1:9909", "v0", PIN], ["?[2J?x", "[fe80::1%v0]:9910", "v0", "-"]]
    assert "wrong" not in done.out and "Any host can announce" in done.out
    assert (tmp_path / "words").read_text(encoding="utf-8") == "--resolve --parsable --terminate _cricket._tcp\n"


def test_the_list_as_json_calls_the_pin_what_it_is(tmp_path):
    done = lan(tmp_path, f"cat {tmp_path}/lines", "--json")
    assert done.status == 0 and json.loads(done.out) == [
        {"name": "Cricket on gpu1", "address": "10.77.0.1:9909", "interface": "v0", "announced_pin": PIN},
        {"name": "?[2J?x", "address": "[fe80::1%v0]:9910", "interface": "v0"}]


@pytest.mark.parametrize("words, out", [([], "no server announces itself on the local network\n"), (["--json"], "[]\n")])
def test_no_server_is_no_error(tmp_path, words, out):
    done = lan(tmp_path, "true", *words)
    assert (done.status, done.out, done.err) == (0, out, "")


@pytest.mark.parametrize("script, said", [(None, "avahi-browse is not installed"), ("echo no >&2; exit 1", "does avahi-daemon run on this host?")])
def test_without_avahi_one_line_says_what_is_missing(tmp_path, script, said):
    done = lan(tmp_path, script)
    assert done.status == 1 and not done.out and said in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("script", ["exec sleep 1000", "exec yes"])
def test_a_network_that_never_ends_is_cut(tmp_path, script):
    """By time, and by size: the servers that it has printed by then are shown."""
    done = lan(tmp_path, f"cat {tmp_path}/lines; {script}")
    assert done.status == 0 and "10.77.0.1:9909" in done.out


@pytest.mark.parametrize("words", [["--state"], ["gpu1"], ["-s", "gpu1"]])
def test_lan_asks_no_server(tmp_path, words):
    done = lan(tmp_path, "true", *words)
    assert done.status == 2 and "usage" in done.err


# --- the server

@pytest.mark.parametrize("words, said", [(["--setup", "--announce", "maybe"], "--announce: not yes or no"), (["--announce", "yes"], "needs --setup")])
def test_wrong_words_of_announce(tmp_path, words, said):
    done = run([SERVER, *words], command_env(XDG_CONFIG_HOME=str(tmp_path)))
    assert done.status == 2 and said in done.err and not (tmp_path / "cricket").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for another /etc")
def test_setup_writes_the_service_file_of_avahi_and_removes_it(tmp_path):
    done = in_a_system_with_the_service(tmp_path, f"""
        {SERVER} --setup --announce yes 2>&1 >/dev/null | grep avahi-daemon && echo "no avahi"
        mkdir -p /etc/avahi/services
        {SERVER} --setup --announce yes | grep -e --lan
        sed -i s/^listen.*/listen=0.0.0.0:9999/ /etc/cricket/server.conf
        {SERVER} --setup --announce yes >/dev/null
        stat -c %a /etc/avahi/services/cricket.service
        {SERVER} --setup >/dev/null
        cp /etc/avahi/services/cricket.service {tmp_path}/kept
        {SERVER} --setup --announce no >/dev/null
        {SERVER} --setup --announce no >/dev/null
        ls /etc/avahi/services
        {SERVER} --setup gpuhost | grep "cricket login"
    """)
    if "unshare" in done.err or "mount:" in done.err:
        pytest.skip("no mounts here: " + done.err.splitlines()[-1])
    assert done.status == 0, done.err
    error, missing, announced, mode, login = done.out.splitlines()
    assert "there is no folder: install avahi-daemon" in error and missing == "no avahi"
    assert "cricket servers --lan" in announced and mode == "644"
    service = xml.etree.ElementTree.parse(tmp_path / "kept").getroot().find("service")
    pin = login.partition("#")[2]
    assert [service.find(tag).text for tag in ("type", "port", "txt-record")] == ["_cricket._tcp", "9999", f"pin={pin}"]
    assert pin.startswith("sha256:")
