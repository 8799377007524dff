"""tests/e2e/test_nccl.py - NCCL in the workers (docs/pool.md), with a test double of it (../nccl) on the emulated GPU."""
import os
import re
import signal
import sys

import pytest

from conftest import (CLIENT, DRIVER, OUT, PRODUCTS, TRANSPORTS, Server, clean_env, client_env, ended, preload, run, start)
from cutter import Cutter
from test_control import Asker, ctl

DOUBLE = OUT / "nccl" / "libnccl-double.so"
RANKS = OUT / "nccl" / "ranks"
STAND_IN = CLIENT.parent / "libnccl.so.2"
COMMAND = PRODUCTS / "cricket"

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="the double runs on the emulated GPU")


def library_of(folder, **env):
    """A server with two devices and the double."""
    return Server(folder, CRICKET_EMU="devices=2", CRICKET_NCCL_LIBRARY=str(DOUBLE), **env)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    made = [library_of(tmp_path_factory.mktemp("nccl") / str(n), NCCL_DOUBLE_FAIL="77") for n in range(2)]
    yield made
    for s in made:
        s.stop()


def rank_env(address, **more):
    """The environment of a program that is linked with libnccl.so.2."""
    return client_env(address, LD_PRELOAD=f"{preload()}:{STAND_IN}", **more)


def begin(case, addresses, folder, **env):
    """A rank for each address."""
    return [start([RANKS, case, rank, len(addresses), folder / "id"], rank_env(address, **env))
            for rank, address in enumerate(addresses)]


def right(case, addresses, folder, timeout=60, **env):
    """All ranks end well, and say nothing else."""
    results = [ended(process, timeout) for process in begin(case, addresses, folder, **env)]
    for r in results:
        assert (r.status, r.out, r.err) == (0, f"{case}: right\n", ""), (r.status, r.out, r.err)
    return results


def four(servers, transport="tcp"):
    """Ranks 0 and 2 on the first server, 1 and 3 on the second."""
    return [servers[i % 2].address(transport) for i in range(4)]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", ["ddp", "pairs", "nonblocking"])
def test_four_ranks_on_two_servers(servers, tmp_path, case, transport):
    right(case, four(servers, transport), tmp_path)


@pytest.mark.threads
@pytest.mark.parametrize("case", ["collectives", "split", "operators", "memory", "capture", "errors"])
def test_what_a_communicator_can_do(servers, tmp_path, case):
    right(case, four(servers), tmp_path)


@pytest.mark.parametrize("case", ["group", "threads"])
def test_all_devices_of_a_pool_in_one_process(servers, tmp_path, case):
    right(case, [",".join(s.address("tcp") for s in servers)], tmp_path)


def test_a_rank_that_fails_ends_the_wait_of_others_in_its_group(servers, tmp_path):
    right("half", [",".join(s.address("tcp") for s in servers)], tmp_path, timeout=30)


@pytest.mark.threads
def test_a_process_may_end_without_ending_its_communicators(servers, tmp_path):
    right("leave", four(servers)[:2], tmp_path)
    servers[0].wait_idle()


@pytest.mark.parametrize("case", ["ddp", "collectives", "errors"])
def test_one_rank_alone(servers, tmp_path, case):
    right(case, [servers[0].address("shm")], tmp_path)


def sent(text, message):
    """How often CRICKET_STATS counts MESSAGE."""
    return int(re.search(rf"cricket: +(\d+) .* {message}$", text, re.M)[1])


def test_an_operation_takes_no_round_trip(servers, tmp_path):
    results = [ended(p, 60) for p in begin("ddp", four(servers)[:2], tmp_path, CRICKET_STATS="1")]
    for r in results:
        # 50 all-reduces; to make and to end the communicator, the first broadcast and the first all-reduce wait
        assert r.status == 0 and (sent(r.err, "ck_nccl_run"), sent(r.err, "ck_nccl_start")) == (49, 4), r.err


@pytest.mark.threads
def test_ranks_that_do_not_come_hold_up_nothing_else(servers, tmp_path):
    right("absent", [servers[0].address("tcp")], tmp_path, CRICKET_NCCL_TIMEOUT="2s")
    servers[0].wait_idle()


@pytest.mark.threads
def test_the_making_of_a_communicator_is_aborted(servers, tmp_path):
    right("abort_init", [servers[0].address("tcp")], tmp_path)


@pytest.mark.threads
def test_an_abort_ends_an_operation_that_waits(servers, tmp_path):
    right("abort_wait", four(servers)[:2], tmp_path)


def test_a_failed_operation_is_an_asynchronous_error(servers, tmp_path):
    right("failing", [servers[0].address("tcp")], tmp_path)


def test_a_context_ends_with_its_communicators(servers, tmp_path):
    right("context", [servers[0].address("tcp")], tmp_path)


def test_a_rank_that_is_killed_is_an_error_of_the_others(servers, tmp_path):
    results = [ended(p, 60) for p in begin("lost", four(servers), tmp_path)]
    assert [r.status for r in results] == [0, 0, 0, 128 + signal.SIGKILL], [r.err for r in results]


