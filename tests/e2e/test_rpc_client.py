"""tests/e2e/test_rpc_client.py - the clients in docs/examples, which know rpc/cricket.x and nothing else of ours."""
import shlex
import shutil
import subprocess
import sys

import pytest

from conftest import KIND, ROOT, clean_env, run

EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def stock_client(tmp_path_factory):
    """rpcgen's own output, compiled with libtirpc."""
    folder = tmp_path_factory.mktemp("stock")
    for source in (ROOT / "rpc" / "cricket.x", EXAMPLES / "rpc_client.c"):
        shutil.copy(source, folder)
    flags = [shlex.split(subprocess.run(["pkg-config", what, "libtirpc"], capture_output=True, text=True, check=True).stdout)
             for what in ("--cflags", "--libs")]
    subprocess.run(["rpcgen", "cricket.x"], cwd=folder, check=True)
    subprocess.run(["cc", "-w", *flags[0], "rpc_client.c", "cricket_clnt.c", "cricket_xdr.c", *flags[1], "-o", "rpc_client"],
                   cwd=folder, check=True)
    return folder / "rpc_client"


@pytest.mark.skipif(bool(KIND), reason="nothing of it is ours")
def test_a_client_of_stock_rpcgen_computes(server, stock_client):
    result = run([stock_client, "127.0.0.1", server.port], clean_env())
    assert (result.status, result.err) == (0, "")
    assert result.out.endswith("\n1000 numbers, 0 wrong\n")


def test_a_client_in_python_alone_computes(server):
    result = run([sys.executable, EXAMPLES / "rpc_client.py", "127.0.0.1", server.port], clean_env())
    assert (result.status, result.out, result.err) == (0, "1000 numbers, 0 wrong\n", "")
