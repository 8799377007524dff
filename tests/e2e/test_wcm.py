"""tests/e2e/test_wcm.py - chunked memory in whole programs: ranks that are sessions of one server, or on the driver."""
import json
import os
import re
import shutil
import signal

import pytest

from conftest import (DRIVER, KIND, PRODUCTS, ROOT, Server, children_of, clean_env, client_env, ended, listens,
                      run, runtime, start, wait_until, with_words)

EXAMPLES = ROOT / "wcm" / "examples" / "bin"
CHUNKED_TEST = EXAMPLES / "chunked_test"
GATHER_BENCH = EXAMPLES / "gather_bench"
SMALL = ("--table", "1M", "--gather", "64K", "--passes", "1", "--segments", "64,128,16384", "--json")


@pytest.fixture(name="server", scope="module")
def fixture_server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("wcm"), CRICKET_EMU="devices=4,memory=64M")
    wait_until(lambda: listens(f"{server.unix}.m3"), 10, "its socket for sharing is there")
    yield server
    server.stop()


def session_env(server, transport, **more):
    return client_env(server.address(transport), LD_LIBRARY_PATH=str(PRODUCTS), **more)


def bare_env():
    """With the library, and neither server nor driver."""
    return clean_env(LD_LIBRARY_PATH=str(PRODUCTS), LD_PRELOAD=runtime())


def bench():
    if not GATHER_BENCH.exists():
        pytest.skip("gather_bench is not built (no nvcc: make deps)")
    return GATHER_BENCH


def options_of(source):
    """What an example takes, by its table of options."""
    return re.findall(r'\{"([a-z]+)", (?:no|required)_argument', source.read_text(encoding="utf-8"))


@pytest.mark.parametrize("source", ["chunked_test.c", "gather_bench.cu"])
def test_an_example_says_what_options_it_has(source):
    program = CHUNKED_TEST if source == "chunked_test.c" else bench()
    result = run([program, "--help"], bare_env())
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith(f"Usage: {program.name} ")
    for option in options_of(EXAMPLES.parent / source):
        assert f"--{option}" in result.out


@pytest.mark.parametrize("transport", ["tcp", "shm"])
@pytest.mark.parametrize("options", [("--ranks", "4", "--backing", "ipc"), ("--ranks", "3", "--backing", "vmm"),
                                     ("--ranks", "4", "--threads"), ("--ranks", "1")], ids="-".join)
def test_each_rank_is_a_session(server, transport, options):
    result = run([CHUNKED_TEST, *options], session_env(server, transport))
    assert result.status == 0, result.err
    assert re.fullmatch(rf"chunked_test: {options[1]} ranks, (ipc|vmm): 0 wrong\n", result.out)
    assert result.err == ""
    server.wait_idle()


@pytest.mark.skipif(DRIVER != "emu", reason="with devices that are emulated")
@pytest.mark.parametrize("options", [("--ranks", "x"), ("--ranks", "0"), ("--ranks", "17"), ("--rounds", "x"), ("more",)], ids="-".join)
def test_wrong_numbers_are_no_test_that_found_nothing(options):
    result = run([CHUNKED_TEST, *options], clean_env())
    assert (result.status, result.out) == (2, "") and result.err, result


@pytest.mark.parametrize("options", [("--ranks", "16"), ("--ranks", "5", "--backing", "vmm"),
                                     ("--ranks", "5", "--threads")], ids="-".join)
def test_without_cricket(direct_env, options):
    env = with_words(direct_env, "CRICKET_EMU", "devices=4")
    env["LD_LIBRARY_PATH"] += f":{PRODUCTS}"
    result = run([CHUNKED_TEST, *options], env)
    assert result.status == 0, result.err
    assert "0 wrong" in result.out and result.err == ""


def test_a_killed_rank_ends_neither_the_others_nor_the_server(server):
    program = start([CHUNKED_TEST, "--ranks", "3", "--rounds", "1000000", "--tell"], session_env(server, "shm"))
    try:
        assert program.stdout.readline() == "begun\n"
        ranks = children_of(program.pid)
        os.kill(max(ranks), signal.SIGKILL)
        result = ended(program, 60)
    finally:
        program.kill()
    assert result.status == 1
    assert result.lines_about("a rank has ended"), result.err
    server.wait_idle()
    result = run([CHUNKED_TEST, "--ranks", "4"], session_env(server, "shm"))
    assert result.status == 0, result.err


def test_without_a_broker_sessions_cannot_share(tmp_path):
    server = Server(tmp_path, CRICKET_EMU="devices=2")
    try:
        wait_until(lambda: listens(f"{server.unix}.m3"), 10, "its socket for sharing is there")
        os.unlink(f"{server.unix}.m3")
        result = run([CHUNKED_TEST, "--ranks", "2"], session_env(server, "shm"))
        assert result.status == 1
        assert result.lines_about("wcm_init: "), result.err
    finally:
        server.kill()


def test_without_a_driver_it_says_so():
    result = run([CHUNKED_TEST, "--ranks", "1"], bare_env())
    if result.status == 0:
        pytest.skip("this machine has a driver")
    assert result.lines_about("wcm_init: no CUDA driver or device") or KIND, result.err


@pytest.mark.parametrize("options", [("--ranks", "2"), ("--ranks", "2", "--threads", "--op", "write"),
                                     ("--ranks", "2", "--op", "add", "--width", "4"),
                                     ("--ranks", "3", "--backing", "vmm", "--at", "element", "--width", "8")],
                         ids="-".join)
def test_kernels_with_ptrgen(server, options):
    result = run([bench(), *SMALL, *options], session_env(server, "shm"))
    assert result.status == 0, result.err
    points = [json.loads(line) for line in result.out.splitlines() if line.startswith("{")]
    assert [p["segment"] for p in points] == [64, 128, 16384]
    assert all(p["wrong"] == 0 and p["most"] > 0 for p in points)


@pytest.mark.parametrize("options", [("--ranks", "17"), ("--segments", "48"), ("--width", "3"), ("--op", "add"),
                                     ("--backing", "other"), ("--no-such-option",), ("more",)], ids="-".join)
def test_options_that_make_no_sense(options):
    assert run([bench(), *options], bare_env()).status == 2


@pytest.mark.skipif(bool(KIND), reason="MPI's processes are not ours to sanitize")
def test_ranks_of_mpirun(server):
    if not shutil.which("mpirun"):
        pytest.skip("no mpirun (make deps)")
    env = session_env(server, "tcp", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    result = run(["mpirun", "--oversubscribe", "-np", "3", CHUNKED_TEST], env)
    assert result.status == 0, result.err
    assert result.out == "chunked_test: 3 ranks, ipc: 0 wrong\n"


@pytest.mark.skipif(DRIVER != "emu" or bool(KIND), reason="on a GPU the bench itself is run")
def test_the_bench_runs(tmp_path):
    bench()
    env = clean_env(OUT=str(tmp_path), DRIVER="emu", SEGMENTS="64,16384", TABLES="256K", GATHER="32K")
    result = run([ROOT / "bench" / "wcm.sh"], env)
    assert result.status == 0, result.out + result.err
    rows = [line for line in result.out.splitlines() if line.startswith("| session")]
    assert len(rows) == 9 and not [r for r in rows if "-" in r.split("|")[4:] or "WRONG" in r], result.out
