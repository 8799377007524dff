"""tests/e2e/test_warm.py - spare workers: a client of one sees what a client of a fresh one sees."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import (DRIVER, KIND, Server, client_env, ended, is_alive, name_of, run, start,
                      wait_until)
from test_server import serve

HERE = pathlib.Path(__file__).parent

# What a primary context's state looks like from its first moment on, through a reset and an end.
PROBE = """
import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
def ask(name, *args):
    err = getattr(cuda, name)(*args)
    print(name, err, *(getattr(a, "_obj", a).value if hasattr(a, "_obj") else a for a in args
                       if hasattr(a, "_obj") and not isinstance(a._obj, c_void_p)))
flags, active, ctx, free, total = c_uint(), c_int(), c_void_p(), c_size_t(), c_size_t()
def state():
    ask("cuDevicePrimaryCtxGetState", 0, byref(flags), byref(active))
ask("cuInit", 0)
state()
ask("cuDevicePrimaryCtxRelease_v2", 0)
if FLAGS is not None:
    ask("cuDevicePrimaryCtxSetFlags_v2", 0, FLAGS)
    state()
if OTHER:
    other = c_void_p()
    ask("cuCtxCreate_v2", byref(other), 0, 0)
    ask("cuMemGetInfo_v2", byref(free), byref(total))
    ask("cuCtxDestroy_v2", other)
for _ in range(2):
    ask("cuDevicePrimaryCtxRetain", byref(ctx), 0)
    ask("cuCtxSetCurrent", ctx)
    ask("cuCtxGetFlags", byref(flags))
    ask("cuMemGetInfo_v2", byref(free), byref(total))
    ask("cuMemAlloc_v2", byref(c_void_p()), c_size_t(1 << 20))
    state()
    ask("cuDevicePrimaryCtxReset_v2", 0)
    state()
    ask("cuDevicePrimaryCtxRelease_v2", 0)
