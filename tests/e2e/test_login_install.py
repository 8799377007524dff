"""tests/e2e/test_login_install.py - `cricket login --install`: the client of the server's release, from the server."""
import contextlib
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys

import pytest

from conftest import HANG, KIND, PRODUCTS, ROOT, SLOW, Server, clean_env, run, wait_until
from stranger import call, opaque, results
from tls import Authority, Middle

pytestmark = pytest.mark.skipif(bool(KIND), reason="what has sanitizers is not installed")

COUNT = """
import ctypes
c, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(c.cuInit(0), c.cuDeviceGetCount(ctypes.byref(n)), n.value)
"""
TOKEN = "a token that nobody may read"


@pytest.fixture(name="home")
def fixture_home(tmp_path):
    """The environment of a user who has the command alone."""
    (tmp_path / "home" / "cricket").mkdir(parents=True)
    env = clean_env(HOME=str(tmp_path / "home"), XDG_CONFIG_HOME=str(tmp_path / "home"))
    return env


def local(home):
    return pathlib.Path(home["HOME"]) / ".local"


def cricket(env, *words, stdin="", program=PRODUCTS / "cricket"):
    return subprocess.run([str(program), *map(str, words)], env=env, capture_output=True, text=True, input=stdin,
                          timeout=60 * SLOW, check=False)


def installed(home):
    """What is below ~/.local: paths of files and links."""
    return sorted(str(p.relative_to(local(home))) for p in local(home).rglob("*") if not p.is_dir() or p.is_symlink())


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_the_servers_client_is_installed_and_runs(server, home, transport):
    done = cricket(home, "login", "--install", server.address(transport))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    prefix = local(home)
    assert f"Its command is {prefix}/bin/cricket; that folder is not in PATH." in done.stdout
    for name in ("cricket-client.so", "cricket", "libcuda-emu.so", "libnvidia-ml.so.1", "libcupti.so.13", "libnccl.so.2"):
        assert (prefix / "lib" / "cricket" / name).read_bytes() == (PRODUCTS / name).read_bytes()
    for name in ("lib/libcuda.so.1", "lib/libcuda.so", "lib/libnvidia-ml.so.1", "emu/libcuda.so.1"):
        assert (prefix / "lib" / "cricket" / name).exists() and (prefix / "lib" / "cricket" / name).is_symlink()
    done = cricket(home, "run", "-s", server.address(transport), "--", sys.executable, "-c", COUNT,
                   program=prefix / "bin" / "cricket")
    assert (done.returncode, done.stdout) == (0, "0 0 1\n"), done.stderr
    maps = cricket(home, "run", "-s", server.address(transport), "--", sys.executable, "-c",
                   COUNT + "print(open('/proc/self/maps').read())", program=prefix / "bin" / "cricket")
    assert str(prefix / "lib") in maps.stdout and str(PRODUCTS) not in maps.stdout


def test_a_second_time_there_is_nothing_to_install(server, home):
    assert cricket(home, "login", "--install", server.address("tcp")).returncode == 0
    before = installed(home)
    done = cricket({**home, "PATH": f"{local(home) / 'bin'}:{home['PATH']}"}, "login", server.address("tcp"), "-i")
    assert done.returncode == 0 and " is already in " in done.stdout and "PATH" not in done.stdout
    assert installed(home) == before


def another_client(folder):
    """A client that differs in a byte, as of another release."""
    folder.mkdir()
    for name in ("cricket", "cricket-client.so"):
        shutil.copy2(PRODUCTS / name, folder)
    with open(folder / "cricket-client.so", "ab") as f:
        f.write(b"\n")
    return folder


def test_another_client_comes_beside_the_one_that_runs(server, home, tmp_path):
    assert cricket(home, "login", "--install", server.address("tcp")).returncode == 0
    before = (local(home) / "lib" / "cricket").resolve()
    other = Server(tmp_path / "server", "--client-files", another_client(tmp_path / "client"))
    try:
        assert cricket(home, "login", "--install", other.address("tcp")).returncode == 0
    finally:
        other.stop()
    after = (local(home) / "lib" / "cricket").resolve()
    assert after != before and (before / "cricket-client.so").exists()
    assert (after / "cricket-client.so").read_bytes() == (PRODUCTS / "cricket-client.so").read_bytes() + b"\n"
    assert len([p for p in (local(home) / "lib").iterdir() if not p.is_symlink()]) == 2


def test_a_prefix_may_be_named(server, home, tmp_path):
    done = cricket(home, "login", f"--install={tmp_path / 'opt' / 'deep'}", server.address("tcp"))
    assert done.returncode == 0, done.stderr
    assert run([tmp_path / "opt" / "deep" / "bin" / "cricket", "--version"], home).status == 0
    assert not local(home).exists()


