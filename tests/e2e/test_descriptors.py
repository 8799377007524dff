"""tests/e2e/test_descriptors.py - programs that close descriptors that they did not open (../test_apps/closes.c), and
that have few."""
import pytest

from conftest import TRANSPORTS, Server, client_env, run
from tls import Authority


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory):
    """The environment of clients of a server that accepts only TLS."""
    folder = tmp_path_factory.mktemp("encrypted")
    authority = Authority(folder / "trust")
    cert, key = authority.sign("server")
    server = Server(folder / "server", "--tls-cert", cert, "--tls-key", key)
    yield client_env(f"localhost:{server.port}", CRICKET_TLS="require", CRICKET_TLS_CA=str(authority.ca))
    server.stop()


@pytest.fixture(params=[*TRANSPORTS, "tls"])
def env(request, server):
    if request.param == "tls":
        return request.getfixturevalue("encrypted")
    return client_env(server.address(request.param))


@pytest.mark.parametrize("what", ["loop", "range", "taken", "events"])
def test_a_program_that_closes_everything_loses_the_session_and_no_file(env, app, what):
    """A thread waits at that moment. What the program opens in the places of the client's descriptors stays as it is."""
    result = run([app("closes"), what], env)
    assert (result.status, result.err.count("is lost"), len(result.err.splitlines())) == (0, 1, 1), result
    assert "the program has closed" in result.err, result
    lines = result.out.splitlines()
    assert lines[0] == "afterwards: fails" and lines[1].startswith("damaged: 0") and len(lines) == 2, result


def test_a_child_closes_no_file_of_the_program(env, app):
    result = run([app("closes"), "child"], env)
    lines = result.out.splitlines()
    assert result.status == 0 and len(lines) == 2 and all(line.startswith("damaged: 0") for line in lines), result


@pytest.mark.parametrize("how", ["closed", "replaced"])
def test_a_single_descriptor_is_not_missed(env, app, how):
    """Each of the client's descriptors in turn, as a program closes one by mistake."""
    for which in range(64):
        result = run([app("closes"), how, which], env)
        assert (result.status, result.err) == (0, ""), (which, result)
        if "no more" in result.out:
            break
        assert result.out.startswith("damaged: 0"), (which, result)
    assert 5 < which < 63