ask("cuDevicePrimaryCtxRelease_v2", 0)
ask("cuDevicePrimaryCtxRetain", byref(ctx), 0)
ask("cuDevicePrimaryCtxRelease_v2", 0)
state()
ask("cuCtxSynchronize")
"""


@pytest.fixture
def warm(tmp_path):
    """warm(OPTION..., ENV=...): a server with those options whose spares, if any, are ready."""
    servers = []

    def make(*options, spares=1, **env):
        servers.append(Server(tmp_path / f"server{len(servers)}", "--standby", "0", *options, **env))
        ready(servers[-1], spares)
        return servers[-1]
    yield make
    for s in servers:
        s.end()


def ready(server, count=1):
    wait_until(lambda: server.log().count("is ready") >= count, 10, f"{count} spares are ready")


def probe(server, flags=None, other=False):
    program = PROBE.replace("FLAGS", repr(flags)).replace("OTHER", repr(other))
    result = run([sys.executable, "-c", program], client_env(server.address("unix")))
    assert result.status == 0, result.err
    return result.out


# 4: yield; 0x10: keep local memory; 0x80: synchronous copies
@pytest.mark.parametrize("flags, other", [(None, False), (4, False), (0x10, False), (0x84, False),
                                          (None, True)])
def test_the_context_of_a_spare_looks_untouched(warm, flags, other):
    fresh, spare = warm("--warm", "0", spares=0), warm("--warm", "1", "--log", "debug")
    expected = probe(fresh, flags, other)
    assert probe(spare, flags, other) == expected
    assert "has a client" in spare.log() and "cuDevicePrimaryCtxRetain 0" in expected


def test_a_spare_is_like_a_fresh_worker(warm, app):
    """Arguments, environment, folder and limits, of two clients that come at once, before there is another spare."""
    server = warm("--warm", "1", "--log", "debug", "--cache-size", "1G")
    clients = [start([app("endless"), "sync"], client_env(server.address("unix"))) for _ in range(2)]
    try:
        assert [c.stdout.readline() for c in clients] == ["running\n"] * 2
        seen = dict(map(looks, server.workers()))
    finally:
        for c in clients:
            c.kill()
            c.communicate()
    assert len(seen) == 2 and len({repr(value) for value in seen.values()}) == 1
    assert "has a client" in server.log()


def looks(pid):
    """A worker, and what it is like."""
    path = pathlib.Path(f"/proc/{pid}")
    return pid, [name_of(pid), (path / "cmdline").read_bytes().rstrip(b"\0"), (path / "environ").read_bytes(), (path / "limits").read_text(),
                          os.readlink(path / "cwd"),
                          [os.readlink(path / "fd" / str(n)).split(":")[0] for n in range(5)]]


def test_spares_are_for_those_who_have_the_token(warm, app, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    server = warm("--warm", "2", "--log", "debug", "--token-file", tmp_path / "token", spares=2)
    wrong = run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TOKEN="guess"))
    right = run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TOKEN="secret"))
    assert wrong.status == 1 and "token" in wrong.err
    assert right.status == 0, right.err
    assert server.log().count("has a client") == 1


# Under a sanitizer a fault is a report in the log.
@pytest.mark.parametrize("signal_number", [signal.SIGKILL] if KIND else [signal.SIGKILL, signal.SIGSEGV])
def test_a_spare_that_dies_is_replaced(warm, app, signal_number):
    server = warm("--warm", "1", "--log", "debug")
    pid, = server.spares()
    os.kill(pid, signal_number)
    wait_until(lambda: not is_alive(pid), 2, "the spare is dead")
    result = run([app("vector_add")], client_env(server.address("unix")))
    assert result.status == 0, result.err
    ready(server, 2)


def test_spares_come_back_after_they_were_taken(warm, app):
    server = warm("--warm", "2", "--log", "debug", spares=2)
    clients = [start([app("vector_add")], client_env(server.address("unix"))) for _ in range(4)]
    assert [ended(client, 60).status for client in clients] == [0] * 4
    ready(server, 4)
    server.wait_idle()
    wait_until(lambda: len(server.spares()) == 2, 10, "both are there")


def test_a_client_gets_the_spare_that_has_got_furthest(warm, app):
    server = warm("--warm", "1", "--standby", "1", "--log", "debug")
    wait_until(lambda: server.log().count("on standby") == 2, 10, "one has a context, one has not")
    clients = []
    try:
        for _ in range(2):
            clients.append(start([app("endless"), "sync"], client_env(server.address("unix"))))
            assert clients[-1].stdout.readline() == "running\n"
        ready_ones = re.findall(r"spare worker (\d+) is ready", server.log())
        served = re.findall(r"spare worker (\d+) has a client", server.log())
    finally:
        for c in clients:
            c.kill()
            c.communicate()
    assert served[0] == ready_ones[0] and len(set(served)) == 2


def test_a_standby_worker_serves_alone(warm, app):
    server = warm("--warm", "0", "--standby", "1", "--log", "debug", spares=0)
    wait_until(lambda: "on standby" in server.log(), 10, "it has its driver")
    pid, = server.spares()
    result = run([app("vector_add")], client_env(server.address("unix")))
    assert result.status == 0, result.err
    assert f"spare worker {pid} has a client" in server.log() and "is ready" not in server.log()
    wait_until(lambda: server.log().count("on standby") == 2, 10, "there is another")


def test_a_spare_that_waits_costs_nothing(warm):
    server = warm("--warm", "1", "--standby", "1", "--log", "debug")
    wait_until(lambda: server.log().count("on standby") == 2, 10, "one has a context, one has not")
    pids = [server.process.pid, *server.spares()]

    def switches():
        return [line for pid in pids
                for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                if line.startswith("voluntary")]

    def quiet():
        before = switches()
        time.sleep(1.5)
        return before == switches()
    wait_until(quiet, 5, "they have gone to sleep, and do not wake up")


def test_sigterm_ends_spares_at_once(warm):
    server = warm("--warm", "3", "--log", "debug", spares=3)
    spares = server.spares()
    assert len(spares) == 3
    server.stop()
    assert not any(map(is_alive, spares))


# ---- a driver that does not work ---------------------------------------------------------------

@pytest.fixture
def broken(tmp_path):
    """broken(WHAT, OPTION...): a server whose driver fails in that way (see warm_driver.c)."""
    library, what, servers = tmp_path / "libbroken.so", tmp_path / "what", []
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, HERE / "warm_driver.c"], check=True)

    def make(how, *options):
        what.write_text(how)
        servers.append(Server(tmp_path / f"broken{len(servers)}", "--driver", library, "--log",
                              "debug", "--standby", "0", *options, WARM_DRIVER=str(what)))
        servers[-1].what = what
        return servers[-1]
    yield make
    for s in servers:
        s.end()


def told(server):
    """What a client hears, without the address."""
    result = run([sys.executable, "-c", "import ctypes; "
                  "print(ctypes.CDLL('libcuda.so.1').cuInit(0))"],
                 client_env(server.address("unix")))
    return result.out, result.err.replace(str(server.unix), "UNIX").split("] ")[-1]


@pytest.mark.parametrize("how", ["999", "802", "crash"])
def test_a_driver_that_fails_is_told_as_without_spares(broken, how):
    expected = told(broken(how, "--warm", "0"))
    server = broken(how, "--warm", "1")
    wait_until(lambda: "a spare worker has ended" in server.log(), 10, "the spare has failed")
    assert told(server) == expected
    assert expected[0] == ("100\n" if how == "crash" else f"{how}\n") and "UNIX" in expected[1]


def test_spares_that_fail_are_tried_ever_later_and_a_driver_that_recovers_is_used(broken):
    server = broken("999", "--warm", "1")
    wait_until(lambda: "the next in 2 s" in server.log(), 20, "the second try comes later")
    server.what.write_text("0")
    ready(server)
    assert server.log().count("a spare worker has ended") <= 3
    assert told(server)[0] == "100\n"   # no device


def test_a_spare_whose_driver_hangs_does_not_keep_the_server_from_stopping(broken):
    server = broken("hang", "--warm", "1")
    wait_until(server.spares, 5, "a spare has been started")
    spare, = server.spares()
    server.stop()
    assert not is_alive(spare)


@pytest.mark.parametrize("options", [("--warm", "-1"), ("--warm", "65"), ("--warm", "one"), ("--standby", "65"),
                                     ("--warm-devices", ""), ("--warm-devices", "gpu0")])
def test_wrong_options_are_refused(options):
    result = serve(*options)
    assert result.status == 2 and options[1] in result.err


@pytest.mark.parametrize("devices", ["none", "0,7", "1,0"])
def test_any_list_of_devices_makes_a_spare(warm, app, devices):
    server = warm("--warm", "1", "--warm-devices", devices, "--log", "debug")
    result = run([app("vector_add")], client_env(server.address("unix")))
    assert result.status == 0, result.err
    assert "has a client" in server.log()
    if devices == "0,7" and DRIVER == "emu":
        assert "no warm context of device 7" in server.log()