@pytest.fixture(name="files", scope="module")
def fixture_files(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return authority, authority.sign("server", names="IP:127.0.0.1,IP:127.0.0.2")


@pytest.fixture(name="careful", scope="module")
def fixture_careful(tmp_path_factory, files):
    """A server with TLS and a token, which also has an address that is not an interface's."""
    folder = tmp_path_factory.mktemp("careful")
    (folder / "token").write_text(TOKEN + "\n", encoding="utf-8")
    (folder / "token").chmod(0o600)
    server = Server(folder / "server", "--listen", "127.0.0.2:0", "--tls-cert", files[1][0], "--tls-key", files[1][1],
                    "--token-file", folder / "token")
    yield server
    server.stop()


def far(server):
    """Its address that counts as one of another host."""
    wait_until(lambda: "listening on 127.0.0.2:" in server.log(), 10, "it says where it listens")
    line = next(x for x in server.log().splitlines() if "listening on 127.0.0.2:" in x)
    return line.rpartition(" ")[2]


def test_over_tls_with_the_token_that_is_asked_for(careful, files, home):
    env = {**home, "CRICKET_TLS_CA": str(files[0].ca)}
    done = cricket(env, "login", "--install", far(careful), stdin="wrong\n")
    assert done.returncode == 1 and "refuses this token" in done.stderr and "lib/cricket" not in " ".join(installed(home))
    done = cricket(env, "login", "--install", far(careful), stdin=TOKEN + "\n")
    assert done.returncode == 0 and "The token of" in done.stdout, done.stderr
    done = cricket(env, "login", "--install", far(careful))
    assert done.returncode == 0 and "The token of" not in done.stdout and " is already in " in done.stdout
    assert TOKEN not in done.stdout + done.stderr + careful.log()


@pytest.mark.parametrize("tls", ["off", "offer", ""])
def test_nothing_is_installed_from_another_host_without_tls(home, tmp_path, tls):
    server = Server(tmp_path / "server", "--listen", "127.0.0.2:0")
    try:
        env = {**home, **({"CRICKET_TLS": tls} if tls else {})}
        done = cricket(env, "login", "--install", far(server))
    finally:
        server.stop()
    assert done.returncode == 1 and "TLS" in done.stderr, done.stderr
    assert not installed(home)


def test_a_client_that_is_damaged_on_the_way_is_not_installed(server, home):
    middle = Middle(server.port, lambda data, to_server, before:
                    data if to_server or before < 100000 else data.replace(b"e", b"f"))
    done = cricket(home, "login", "--install", middle.address)
    middle.stop()
    assert done.returncode == 1 and "is damaged" in done.stderr, done.stderr
    assert not installed(home) and not list((local(home) / "lib").iterdir())


def test_a_connection_that_breaks_leaves_nothing(server, home):
    def cut(data, to_server, before):
        if not to_server and before > 100000:
            raise OSError("cut")
        return data
    middle = Middle(server.port, cut)
    done = cricket(home, "login", "--install", middle.address)
    middle.stop()
    assert done.returncode == 1 and "has not arrived" in done.stderr, done.stderr
    assert not list((local(home) / "lib").iterdir())


@pytest.mark.parametrize("lacks, words", [("cricket-client.so", "has no client beside it"),
                                          ("runs", "does not run on this system")])
def test_what_the_server_lacks_is_said(home, tmp_path, lacks, words):
    folder = another_client(tmp_path / "client")
    if lacks == "runs":
        (folder / "cricket").write_text("#!/nowhere/at/all\n", encoding="utf-8")
    else:
        (folder / lacks).unlink()
    server = Server(tmp_path / "server", "--client-files", folder)
    try:
        done = cricket(home, "login", "--install", server.address("tcp"))
    finally:
        server.stop()
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert not list((local(home) / "lib").iterdir())


def test_another_installation_is_not_overwritten(server, home):
    (local(home) / "lib" / "cricket").mkdir(parents=True)
    done = cricket(home, "login", "--install", server.address("tcp"))
    assert done.returncode == 1 and "was installed in another way" in done.stderr
    assert os.listdir(local(home) / "lib" / "cricket") == []


def test_the_server_stays_without_processes_of_downloads(own_server, home, tmp_path):
    for i in range(6):
        assert cricket(home, "login", f"--install={tmp_path / str(i)}", own_server.address("tcp")).returncode == 0
    own_server.wait_idle()
    wait_until(lambda: own_server.log().count("has the client's files") == 6, 10, "all are logged")


def download(server, address):
    """Asks for the client's files from ADDRESS, and reads none of them. The connection, and the answer's status and text."""
    connection = socket.create_connection(("127.0.0.1", server.port), HANG, source_address=(address, 0))
    connection.sendall(call(7, opaque(b"") + opaque(b"test") + opaque(os.uname().machine.encode())))
    answer = results(connection)
    status, length = struct.unpack(">II", answer[:8])
    return connection, status, answer[8:8 + length].decode()


def test_slow_downloads_of_one_address_leave_room_for_others(own_server):
    """2 of an address, 8 in all; a place is free again when a download ends."""
    with contextlib.ExitStack() as stack:
        def ask(address):
            connection, status, text = download(own_server, address)
            stack.callback(connection.close)
            return connection, status, text
        first = [ask("127.0.0.1") for _ in range(3)]
        assert [status for _, status, _ in first] == [0, 0, 3] and "to this address already" in first[2][2]
        others = [ask(f"127.0.0.{2 + i // 2}") for i in range(6)]
        assert [status for _, status, _ in others] == [0] * 6
        assert ask("127.0.0.9")[1:] == (3, "the server sends its files to others; try again later")
        first[0][0].close()
        wait_until(lambda: ask("127.0.0.9")[1] == 0, 20, "its place is free")


def test_an_installation_of_packages_is_sent_with_its_links(home, tmp_path):
    """What tools/install.sh has installed is a client to send, too."""
    done = run([ROOT / "tools" / "install.sh", "client", "/usr"], clean_env(DESTDIR=str(tmp_path / "package")))
    assert done.status == 0, done.err
    source = tmp_path / "package" / "usr" / "lib" / "cricket"
    server = Server(tmp_path / "server", "--client-files", source)
    try:
        assert cricket(home, "login", "--install", server.address("tcp")).returncode == 0
    finally:
        server.stop()
    target = local(home) / "lib" / "cricket"
    names = sorted(str(p.relative_to(source)) for p in source.rglob("*") if p.is_symlink() or p.is_file())
    assert names == sorted(str(p.relative_to(target.resolve())) for p in target.resolve().rglob("*")
                           if p.is_symlink() or p.is_file())
