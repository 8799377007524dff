"""tests/e2e/test_later_calls.py - the calls of CUDA 13.1 to 13.5, through a server and on the emulated driver itself."""
import sys

import pytest

from conftest import DRIVER, ROOT, client_env, run

PROGRAM = ROOT / "tests" / "e2e" / "later_calls.py"
GROUPS = ["kernels", "copies", "host functions", "graphs", "multiprocessors", "tensor maps", "refusals"]

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="NVIDIA's driver must be of CUDA 13.5")


def check(result):
    assert result.status == 0 and result.out.split("\n")[:-1] == [f"{g}: right" for g in GROUPS], result.out + result.err


def test_they_work_through_a_server(server):
    check(run([sys.executable, PROGRAM], client_env(server.address("unix"))))


def test_they_work_on_the_emulated_driver(direct_env):
    check(run([sys.executable, PROGRAM], direct_env))
