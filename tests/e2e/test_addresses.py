"""tests/e2e/test_addresses.py - an address means the server that it names: for commands, and in what is said of those that are wrong."""
import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

from conftest import HANG, PRODUCTS, ROOT, Server, clean_env, run, wait_until
from ports import free_port
from test_command import COUNT, CRICKET, Holder, configure, home  # noqa: F401 (a fixture)


@pytest.fixture
def two(tmp_path, home):  # noqa: F811
    """A server at the usual socket, and another one; each with a session, which is s1 of both. And the environment of commands."""
    env = dict(home, XDG_RUNTIME_DIR=str(tmp_path / "usual"))
    servers = [Server(tmp_path / "usual", default_unix=True), Server(tmp_path / "other")]
    holders = []
    try:
        holders += [Holder(s, env) for s in servers]
        yield servers, holders, env
    finally:
        for h in holders:
            h.end()
        for s in servers:
            s.end()


def cricket(env, *words):
    return run([CRICKET, *words], env)


def pid_of(env, address):
    done = cricket(env, "status", "--json", "-s", address)
    assert done.status == 0, done.err
    return json.loads(done.out)["pid"]


def spellings(server):
    return [f"127.0.0.1:{server.port}", f"tcp://127.0.0.1:{server.port}", f"TCP://LocalHost:{server.port}", f"localhost:{server.port}/0",
            f"[::ffff:127.0.0.1]:{server.port}", f"tcp://127.0.0.1:{server.port}/", f" 127.0.0.1:{server.port}\n", server.address("unix"), f"UNIX:{server.unix}", f"shm:{server.unix}//0"]


def test_status_is_that_of_the_server_that_is_named(two):
    servers, _, env = two
    for s in servers:
        for address in spellings(s):
            assert pid_of(env, address) == s.process.pid, address
    assert pid_of(env, "local") == servers[0].process.pid
    report = json.loads(cricket(env, "status", "--json", "-s", servers[1].address("unix")).out)
    assert report["addresses"] == [f"127.0.0.1:{servers[1].port}", f"unix:{servers[1].unix}"]


def test_a_session_of_the_named_server_is_suspended_resumed_and_ended(two):
    servers, (usual, other), env = two
    where = f"127.0.0.1:{servers[1].port}"
    for words in (["suspend", "s1"], ["resume", "s1"]):
        done = cricket(env, words[0], "-s", where, words[1])
        assert done.status == 0, done.err
    assert other.call() == 0
    assert cricket(env, "end", "-s", where, "s1").status == 0
    wait_until(lambda: other.call() != 0, 10, "the program has learned of it")
    assert usual.call() == 0


def test_the_named_server_drains(two):
    servers, _, env = two
    done = cricket(env, "drain", "-s", f"127.0.0.1:{servers[1].port}", "1")
    assert done.status == 0, done.err
    servers[1].process.wait(60)
    assert servers[0].process.poll() is None


@pytest.mark.parametrize("words", [
    ["status"], ["metrics"], ["drain", "1s"], ["end", "s1"], ["suspend", "s1"], ["resume", "s1"], ["checkpoint", "s1", "folder"],
    ["restore", "folder"], ["move", "s1", "gpuhost", "false"], ["top"]], ids=lambda words: words[0])
def test_a_command_for_a_port_without_a_server_acts_on_none(two, words):
    servers, holders, env = two
    port = free_port()
    for address in (f"127.0.0.1:{port}", f"localhost:{port}", f"tcp://[::ffff:127.0.0.1]:{port}"):
        done = cricket(env, words[0], "-s", address, *words[1:])
        assert done.status == 1, done.out
        assert "nothing listens at this port" in done.err and f"-s unix:{servers[0].unix} " in done.err, done.err
        assert f"(pid {servers[1].process.pid}, 127.0.0.1:{servers[1].port})" in done.err
    assert [h.call() for h in holders] == [0, 0] and all(s.process.poll() is None for s in servers)


