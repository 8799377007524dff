"""tests/e2e/test_stock_client.py - the clients of docs/examples, made of stock parts, against a server."""
import shutil
import subprocess
import sys

import pytest

from conftest import KIND, ROOT, clean_env, run

EXAMPLES = ROOT / "docs" / "examples"
IMAGE = EXAMPLES / "add_one.ptx"

pytestmark = pytest.mark.skipif(bool(KIND), reason="the clients are not ours to instrument")


def flags(what):
    """What pkg-config says of libtirpc."""
    return subprocess.run(["pkg-config", what, "libtirpc"], capture_output=True, text=True, check=True,
                          timeout=10).stdout.split()


@pytest.fixture(name="stock", scope="module")
def fixture_stock(tmp_path_factory):
    """The C client, of the output of rpcgen as it is."""
    folder = tmp_path_factory.mktemp("stock")
    shutil.copy(ROOT / "rpc" / "cricket.x", folder)
    subprocess.run(["rpcgen", "cricket.x"], cwd=folder, check=True, timeout=60)
    # Only our file is held to the warnings: rpcgen leaves unused variables behind.
    for source, warnings in ((EXAMPLES / "client.c", ["-Wall", "-Werror"]), ("cricket_clnt.c", ["-w"]),
                             ("cricket_xdr.c", ["-w"])):
        subprocess.run(["cc", *warnings, *flags("--cflags"), "-I.", "-c", source], cwd=folder, check=True,
                       timeout=120)
    subprocess.run(["cc", "client.o", "cricket_clnt.o", "cricket_xdr.o", *flags("--libs"), "-o", "client"],
                   cwd=folder, check=True, timeout=60)
    return folder / "client"


def name_of_image():
    return subprocess.run(["b2sum", "-l", "256", IMAGE], capture_output=True, text=True, check=True,
                          timeout=10).stdout.split()[0]


def test_a_client_of_rpcgen_and_libtirpc_computes(server, stock):
    result = run([stock, "127.0.0.1", server.port, IMAGE, name_of_image()], clean_env())
    assert result.status == 0, result.err + server.log()
    assert result.out.endswith("1000 numbers are right\n")


def test_an_image_under_another_name_is_no_success(server, stock):
    result = run([stock, "127.0.0.1", server.port, IMAGE, "00" * 32], clean_env())
    assert result.status == 1 and "CUDA error" in result.err, (result.out, result.err)


def test_a_client_in_python_computes(server):
    result = run([sys.executable, EXAMPLES / "client.py", "127.0.0.1", server.port, IMAGE], clean_env())
    assert result.status == 0, result.err + server.log()
    assert result.out.endswith("1000 numbers are right\n")
