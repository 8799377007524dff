"""tests/e2e/test_environment.py - the variables of CUDA, which the client has to heed."""
import pytest

from conftest import DRIVER, EXPECTED, Server, client_env, run

NONE = ["cudaErrorNoDevice"]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A server with three emulated devices."""
    if DRIVER != "emu":
        pytest.skip("the number of devices is the emulated driver's")
    s = Server(tmp_path_factory.mktemp("three"), CRICKET_EMU_DEVICES="3")
    yield s
    s.stop()


@pytest.fixture(params=["server", "direct"])
def devices(request, app):
    """devices("uuids", VARIABLE=...): what the program sees."""
    if request.param == "server":
        base = client_env(request.getfixturevalue("three").address("unix"))
    else:
        base = dict(request.getfixturevalue("direct_env"), CRICKET_EMU_DEVICES="3")

    def go(what="devices", **env):
        result = run([app("environment"), what], dict(base, **env))
        assert result.status == 0, result.err
        return result.out.split()
    return go


def test_all_devices_are_seen_in_both_orders(devices):
    all_three = devices()
    assert len(set(all_three)) == 3
    assert devices(CUDA_DEVICE_ORDER="PCI_BUS_ID") == sorted(all_three)
    assert devices(CUDA_DEVICE_ORDER="FASTEST_FIRST") == all_three


def test_indices_and_uuids_choose_devices(devices):
    buses, uuids = devices(), devices("uuids")
    assert devices(CUDA_VISIBLE_DEVICES="2,0") == [buses[2], buses[0]]
    assert devices(CUDA_VISIBLE_DEVICES=f"{uuids[1]},0") == [buses[1], buses[0]]
    assert devices(CUDA_VISIBLE_DEVICES="1,7,0") == [buses[1]]


@pytest.mark.parametrize("chosen", ["", "-1", "GPU-ffffffff", "MIG-GPU-aabbccdd/1/0",
                                    "MIG-3eb87630-93d5-b2b6-b8ff-9b359caf4ee2"])
def test_a_list_without_a_device_is_no_device(devices, chosen):
    assert devices(CUDA_VISIBLE_DEVICES=chosen) == NONE


def test_a_mig_id_of_a_whole_gpu_names_it(devices):
    mig = devices("uuids")[0].replace("GPU-", "MIG-")
    assert devices(CUDA_VISIBLE_DEVICES=mig) == devices()[:1]


def test_a_device_named_twice_is_an_error(devices):
    assert devices(CUDA_VISIBLE_DEVICES="0,0") == ["cudaErrorInvalidDevice"]


@pytest.mark.parametrize("value, told", [("1", "cudaErrorIllegalAddress"), ("0", "cudaSuccess")])
def test_a_blocking_launch_tells_its_error_itself(server, app, value, told):
    env = client_env(server.address("unix"), CUDA_LAUNCH_BLOCKING=value)
    result = run([app("environment"), "fault"], env)
    assert result.out == f"at the launch: {told}; after: cudaErrorIllegalAddress\n", result.err


def test_a_blocking_launch_into_a_capture_does_not_wait(server, app):
    result = run([app("graph_modes")], client_env(server.address("unix"), CUDA_LAUNCH_BLOCKING="1"))
    assert result.status == 0, result.err
    assert result.out == (EXPECTED / "graph_modes.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("value, mode", [("EAGER", "eager"), ("LAZY", "lazy"), (None, "lazy")])
def test_the_mode_of_loading_is_what_was_asked_for(server, app, value, mode):
    env = client_env(server.address("unix"), **({"CUDA_MODULE_LOADING": value} if value else {}))
    assert run([app("environment"), "loading"], env).out == mode + "\n"
