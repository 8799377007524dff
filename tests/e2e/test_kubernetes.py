"""tests/e2e/test_kubernetes.py - the manifests, without a cluster.

Kubernetes' API schemas accept them; what they name belongs together; and the commands of their pods run here, in the
order of a cluster: server, probe, a client with the token of its Secret.
"""
import base64
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from conftest import APPS, KIND, ROOT, SERVER, clean_env, run, wait_until
from ports import free_port

yaml = pytest.importorskip("yaml", reason="python3-yaml is missing (make deps)")
pytestmark = pytest.mark.skipif(bool(KIND), reason="manifests do not depend on how the programs were compiled")

FOLDER = ROOT / "docker" / "kubernetes"
MANIFESTS = sorted(p for p in FOLDER.glob("*/*.yaml") if p.name != "kustomization.yaml")
PARTS = sorted(p.parent.name for p in FOLDER.glob("*/kustomization.yaml"))
ADDRESS = "cricket-server.cricket:9909"


@pytest.fixture(name="validate", scope="module")
def fixture_validate():
    """Returns a function: a file against the schemas."""
    made = subprocess.run([ROOT / "tools" / "schemas.sh"], capture_output=True, text=True, timeout=300, check=False)
    if made.returncode == 3:
        pytest.skip(made.stdout.strip().splitlines()[-1])
    assert made.returncode == 0, made.stderr
    python = ROOT / "build" / "schemas" / "bin" / "python3"
    return lambda path: run([python, "-m", "kubernetes_validate", "--strict", path], clean_env(), timeout=120)


def build(part):
    """The objects of a folder, as kustomize makes them."""
    if not shutil.which("kubectl"):
        pytest.skip("no kubectl, whose kustomize builds the manifests")
    result = run(["kubectl", "kustomize", FOLDER / part], clean_env(), timeout=60)
    assert result.status == 0, result.err
    return result.out


def objects(part):
    return {o["kind"]: o for o in yaml.safe_load_all(build(part))}


def load(path):
    return yaml.safe_load((FOLDER / path).read_text(encoding="utf-8"))


def test_there_are_servers_emulated_servers_and_a_client():
    assert PARTS == ["client", "emulated", "server"]
    assert {"daemonset.yaml", "service.yaml", "networkpolicy.yaml", "namespace.yaml", "job.yaml"} == {p.name for p in MANIFESTS}


@pytest.mark.parametrize("manifest", [str(p.relative_to(FOLDER)) for p in MANIFESTS])
def test_the_schemas_accept_a_manifest(manifest, validate):
    result = validate(FOLDER / manifest)
    assert result.status == 0 and " passed " in result.out, result.out + result.err


@pytest.mark.parametrize("part", PARTS)
def test_the_schemas_accept_what_kustomize_makes(part, validate, tmp_path):
    (tmp_path / "all.yaml").write_text(build(part), encoding="utf-8")
    result = validate(tmp_path / "all.yaml")
    assert result.status == 0 and "ERROR" not in result.out and "WARN" not in result.out, result.out


def test_the_schemas_refuse_an_unknown_field(validate, tmp_path):
    """Otherwise the tests above would say nothing."""
    text = (FOLDER / "server" / "daemonset.yaml").read_text(encoding="utf-8")
    (tmp_path / "wrong.yaml").write_text(text.replace("nodeSelector:", "nodeSelektor:"), encoding="utf-8")
    result = validate(tmp_path / "wrong.yaml")
    assert result.status != 0 and "nodeSelektor" in result.out


def test_service_and_policy_select_the_servers_pods():
    labels = load("server/daemonset.yaml")["spec"]["template"]["metadata"]["labels"]
    assert load("server/service.yaml")["spec"]["selector"].items() <= labels.items()
    policy = load("server/networkpolicy.yaml")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    client = load("client/job.yaml")["spec"]["template"]["metadata"]["labels"]
    assert policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"].items() <= client.items()
    servers = [policy["ingress"][1]["from"][0], policy["egress"][0]["to"][0]]
    assert all(s["podSelector"] == policy["podSelector"] for s in servers) and len(policy["egress"]) == 1
    container = load("server/daemonset.yaml")["spec"]["template"]["spec"]["containers"][0]
    assert {p["port"] for rule in policy["ingress"] + policy["egress"] for p in rule["ports"]} == {p["containerPort"] for p in container["ports"]}


def test_the_connections_of_a_pod_reach_one_server():
    assert load("server/service.yaml")["spec"]["sessionAffinity"] == "ClientIP"


def test_the_emulated_servers_want_no_gpu():
    spec = objects("emulated")["DaemonSet"]["spec"]["template"]["spec"]
    assert "nodeSelector" not in spec and "runtimeClassName" not in spec
    assert spec["containers"][0]["args"][-2:] == ["--driver", "emu"]
    spec = objects("server")["DaemonSet"]["spec"]["template"]["spec"]
    assert spec["nodeSelector"] and spec["runtimeClassName"] == "nvidia"


