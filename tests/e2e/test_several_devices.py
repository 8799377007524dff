"""tests/e2e/test_several_devices.py - calls on several emulated devices at once."""
import pytest

from conftest import DRIVER, Server, client_env, run, with_words


@pytest.fixture(scope="module", params=["1", "3"])
def server_of(request, tmp_path_factory):
    """A server with that many emulated devices."""
    if DRIVER != "emu":
        pytest.skip("the number of devices is the emulated driver's")
    s = Server(tmp_path_factory.mktemp("several"), CRICKET_EMU=f"devices={request.param}")
    s.count = request.param
    yield s
    s.stop()


@pytest.mark.parametrize("way", ["tcp", "shm", "direct"])
def test_a_cooperative_launch_on_all_devices(server_of, way, app, direct_env):
    env = with_words(direct_env, "CRICKET_EMU", f"devices={server_of.count}") if way == "direct" else \
        client_env(server_of.address(way))
    result = run([app("multi_launch"), "strict"], env)
    assert result.status == 0, result.err
    assert result.out.split() == ["parameters", "order", "refused", "captured"]
    assert result.err == ""
