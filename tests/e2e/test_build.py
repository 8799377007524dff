"""tests/e2e/test_build.py - what single goals of the build leave: enough to run."""
import shutil

import pytest

from conftest import KIND, ROOT, Server, clean_env, client_env, run

pytestmark = pytest.mark.skipif(bool(KIND), reason="nothing here depends on sanitizers")


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    """Sources and objects, without what is linked of them."""
    names = ["cpu/Makefile", "cpu/hardening.mk", "cpu/build", *(f.name for f in ROOT.iterdir() if f.is_dir() and f.name not in
                                            (".git", "cpu", "build", "tests", "bench", "docs", "submodules"))]
    for name in names:
        target = tmp_path / "cricket" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, target)
    return tmp_path / "cricket"


def test_server_and_client_alone_run_a_program_without_a_gpu(tree, app, tmp_path):
    """The two goals that the README names, and the server as it starts by itself."""
    made = run(["make", "-C", tree / "cpu", "cricket-rpc-server", "cricket-client.so"], clean_env(), 300)
    assert made.status == 0, made.err
    server = Server(tmp_path / "server", "--driver", "auto", program=tree / "cpu" / "cricket-rpc-server")
    env = client_env(server.address("unix"), LD_PRELOAD=str(tree / "cpu" / "cricket-client.so"))
    result = run([app("vector_add")], env)
    server.stop()
    assert "0 wrong" in result.out, result.err


def test_a_server_without_the_emulated_driver_says_how_to_build_it(tmp_path):
    shutil.copy2(ROOT / "cpu" / "cricket-rpc-server", tmp_path)
    result = run([tmp_path / "cricket-rpc-server", "--driver", "emu", "--listen", "127.0.0.1:0", "--unix",
                  tmp_path / "socket"], clean_env())
    assert result.status == 1
    assert "make -C cpu libcuda-emu.so" in result.err, result.err