def test_a_server_as_delivered_admits_no_client(tmp_path):
    """A comment alone is a list of tokens, without one."""
    text = base64.b64decode(objects("server")["Secret"]["data"]["list"]).decode()
    assert text.startswith("#") and ":" not in re.sub(r"^#.*$", "", text, flags=re.M)
    (tmp_path / "list").write_text(text, encoding="utf-8")
    pod = Pod(tmp_path, tmp_path / "list")
    try:
        result = pod.client("x", pod.pin)
        assert result.status != 0 and "token" in result.err
    finally:
        pod.stop()


def test_the_pods_wait_for_a_key_that_a_site_has_made():
    secrets = [v["secret"] for v in load("server/daemonset.yaml")["spec"]["template"]["spec"]["volumes"] if "secret" in v]
    assert [s["secretName"] for s in secrets] == ["cricket-tokens", "cricket-tls"] and not any(s.get("optional") for s in secrets)
    assert objects("server")["Secret"]["metadata"]["name"] == "cricket-tokens"


class Pod:
    """The server's container as a process: its paths and its port are replaced, nothing else."""

    def __init__(self, folder, tokens):
        self.container = load("server/daemonset.yaml")["spec"]["template"]["spec"]["containers"][0]
        self.port = free_port()
        self.pin = re.search(r"CRICKET_TLS_PIN=(\S+)", run([SERVER, "--new-cert", folder / "tls"], clean_env()).out)[1]
        self.places = {"/etc/cricket/tls/tls.crt": f"{folder}/tls/cert.pem", "/etc/cricket/tls/tls.key": f"{folder}/tls/key.pem",
                       "/opt/cricket/bin/": f"{SERVER.parent}/", "0.0.0.0:9909": f"127.0.0.1:{self.port}", "/tmp/cricket.sock": f"{folder}/s",
                       "/etc/cricket/tokens/list": str(tokens), "/cricket/bin/": f"{SERVER.parent}/", "/cricket/apps/": f"{APPS}/",
                       ADDRESS: f"127.0.0.1:{self.port}"}
        env = clean_env(**{e["name"]: e["value"] for e in self.container["env"]})
        env["CRICKET_CACHE_DIR"] = str(folder / "cache")
        self.process = subprocess.Popen([SERVER, *self.words(self.container["args"]), "--driver", "emu"], env=env,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: self.probe("startupProbe") == 0, 20, "the startup probe succeeds")

    def words(self, words):
        for there, here in self.places.items():
            words = [w.replace(there, here) for w in words]
        return words

    def probe(self, name):
        return run(self.words(self.container[name]["exec"]["command"]), clean_env()).status

    def client(self, token, pin):
        container = load("client/job.yaml")["spec"]["template"]["spec"]["containers"][0]
        assert [e["name"] for e in container["env"]] == ["CRICKET_TOKEN", "CRICKET_TLS_PIN"] and ADDRESS in container["command"]
        return run(self.words(container["command"]), clean_env(CRICKET_TOKEN=token, CRICKET_TLS_PIN=pin))

    def stop(self):
        self.process.kill()
        self.process.wait()


def test_the_commands_of_the_pods_run_a_program(tmp_path):
    printed = run([SERVER, "--new-token", "team"], clean_env()).out
    token, line = re.findall(r"^\w+: +(\S+)$", printed, re.M)
    (tmp_path / "list").write_text(line + "\n", encoding="utf-8")
    pod = Pod(tmp_path, tmp_path / "list")
    try:
        assert pod.probe("readinessProbe") == 0 and pod.probe("livenessProbe") == 0
        result = pod.client(token, pod.pin)
        assert result.status == 0 and "50000 elements, 0 wrong" in result.out, result.err
        assert pod.client(token, f"sha256:{'0' * 64}").status != 0
    finally:
        pod.stop()
    assert pod.probe("livenessProbe") != 0


@pytest.fixture(name="volumes")
def fixture_volumes():
    """A folder that every user reaches, which tmp_path is not."""
    with tempfile.TemporaryDirectory(prefix="cricket-volumes-") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_the_user_of_a_pod_can_copy_the_client(volumes):
    """A volume is root's, and everyone may write into it."""
    source, volume = volumes / "opt", volumes / "volume"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "cricket").touch(0o755)
    (source / "bin" / "link").symlink_to("cricket")
    volume.mkdir()
    volume.chmod(0o777)
    spec = load("client/job.yaml")["spec"]["template"]["spec"]
    words = [w.replace("/opt/cricket", str(source)).replace("/cricket/", f"{volume}/") for w in spec["initContainers"][0]["command"]]
    result = run(["setpriv", f"--reuid={spec['securityContext']['runAsUser']}", "--clear-groups", *words], clean_env())
    assert result.status == 0, result.err
    assert os.access(volume / "bin" / "cricket", os.X_OK) and (volume / "bin" / "link").is_symlink()


def test_a_server_has_more_time_to_end_than_it_waits_for_programs():
    spec = load("server/daemonset.yaml")["spec"]["template"]["spec"]
    args = spec["containers"][0]["args"]
    assert spec["terminationGracePeriodSeconds"] > 60 * int(args[args.index("--drain") + 1].removesuffix("m"))
