"""tests/e2e/test_pool.py - several servers as one list of GPUs (docs/pool.md)."""
import pathlib
import subprocess
import sys

import pytest

from conftest import DRIVER, EXPECTED, PRODUCTS, ROOT, SAN, TRANSPORTS, Server, clean_env, client_env, ended, run
from ports import free_port

COMMAND = PRODUCTS / "cricket"
PEERS = "127.0.0.0/8:*"
PROGRAM = pathlib.Path(__file__).parent / "pool_program.py"


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Three servers with 1, 2 and 3 devices of 1, 2 and 3 GiB."""
    if DRIVER != "emu":
        pytest.skip("the number of devices is the emulated driver's")
    made = [Server(tmp_path_factory.mktemp("pool") / str(n), "--pool-peers", PEERS, CRICKET_EMU=f"devices={n},memory={n}G")
            for n in (1, 2, 3)]
    yield made
    for s in made:
        s.stop()


def pool(servers, transport="tcp", devices=()):
    """What REMOTE_GPU_ADDRESS has to say."""
    parts = []
    for s, chosen in zip(servers, list(devices) + [""] * len(servers)):
        slash = ("/" if transport == "tcp" else "//") if chosen else ""
        parts.append(s.address(transport) + slash + chosen)
    return ",".join(parts)


def program(case, address, *arguments, timeout=60, **env):
    return run([sys.executable, PROGRAM, case, *arguments], client_env(address, **env), timeout)


def right(case, address, *arguments, timeout=60, **env):
    result = program(case, address, *arguments, timeout=timeout, **env)
    assert result.out.endswith(f"{case}: right\n"), result.out + result.err
    assert result.status == 0 and result.err == "", result.err
    return result.out.splitlines()[:-1]


def sizes(lines):
    return [int(line.split()[1]) >> 10 for line in lines]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_devices_keep_the_order_of_the_list(servers, transport):
    assert sizes(right("show", pool(servers, transport))) == [1, 2, 2, 3, 3, 3]
    assert sizes(right("show", pool(servers[::-1], transport))) == [3, 3, 3, 2, 2, 1]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_each_device_has_names_of_its_own(servers, transport):
    lines = [line.split() for line in right("show", pool(servers, transport))]
    assert len({line[2] for line in lines}) == len({line[3] for line in lines}) == 6


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_list_chooses_devices_of_a_server(servers, transport):
    assert sizes(right("show", pool(servers, transport, ["", "1", "2,0"]))) == [1, 2, 3, 3]
    alone = right("show", pool(servers[2:], transport))
    assert [line.split()[2] for line in right("show", pool(servers[2:], transport, ["2,0"]))] == \
        [alone[2].split()[2], alone[0].split()[2]]


def test_visible_devices_choose_over_all(servers):
    everything = right("show", pool(servers))
    chosen = right("show", pool(servers), CUDA_VISIBLE_DEVICES="5,0,1")
    assert [line.split()[1:] for line in chosen] == [everything[i].split()[1:] for i in (5, 0, 1)]
    uuid = everything[3].split()[2]
    name = "GPU-" + "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    by_name = right("show", pool(servers), CUDA_VISIBLE_DEVICES=name)
    assert [line.split()[1:] for line in by_name] == [everything[3].split()[1:]]


@pytest.mark.parametrize("list_, words", [
    ("{0},", "an entry has no address"),
    ("{0}/1x", "a device is a number"),
    ("{0}/0,0", "a device is named twice"),
    ("{0}/7,{1}", "has no device 7; it has 1"),
])
def test_a_wrong_list_is_one_line(servers, list_, words):
    result = program("show", list_.format(*(s.address("tcp") for s in servers)))
    assert result.status != 0
    assert len(result.lines_about("REMOTE_GPU_ADDRESS")) == 1 and words in result.err, result.err


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", ["arrays", "kernels", "boxes", "threads", "functions", "pinned", "managed"])
def test_work_on_all_devices(servers, transport, case):
    right(case, pool(servers, transport))


@pytest.mark.skipif(SAN, reason="AddressSanitizer does not release the locks of its heap in a child (LLVM 14)")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_child_has_sessions_of_its_own_or_none(servers, transport):
    right("forks", pool(servers, transport))


def test_addresses_differ_where_the_servers_choose_them(servers):
    right("arrays", pool(servers), CRICKET_DEBUG="no-arena")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_copies_between_servers_are_exact(servers, transport):
    right("copies", pool(servers[:2], transport), timeout=200)
    right("counts", pool(servers[:2], transport))


def test_no_peer_access_between_servers(servers):
    right("peers", pool(servers[:2]), "1-2")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", ["events", "ping_pong"])
def test_events_hold_across_servers(servers, transport, case):
    right(case, pool(servers[:2], transport))


def test_a_missing_server_fails_the_start_with_one_line(servers):
    nowhere = f"127.0.0.1:{free_port()}"
    result = program("show", f"{pool(servers[:1])},{nowhere},{pool(servers[1:])}", CRICKET_TIMEOUT="5")
    assert result.status != 0 and "cuInit returned 100" in result.err
    assert len(result.lines_about("cricket: ")) == len(result.lines_about(nowhere)) == 1, result.err
    for s in servers:
        s.wait_idle()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_any_goes_on_without_a_missing_server(servers, place):
    nowhere = f"127.0.0.1:{free_port()}"
    addresses = [s.address("tcp") for s in servers[:2]]
    addresses.insert(place, nowhere)
    result = program("show", ",".join(addresses), CRICKET_POOL="any", CRICKET_TIMEOUT="5")
    assert result.status == 0 and sizes(result.out.splitlines()[:-1]) == [1, 2, 2], result.out + result.err
    assert len(result.err.splitlines()) == len(result.lines_about(nowhere)) == 1, result.err
    assert "the pool goes on without it" in result.err


def test_any_without_a_single_server_fails(servers):
    nowhere = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    result = program("show", ",".join(nowhere), CRICKET_POOL="any", CRICKET_TIMEOUT="5")
    assert result.status != 0 and "cuInit returned 100" in result.err
    assert all(len(result.lines_about(n)) == 1 for n in nowhere), result.err


@pytest.mark.parametrize("case", ["lost", "waits_for_lost"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_server_that_is_killed_takes_its_devices_only(servers, tmp_path, transport, case):
    victim = Server(tmp_path / "victim", CRICKET_EMU="devices=1")
    process = subprocess.Popen([sys.executable, str(PROGRAM), case], text=True, start_new_session=True,
                               env=client_env(pool([servers[1], victim], transport), CRICKET_RESUME="0"),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    victim.kill()
    process.stdin.write("go\n")
    process.stdin.flush()
    result = ended(process, 60)
    assert result.status == 0 and result.out == f"{case}: right\n", result.out + result.err
    if case == "lost":
        assert len(result.lines_about("is lost")) == 1 and "for its devices" in result.err
    else:   # a thread that connects only now may find it out before the session does
        assert len(result.lines_about("the stream's context fails too")) == 1
    assert all(victim.address(transport).removeprefix("shm:") in line for line in result.lines_about("cricket: "))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", ["vector_add", "streams_events", "training", "mem_pools"])
def test_programs_run_unchanged(servers, transport, name, app):
    result = run([app(name)], client_env(pool(servers[:2], transport)))
    assert result.status == 0 and result.err == "", result.err
    assert result.out == (EXPECTED / f"{name}.txt").read_text()


def test_a_graph_stays_on_its_server(servers, app):
    """The last part of this program launches a graph in a stream of another device."""
    result = run([app("peer_copy")], client_env(pool(servers[:2])))
    lines = (EXPECTED / "peer_copy.txt").read_text().splitlines()
    assert result.out.splitlines() == lines[:result.out.count("\n")] and result.out.count("wrong") == 4
    assert "cuGraphLaunch: its objects are on different servers" in result.err


@pytest.mark.parametrize("transport", ["tcp", "shm"])
@pytest.mark.parametrize("devices", [(), ("", "1", "2,0")])
def test_nvml_shows_the_devices_of_cuda_under_the_same_names(servers, transport, devices):
    address = pool(servers, transport, devices)
    shown = [line.split() for line in right("nvml", address)]
    cuda = [line.split() for line in right("show", address)]
    assert sizes(" ".join(line) for line in shown) == sizes(" ".join(line) for line in cuda)
    for a, b in zip(shown, cuda, strict=True):
        assert a[2].removeprefix("GPU-").replace("-", "") == b[2]
        assert a[3].lower().endswith(b[3].lower())


def test_the_command_knows_lists(servers):
    address = pool(servers[:2], devices=["", "1"])
    shown = run([COMMAND, "env", "-s", address], clean_env())
    assert f"REMOTE_GPU_ADDRESS='{address}'" in shown.out
    checked = run([COMMAND, "check", "-s", address], clean_env())
    assert checked.status == 0, checked.out
    lines = [line.split(None, 2) for line in checked.out.splitlines() if len(line.split()) > 2]
    assert [line[2].split(" in ")[0] for line in lines if line[1] == "connection"] == \
        [s.address("tcp") for s in servers[:2]]
    assert len([line for line in lines if line[1] == "gpu"]) == 2
    ran = run([COMMAND, "run", "-s", address, "--", sys.executable, PROGRAM, "show"], clean_env())
    assert sizes(ran.out.splitlines()[:-1]) == [1, 2], ran.err


def test_the_check_names_the_server_that_is_missing(servers):
    nowhere = f"127.0.0.1:{free_port()}"
    checked = run([COMMAND, "check", "-s", f"{pool(servers[:1])},{nowhere}/0"], clean_env())
    assert checked.status != 0
    assert [line for line in checked.out.splitlines() if line.startswith("FAILED")] and \
        f"{nowhere}: " in checked.out
    wrong = run([COMMAND, "check", "-s", f"{pool(servers[:1])}/0,0"], clean_env())
    assert wrong.status != 0 and "a device is named twice" in wrong.out


@pytest.mark.parametrize("kind", [["--threads"], []])
def test_chunked_memory_needs_gpus_of_one_server(servers, kind):
    program_path = ROOT / "wcm" / "examples" / "bin" / "gather_bench"
    if not program_path.exists():
        pytest.skip("gather_bench is not built (no nvcc)")
    command = [program_path, "--ranks", "2", *kind, "--table", "1M", "--gather", "64K", "--passes", "1", "--segments", "64"]
    library = {"LD_LIBRARY_PATH": str(PRODUCTS)}
    inside = run(command, client_env(pool(servers, devices=["0", "0,1"]), CUDA_VISIBLE_DEVICES="1,2", **library))
    assert inside.status == 0, inside.err
    between = run(command, client_env(pool(servers[:2], devices=["0", "0"]), **library))
    assert between.status != 0 and "wcm_init: a device cannot reach another's memory" in between.err, between.err