@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_waits_for_ranks_leaves_nothing(servers, tmp_path, signal_):
    process, = begin("wait_long", [servers[0].address("tcp")], tmp_path)
    assert process.stdout.readline() == "waits\n"
    os.killpg(process.pid, signal_)
    ended(process, 10)
    servers[0].wait_idle()


def test_a_server_that_is_lost_ends_the_wait(tmp_path):
    server = library_of(tmp_path / "s")
    process, = begin("wait_long", [server.address("tcp")], tmp_path, CRICKET_RESUME="0")
    assert process.stdout.readline() == "waits\n"
    server.kill()
    result = ended(process, 20)
    assert result.status == 0 and len(result.lines_about("is lost")) == 1, result.err


@pytest.mark.parametrize("how", ["rst", "fin"])
def test_a_cut_connection_changes_no_result(servers, tmp_path, how):
    """Of the first rank, in the middle of its steps."""
    cutter = Cutter(servers[0].port, how, 500000)
    try:
        right("ddp", [cutter.address, servers[1].address("tcp")], tmp_path)
        assert cutter.cut.is_set()
    finally:
        cutter.stop()


def test_a_session_with_communicators_is_not_suspended(servers, tmp_path):
    servers[0].wait_idle()
    process, = begin("wait_long", [servers[0].address("tcp")], tmp_path)
    assert process.stdout.readline() == "waits\n"
    session, = Asker(servers[0]).ask("sessions")["sessions"]
    result = ctl(servers[0], "suspend", session["session"])
    assert result.returncode == 1 and "it has NCCL communicators" in result.stderr, result
    os.killpg(process.pid, signal.SIGKILL)
    ended(process, 10)
    servers[0].wait_idle()


# --- servers without it

def test_a_server_without_nccl_says_so_once(tmp_path):
    for options, env, words in (((), {}, "the emulated GPU has none"), (("--nccl", "off"), {}, "--nccl off"),
                                ((), {"CRICKET_NCCL_LIBRARY": "/nowhere/libnccl.so.2"}, "/nowhere/libnccl.so.2")):
        server = Server(tmp_path / str(len(words)), *options, **env)
        process, = begin("ddp", [server.address("tcp")], tmp_path)
        result = ended(process, 30)
        assert result.status == 1 and len(result.lines_about("cricket")) == 1 and words in result.err, result.err
        server.stop()


def test_a_wrong_option_is_refused(tmp_path):
    result = run([PRODUCTS / "cricket-rpc-server", "--nccl", "libnccl.so.2"], clean_env())
    assert result.status != 0 and "--nccl libnccl.so.2: neither an absolute path nor off" in result.err


def test_the_stand_in_without_the_client_says_so(tmp_path):
    """As a program that is linked with it, on another driver."""
    env = clean_env(LD_LIBRARY_PATH=f"{PRODUCTS / 'emu'}", LD_PRELOAD=preload().replace(str(CLIENT), str(STAND_IN)))
    result = run([RANKS, "ddp", "0", "1", tmp_path / "id"], env)
    assert result.status == 1 and len(result.lines_about("not cricket-client.so")) == 2, result.err


# --- where NCCL runs

PRINT = "import ctypes; c = ctypes.CDLL(None); print(hasattr(c, 'ncclAllReduce'), hasattr(c, 'pncclSend'))"


@pytest.mark.parametrize("word, several, loaded", [("auto", True, True), ("auto", False, False), ("workers", False, True),
                                                   ("program", True, False), ("", True, True)])
def test_the_variable_says_where_nccl_runs(servers, word, several, loaded):
    address = ",".join(s.address("tcp") for s in (servers if several else servers[:1]))
    env = client_env(address, **({"CRICKET_NCCL": word} if word else {}))
    assert run([sys.executable, "-c", PRINT], env).out == f"{loaded} {loaded}\n"


def test_a_wrong_word_is_one_line(servers):
    result = run([sys.executable, "-c", PRINT], client_env(servers[0].address("tcp"), CRICKET_NCCL="here"))
    assert result.out == "False False\n" and len(result.lines_about("CRICKET_NCCL")) == 1
    result = run([COMMAND, "run", "--nccl", "here", "true"], clean_env())
    assert result.status == 2 and "not auto, workers or program: here" in result.err


def test_the_command_runs_a_program_that_is_linked_with_nccl(servers, tmp_path):
    pool = ",".join(s.address("tcp") for s in servers)
    env = clean_env(LD_PRELOAD="") if not preload().startswith(str(CLIENT)) else clean_env()
    result = run([COMMAND, "run", "-s", pool, RANKS, "group", "0", "1", tmp_path / "id"], env)
    assert (result.status, result.out) == (0, "group: right\n"), result.err
    result = run([COMMAND, "run", "-s", servers[0].address("tcp"), "--nccl", "workers", RANKS, "ddp", "0", "1", tmp_path / "x"],
                 env)
    assert (result.status, result.out) == (0, "ddp: right\n"), result.err
