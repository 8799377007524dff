"""tests/e2e/test_device_plugin.py - Kubernetes' device plugin (../../kubernetes), to a kubelet that the test plays.

tests/systems/kubernetes.sh runs it on a cluster.
"""
import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from conftest import APPS, DRIVER, KIND, PRODUCTS, ROOT, Server, clean_env, client_env, ended, run, start, wait_until

grpc = pytest.importorskip("grpc", reason="python3-grpcio is missing (tools/deps.sh --kubernetes)")
from kubelet import Kubelet     # noqa: E402

pytestmark = pytest.mark.skipif(DRIVER != "emu" or bool(KIND), reason="needs the command beside the emulated GPU")
PLUGIN = ROOT / "kubernetes" / "cricket-device-plugin"


class Node:
    """A kubelet and a plugin. The folder is short, for it has sockets."""

    def __init__(self, address, *options, **env):
        self.folder = Path(tempfile.mkdtemp(prefix="cricket-kubelet-"))
        self.kubelet = Kubelet(self.folder)
        self.log_file = self.folder / "log"
        with open(self.log_file, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, PLUGIN, "--server", address, "--kubelet", self.folder, "--interval", "0.1", "--command", PRODUCTS / "cricket",
                 *options], stderr=log, env=clean_env(XDG_CONFIG_HOME=str(self.folder), **env))

    def log(self):
        return self.log_file.read_text(encoding="utf-8")

    def has(self, healthy, total=None):
        """Waits until so many devices are healthy, of so many."""
        def agrees():
            return len(self.kubelet.healthy()) == healthy and total in (None, len(self.kubelet.devices))
        try:
            wait_until(agrees, 20, f"{healthy} of {total} devices")
        except BaseException:
            print(self.kubelet.devices, self.log())
            raise

    def end(self):
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0, self.log()
        assert "Traceback" not in self.log(), self.log()
        self.kubelet.stop()
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def node(address, *options, **env):
    made = Node(address, *options, **env)
    try:
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def serving(folder, *options, **env):
    made = Server(folder, *options, **env)
    try:
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def program(server):
    """A session that lasts."""
    process = start([APPS / "endless", "sync"], client_env(server.address("unix")))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        ended(process, 20)


def test_the_places_are_those_of_the_server(tmp_path):
    with serving(tmp_path, "--max-sessions", "3") as server, node(server.address("tcp")) as here:
        here.has(3, 3)
        asked = here.kubelet.registered[0]
        assert (asked.version, asked.resource_name) == ("v1beta1", "cricket/gpu")


def test_a_node_offers_no_more_than_its_own_places(tmp_path):
    with serving(tmp_path, "--max-sessions", "3") as server, node(server.address("tcp"), "--places", "2") as here:
        here.has(2, 2)
        with program(server):
            server.has_workers(1)
            here.has(2, 2)
            with program(server):
                here.has(1, 2)


def test_a_full_server_leaves_the_places_that_are_in_use(tmp_path):
    with serving(tmp_path, "--max-sessions", "2") as server, node(server.address("tcp")) as here:
        here.has(2, 2)
        here.kubelet.in_use = ["place-1"]
        with program(server), program(server):
            here.has(1, 2)
            assert here.kubelet.healthy() == ["place-1"]
        here.has(2, 2)


def test_a_server_that_is_gone_has_no_place_until_it_is_back(tmp_path):
    with serving(tmp_path / "one", "--max-sessions", "2") as server, node(server.address("unix")) as here:
        here.has(2, 2)
        server.kill()
        here.has(0, 2)
        assert "is cricket-rpc-server running" in here.log()
        server.__init__(tmp_path / "one", "--max-sessions", "2")
        here.has(2, 2)


def test_a_server_that_drains_has_no_place(tmp_path):
    with serving(tmp_path, "--max-sessions", "2") as server, node(server.address("unix")) as here:
        here.has(2, 2)
        with program(server):
            server.has_workers(1)
            run([PRODUCTS / "cricket", "drain", "-s", server.address("unix"), "10m"], clean_env())
            here.has(0, 2)