def test_the_default_port_is_not_that_of_another_server(two):
    """The server at the usual socket listens at another port than 9909."""
    _, holders, env = two
    for address in ("localhost", "127.0.0.1:9909", "tcp://[::1]"):
        assert cricket(env, "end", "-s", address, "s1").status == 1
    assert [h.call() for h in holders] == [0, 0]


def test_the_exporter_shows_the_server_that_is_named(two, tmp_path):
    servers, _, env = two
    process = subprocess.Popen([PRODUCTS / "cricket-exporter", "-s", f"127.0.0.1:{servers[1].port}", "-l", f"unix:{tmp_path}/http"], env=env)
    try:
        def reported():
            with socket.socket(socket.AF_UNIX) as s:
                if s.connect_ex(str(tmp_path / "http")) != 0:
                    return None
                s.sendall(b"GET /status.json HTTP/1.0\r\nHost: localhost\r\n\r\n")
                reply = s.makefile("rb").read()
            return b" 200 " in reply and json.loads(reply.partition(b"\r\n\r\n")[2]).get("pid")
        wait_until(lambda: reported() == servers[1].process.pid, 30, "it shows the named one")
    finally:
        process.terminate()
        process.wait(HANG)


def test_a_server_without_a_status_socket_is_not_replaced_by_another(two):
    _, holders, env = two
    with socket.create_server(("127.0.0.1", 0)) as hidden:
        done = cricket(env, "end", "-s", f"127.0.0.1:{hidden.getsockname()[1]}", "s1")
    assert done.status == 1 and "no server with a status socket says" in done.err, done.err
    assert [h.call() for h in holders] == [0, 0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_socket_of_another_user_is_not_believed(two, tmp_path):
    """A user says to be the server at a port at which a server of root listens."""
    servers, _, env = two
    path = pathlib.Path(f"/tmp/ck-liar-{os.getpid()}.status")
    liar = subprocess.Popen([sys.executable, "-c", f"""
import os, socket
os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.bind({str(path)!r}); os.chmod({str(path)!r}, 0o777); s.listen(8)
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.recv(1000)
    c.sendall(b'{{"ok": true, "version": 1, "pid": 1, "addresses": ["127.0.0.1:{servers[1].port}"], "sessions": []}}\\n')
"""], stdout=subprocess.PIPE)
    try:
        assert liar.stdout.readline() == b"ready\n"
        assert pid_of(env, f"127.0.0.1:{servers[1].port}") == servers[1].process.pid
    finally:
        liar.kill()
        liar.wait()
        path.unlink(missing_ok=True)


# --- what is said

def test_a_section_that_is_mistyped_is_named_with_those_there_are(home):  # noqa: F811
    configure(home, "[lab]\naddress = 127.0.0.1:1\n[own]\naddress = unix:/run/own\n[old]\naddress = gone.invalid\n")
    for words in (["run", "-s", "lba", "true"], ["status", "-s", "lba"], ["end", "-s", "lba", "s1"]):
        done = cricket(home, *words)
        assert done.status == 1 and "-s lba: no host has the name lba" in done.err, done.err
        assert "no section [lba] in" in done.err and "[lab] address = 127.0.0.1:1" in done.err and "[own]" in done.err
    done = cricket(home, "run", "-s", "127.0.0.1:1,lba/0", "true")
    assert done.status == 1 and "no host has the name lba" in done.err
    done = cricket(dict(home, REMOTE_GPU_ADDRESS="lba"), "run", "true")
    assert done.status == 1 and "REMOTE_GPU_ADDRESS=lba: no host has the name lba" in done.err
    done = cricket(home, "run", "-s", "old", "true")
    assert done.status == 1 and "[old] address = gone.invalid: no host has the name gone.invalid" in done.err
    assert cricket(home, "run", "-s", "lab", "true").status == 0     # a program that uses no GPU


def devices_of(env, name):
    done = cricket(env, "env", "--format", "plain", "-s", name)
    assert done.status == 0, done.err
    found = dict(line.split("=", 1) for line in done.out.splitlines())
    return found.get("REMOTE_GPU_ADDRESS"), found.get("CUDA_VISIBLE_DEVICES"), found.get("CRICKET_TLS_PIN")


def test_a_section_is_found_in_any_case_and_with_devices(home):  # noqa: F811
    pin = "sha256:" + 64 * "a"
    configure(home, f"[Lab]\naddress = gpu:1\ndevices = 1\ntls-pin = {pin}\n[BIG gpu]\naddress = gpu:2\n[big GPU]\naddress = gpu:3\n"
                    "[own]\naddress = unix:/run/own\n[two]\naddress = a,b\n")
    for name in ("Lab", "lab", "LAB", " lab\n", "lab/"):
        assert devices_of(home, name) == ("gpu:1", "1", pin), name
    assert devices_of(home, "LAB/0,3") == ("gpu:1/0,3", None, pin)
    assert devices_of(home, "own/2") == ("unix:/run/own//2", None, None)
    assert devices_of(home, "big GPU") == ("gpu:3", None, None)       # the same letters come first
    assert devices_of(home, "gpu:1/0") == ("gpu:1/0", None, pin)      # its address, as before
    done = cricket(home, "run", "-s", "lab,own", "true")
    assert done.status == 1 and "no host has the name lab" in done.err
    assert "[Lab] is a section of" in done.err and "no section" not in done.err


def test_a_configuration_may_have_comments_as_in_the_manual(home):  # noqa: F811
    manual = (ROOT / "man" / "cricket.1").read_text(encoding="utf-8").replace("\\-", "-")
    example = manual.partition("\nserver = lab")[2].partition(".fi")[0].replace("token-file", "# token-file")
    configure(home, f"# {2000 * 'x'} = {2000 * 'y'}\nserver = lab{example}\n[a#b] # a section\naddress = gpu#1\n")
    done = cricket(home, "env", "--format", "plain")
    assert done.status == 0 and "REMOTE_GPU_ADDRESS=gpuhost:9909\n" in done.out and "CUDA_VISIBLE_DEVICES=0,1\n" in done.out, done.err
    assert "[a#b] address = gpu#1" in cricket(home, "status", "-s", "lba").err


@pytest.mark.parametrize("words", [["end", "s1"], ["suspend", "s1"], ["drain"], ["status"], ["metrics"], ["store"], ["run", "true"], ["env"]])
def test_an_empty_name_is_no_server(two, words):
    """As from a variable of a shell that is not set: it must not mean the usual server."""
    servers, holders, env = two
    for empty in ("", " "):
        done = cricket(env, words[0], "-s", empty, *words[1:])
        assert done.status != 0 and "names no server" in done.err, done.err
    assert [holder.call() for holder in holders] == [0, 0]
    assert [pid_of(env, s.address("unix")) for s in servers] == [s.process.pid for s in servers]


@pytest.mark.parametrize("command", [["run", "-s"], ["env", "-s"], ["store", "-s"], ["reap", "-s"], ["put"]])
def test_commands_refuse_what_is_no_address(home, tmp_path, command):  # noqa: F811
    after = {"run": ["touch", tmp_path / "ran"], "put": ["/etc/hostname"]}.get(command[0], [])
    for address in ("http://127.0.0.1:1", "127.0.0.1:1/x", "a b", "/run/cricket.sock"):
        done = cricket(home, *command, address, *after)
        assert done.status == 1 and address in done.err and "address" in done.err + "address" * ("device" in done.err), done.err
    if command[0] != "env":                             # its variables may be for another host, which knows the name
        configure(home, "[lab]\naddress = 127.0.0.1:1\n")
        done = cricket(home, *command, "lba", *after)
        assert done.status == 1 and "-s lba: no host has the name lba" in done.err and "[lab] address" in done.err, done.err
    assert not (tmp_path / "ran").exists()


def test_the_store_is_that_of_one_server(home):  # noqa: F811
    done = cricket(home, "store", "-s", "127.0.0.1:1,127.0.0.1:2")
    assert done.status == 1 and "several servers: name one of them" in done.err and "brackets" not in done.err
    done = cricket(home, "store", "-s", "127.0.0.1:1/0")
    assert "Connection refused" in done.err


@pytest.mark.parametrize("address, said", [
    ("http://foo", "http:// is not an address"), ("http://127.0.0.1:9909", "http:// is not an address"),
    ("127.0.0.1:1,https://x/y", "https://x/y: https:// is not an address"), ("127.0.0.1:99999", "a port is a number"),
    ("127.0.0.1:0", "a port is a number"), ("::1", "brackets"), ("fe80::1%lo", "brackets"), ("127.0.0.1:1 127.0.0.1:2", "a port is a number"),
    ("127.0.0.1:1#sha256:00", "`cricket login` only"), ("gpuhost#sha256:00", "`cricket login` only"), ("./sock", "an absolute path"), ("nohost.invalid", "no host has this name"),
    ("127.0.0.1:1", "Connection refused: is cricket-rpc-server running there?"), ("TCP://127.0.0.1:1", "Connection refused"),
    ("unix:relative", "a path begins with /"), ("unix:/nothing", "is cricket-rpc-server running, with this socket?"),
    ("127.0.0.1:1/x", "a device is a number"), ("127.0.0.1:1/", "no device follows the /"), ("/run/cricket.sock", "a socket is unix:/PATH"), ("ssh://-oProxyCommand=x", "not an address"), ("srv:", "not a DNS name"),
    ("file:/dev/zero", "not a regular file"), ("file:/nothing", "No such file")])
def test_each_wrong_address_has_a_line_of_its_own(address, said):
    env = clean_env(REMOTE_GPU_ADDRESS=address, LD_PRELOAD=str(PRODUCTS / "cricket-client.so"), CRICKET_TIMEOUT="5")
    done = run([sys.executable, "-c", COUNT], env, timeout=30)
    assert said in done.err and address in done.err, done.err
    if "://" in address.partition(",")[2] or address.startswith("http"):
        assert "device is a number" not in done.err


def test_a_list_of_servers_that_is_too_long_is_refused(tmp_path):
    place = tmp_path / "list"
    with open(place, "wb") as f:
        f.truncate(1 << 40)
    env = clean_env(REMOTE_GPU_ADDRESS=f"file:{place}", LD_PRELOAD=str(PRODUCTS / "cricket-client.so"))
    assert "File too large" in run([sys.executable, "-c", COUNT], env, timeout=30).err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_socket_for_a_group_says_so_although_others_are_missing(tmp_path):
    """The usual places are the user's folder, with a socket that is not for this user, /run and /tmp, with none."""
    os.chmod(tmp_path, 0o755)
    for folder in tmp_path.parents:
        if folder != pathlib.Path("/tmp") and str(folder).startswith("/tmp"):
            os.chmod(folder, 0o755)
    server = Server(tmp_path / "usual", "--socket-mode", "0660", "--socket-group", "daemon", default_unix=True)
    os.chmod(tmp_path / "usual", 0o755)
    env = dict(clean_env(), XDG_RUNTIME_DIR=str(tmp_path / "usual"), HOME="/nonexistent")
    become = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        done = subprocess.run([sys.executable, "-c", COUNT], env=dict(env, LD_PRELOAD=str(PRODUCTS / "cricket-client.so")), text=True,
                              capture_output=True, timeout=60, check=False, **become)
        assert f"{server.unix}: Permission denied: it is for the group daemon" in done.stderr, done.stderr
        done = subprocess.run([CRICKET, "check"], env=env, text=True, capture_output=True, timeout=60, check=False, **become)
        assert f"unix:{server.unix}: Permission denied: it is for the group daemon" in done.stdout, done.stdout
    finally:
        server.end()
