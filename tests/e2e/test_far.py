"""tests/e2e/test_far.py - programs whose server is far away: far.c delays the packets between two network namespaces."""
import re
import sys

import pytest

from conftest import DRIVER, OUT, SERVER, client_env, clean_env, run
from ports import free_port

FAR = OUT / "far"
UNABLE = 77         # status of FAR: this user cannot make such networks
ROUND_TRIP_MS = 100

PRELUDE = """
import ctypes
c = ctypes.CDLL("libcuda.so.1")
ctx, mem = ctypes.c_void_p(), ctypes.c_uint64()
def ok(err): assert err == 0, err
ok(c.cuInit(0))
ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0))
ok(c.cuCtxSetCurrent(ctx))
"""

# Every byte differs from those near it and from those of the last copy.
LARGE_COPIES = PRELUDE + """
import random
size = 24 << 20
ok(c.cuMemAlloc_v2(ctypes.byref(mem), ctypes.c_size_t(size)))
back = ctypes.create_string_buffer(size)
for turn in range(3):
    data = random.Random(turn).randbytes(size)
    ok(c.cuMemcpyHtoD_v2(mem, data, ctypes.c_size_t(size)))
    ok(c.cuMemcpyDtoH_v2(back, mem, ctypes.c_size_t(size)))
    assert back.raw[:size] == data, turn
print("3 copies")
"""


def run_far(folder, program, *options, mbits=0, **env):
    """Runs a Python PROGRAM against a server of its own at the end of a long network."""
    assert FAR.exists(), "not built: make -C tests far"
    port = free_port()
    address = f"10.77.0.2:{port}"
    env = client_env(address, CRICKET_DEBUG="no-compress", CRICKET_WEIGHTS="off", **env)
    preload = env.pop("LD_PRELOAD")
    server = [SERVER, "--driver", DRIVER, "--listen", address, "--unix", folder / "s", "--insecure", *options]
    result = run([FAR, ROUND_TRIP_MS, mbits, port, "env", f"CRICKET_CACHE_DIR={folder / 'cache'}", "CRICKET_LOG=error", *server,
                  "--", "env", f"LD_PRELOAD={preload}", sys.executable, "-c", program],
                 clean_env(**{k: v for k, v in env.items() if k.startswith(("CRICKET_", "REMOTE_GPU"))}), 60)
    if result.status == UNABLE:
        pytest.skip(result.err)
    return result


def connections(result, way):
    """The numbers of connections that copies in one direction were to use, in turn."""
    return [int(n) for n in re.findall(f"the next large copy {way} the server uses ([0-9]+) connections", result.err)]


@pytest.mark.slow
def test_large_copies_use_more_connections_while_that_is_faster(tmp_path):
    result = run_far(tmp_path, LARGE_COPIES, CRICKET_LOG="client:debug")
    assert result.status == 0 and "3 copies" in result.out, result.err
    for way in ("to", "from"):
        assert max(connections(result, way), default=0) >= 4, result.err


@pytest.mark.slow
def test_the_users_number_of_connections_is_kept(tmp_path):
    result = run_far(tmp_path, LARGE_COPIES, CRICKET_LOG="client:debug", CRICKET_CONNECTIONS="12")
    assert result.status == 0 and "3 copies" in result.out, result.err
    assert not connections(result, "to") and not connections(result, "from"), result.err


def test_a_limit_of_the_server_ends_the_trial(tmp_path):
    result = run_far(tmp_path, LARGE_COPIES, "--max-lanes", "3", CRICKET_LOG="client:debug")
    assert result.status == 0 and "3 copies" in result.out, result.err
    assert "no connection for a large copy" in result.err, result.err


def test_a_short_network_needs_no_more(server):
    result = run([sys.executable, "-c", LARGE_COPIES], client_env(server.address("tcp"), CRICKET_LOG="client:debug"))
    assert result.status == 0 and "3 copies" in result.out, result.err
    assert not connections(result, "to") and not connections(result, "from"), result.err
