"""tests/e2e/test_memory.py - memory on two devices, and memory that other processes cannot have."""
import pytest

from conftest import DRIVER, EXPECTED, TRANSPORTS, Server, client_env, run


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A server with two emulated devices."""
    if DRIVER != "emu":
        pytest.skip("the number of devices is the emulated driver's")
    s = Server(tmp_path_factory.mktemp("pair"), CRICKET_EMU="devices=2,memory=256M")
    yield s
    s.stop()


@pytest.mark.parametrize("order", ("0,1", "1,0"))
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", ("peer_copy", "mem_pools", "host_pools", "vmm"))
def test_two_devices_in_any_order_do_as_one(pair, app, name, transport, order):
    result = run([app(name)], client_env(pair.address(transport), CUDA_VISIBLE_DEVICES=order))
    assert result.out == (EXPECTED / f"{name}.txt").read_text(), result.err
    assert result.status == 0


@pytest.mark.parametrize("order", ("0,1", "1,0"))
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_cpu_and_kernels_use_memory_of_the_host_in_turn(pair, app, transport, order):
    """Memory of cuMemCreate whose location is the host: it grows, and moves to other addresses with what the CPU wrote last."""
    result = run([app("host_vmm")], client_env(pair.address(transport), CUDA_VISIBLE_DEVICES=order))
    assert (result.status, result.out) == (0, "3 blocks of the host were used by both sides, at two places\n"), result.err


@pytest.mark.parametrize("settings", ({}, {"CRICKET_DEBUG": "no-arena"}), ids=("leases", "no leases"))
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_copies_find_memory_of_a_device_that_is_not_current(pair, app, transport, settings):
    result = run([app("foreign_memory")], client_env(pair.address(transport), **settings))
    more = "".join(f"{what}: right\n" for what in ("kernel", "fill", "after peer access"))
    assert result.out == (EXPECTED / "foreign_memory.txt").read_text() + more, result.err


def test_copies_find_it_where_devices_do_not_reach_each_other(tmp_path, app):
    if DRIVER != "emu":
        pytest.skip("the number of devices is the emulated driver's")
    server = Server(tmp_path, CRICKET_EMU="devices=2,no-peers")
    try:
        result = run([app("foreign_memory")], client_env(server.address("unix")))
    finally:
        server.stop()
    assert result.out == (EXPECTED / "foreign_memory.txt").read_text(), result.err


def test_a_copy_between_two_devices_names_two_contexts(pair, app):
    result = run([app("peer_copy")], client_env(pair.address("unix"), CRICKET_TRACE="1"))
    assert result.status == 0, result.err
    lines = [line for line in result.err.splitlines() if "cuMemcpyPeer(" in line]
    assert lines and "dstContext #17" in lines[0] and "srcContext #16" in lines[0]


def test_a_range_of_a_tebibyte_leaves_nothing_behind(pair, app):
    for _ in range(3):
        assert run([app("vmm")], client_env(pair.address("unix"))).status == 0
    pair.wait_idle()