def test_a_plugin_that_starts_first_waits_for_the_server(tmp_path):
    (tmp_path / "s").mkdir()
    with node(f"unix:{tmp_path}/s/s") as here:
        wait_until(lambda: here.kubelet.registered, 20, "the registration")
        here.has(0, 0)
        with serving(tmp_path / "s", "--max-sessions", "1"):
            here.has(1, 1)


def test_a_kubelet_that_starts_again_has_the_places_again(tmp_path):
    with serving(tmp_path, "--max-sessions", "2") as server, node(server.address("tcp")) as here:
        for times in (1, 2, 3):
            here.has(2, 2)
            assert len(here.kubelet.registered) == times
            here.kubelet.stop()
            here.kubelet.devices = {}
            here.kubelet.start()


def test_a_container_gets_the_client_and_the_server(tmp_path):
    """A program with its variables, whose places in the container are replaced by those of the host, runs."""
    with serving(tmp_path) as server, node(server.address("unix"), "--wait", "10m") as here:
        wait_until(here.kubelet.healthy, 20, "a place")
        variables, mounts = here.kubelet.allocate("place-0")
        assert variables["REMOTE_GPU_ADDRESS"] == "unix:/run/cricket/server1" and variables["CRICKET_WAIT"] == "10m"
        assert mounts["/run/cricket/server1"] == str(server.unix)
        for inside, host in mounts.items():
            variables = {name: value.replace(inside, host) for name, value in variables.items()}
        result = run([APPS / "vector_add"], clean_env(**variables))
        assert result.status == 0 and "50000 elements, 0 wrong" in result.out, result.err


def test_containers_get_the_gpus_with_the_fewest_programs(tmp_path):
    """Workers that wait for a client have contexts, and are no programs."""
    with serving(tmp_path, "--warm", "1", "--log", "debug", CRICKET_EMU="devices=3") as server, node(server.address("unix")) as here:
        wait_until(lambda: " is ready after" in server.log(), 20, "a spare with contexts")
        wait_until(here.kubelet.healthy, 20, "a place")
        assert [here.kubelet.allocate(f"place-{i}")[0]["CUDA_VISIBLE_DEVICES"] for i in range(3)] == ["0", "1", "2"]
        assert here.kubelet.allocate("place-3", "place-4")[0]["CUDA_VISIBLE_DEVICES"] == "0,1"
        with pytest.raises(grpc.RpcError) as refused:
            here.kubelet.allocate(*(f"place-{i}" for i in range(4)))
        assert "has 3 GPUs, and 4 are requested" in refused.value.details()


def test_a_token_is_a_file_of_the_container(tmp_path):
    (tmp_path / "token").write_text("a-secret-of-the-test\n", encoding="utf-8")
    with serving(tmp_path / "s", "--token-file", tmp_path / "token") as server, \
            node(f"tcp://127.0.0.1:{server.port}", CRICKET_TOKEN="a-secret-of-the-test") as here:
        wait_until(here.kubelet.healthy, 20, "a place")
        variables, mounts = here.kubelet.allocate("place-0")
        assert "a-secret-of-the-test" not in str(variables)
        assert Path(mounts[variables["CRICKET_TOKEN_FILE"]]).read_text(encoding="utf-8") == "a-secret-of-the-test\n"


@pytest.mark.parametrize("words, says", [([], "--server"), (["--server", "x", "--places", "0"], "a number from 1 on"),
                                         (["--server", "x", "--interval", "0"], "above 0"), (["--server", "x", "--command", ""], "no command cricket")])
def test_wrong_options_are_refused(words, says):
    result = run([sys.executable, PLUGIN, *words], clean_env())
    assert result.status == 2 and re.search(re.escape(says), result.err)
