"""tests/e2e/test_stock_client.py - the clients of docs/examples, made of stock parts, against a server."""
import sys

import pytest

import stock
from conftest import KIND, ROOT, clean_env, run

pytestmark = pytest.mark.skipif(bool(KIND), reason="the clients are not ours to instrument")


@pytest.fixture(name="client", scope="module")
def fixture_client(tmp_path_factory):
    """The C client, of the protocol as it is today."""
    return stock.build(tmp_path_factory.mktemp("stock"), ROOT / "rpc" / "cricket.x")


def test_a_client_of_rpcgen_and_libtirpc_computes(server, client):
    result = run([client, "127.0.0.1", server.port, stock.IMAGE, stock.name_of_image()], clean_env())
    assert result.status == 0, result.err + server.log()
    assert result.out.endswith("1000 numbers are right\n")


def test_an_image_under_another_name_is_no_success(server, client):
    result = run([client, "127.0.0.1", server.port, stock.IMAGE, "00" * 32], clean_env())
    assert result.status == 1 and "CUDA error" in result.err, (result.out, result.err)


def test_a_client_in_python_computes(server):
    result = run([sys.executable, stock.EXAMPLES / "client.py", "127.0.0.1", server.port, stock.IMAGE], clean_env())
    assert result.status == 0, result.err + server.log()
    assert result.out.endswith("1000 numbers are right\n")
