"""tests/e2e/tls_servers.py - servers with TLS: fixtures and helpers of the tests of TLS."""
import contextlib

import pytest

from conftest import EXPECTED, Server, children_of, client_env, name_of, start, wait_until
from tls import Authority

TOKEN = "a token that stays secret"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def files(authority):
    return authority.sign("server")


def tls_options(files, *more):
    return ("--tls-cert", files[0], "--tls-key", files[1], *more)


@contextlib.contextmanager
def serving(folder, files, *more, **env):
    server = Server(folder, *tls_options(files, *more), **env)
    try:
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture(scope="module")
def secure(tmp_path_factory, files):
    """A server with TLS that all tests share which leave it as it was."""
    with serving(tmp_path_factory.mktemp("secure"), files) as server:
        yield server


def pin_of(server):
    wait_until(lambda: "pin is sha256:" in server.log(), 5, "the pin is in the log")
    return server.log().rpartition("pin is ")[2].split()[0]


def front(server):
    """Its process, which has its name a moment after it has been started."""
    def found():
        return [p for p in children_of(server.process.pid) if name_of(p) == "cricket-tls"]
    wait_until(found, 10, "the process that makes handshakes")
    return found()[0]


def relays(server):
    return children_of(front(server))


def computes(result, program="vector_add"):
    assert (result.status, result.out, result.err) == (0, (EXPECTED / f"{program}.txt").read_text(), "")


def refused(result, words):
    assert result.status != 0 and len(result.lines_about(words)) == 1, result.err


def closed(s):
    """Reads what comes until the peer has closed the connection."""
    with contextlib.suppress(ConnectionResetError):
        while s.recv(100):
            pass
    return True


@pytest.fixture
def own_tls(tmp_path, files):
    with serving(tmp_path / "own", files) as server:
        yield server


def running(app, address, **env):
    client = start([app("endless"), "sync"], client_env(address, **env))
    assert client.stdout.readline() == "running\n", client.stderr.read()
    return client
