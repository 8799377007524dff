"""tests/e2e/test_compose.py - the compose files, without an engine.

The schema of compose files accepts them. podman-compose brings the services up as docker/README.md says; in the place
of podman is engine.py, which runs the commands of the images as processes of this system.
"""
import json
import re
import shlex
import subprocess
import sys

import pytest

from conftest import APPS, KIND, PRODUCTS, ROOT, clean_env, run
from ports import free_port

yaml = pytest.importorskip("yaml", reason="python3-yaml is missing (make deps)")
pytestmark = pytest.mark.skipif(bool(KIND), reason="compose files do not depend on how the programs were compiled")

FOLDER = ROOT / "docker"
FILES = sorted(p.name for p in FOLDER.glob("compose*.yaml"))
VALIDATE = """
import json, pathlib, sys, jsonschema, yaml
home = pathlib.Path(jsonschema.__file__).parents[1]
schema = json.loads((home / "compose" / "config" / "compose_spec.json").read_text())
for error in jsonschema.Draft7Validator(schema).iter_errors(yaml.safe_load(sys.stdin.read())):
    print(list(error.path), error.message)
"""


@pytest.fixture(name="python", scope="module")
def fixture_python():
    """A python with podman-compose and the schema."""
    made = subprocess.run([ROOT / "tools" / "schemas.sh"], capture_output=True, text=True, timeout=300, check=False)
    if made.returncode == 3:
        pytest.skip(made.stdout.strip().splitlines()[-1])
    assert made.returncode == 0, made.stderr
    return ROOT / "build" / "schemas" / "bin" / "python3"


@pytest.fixture(name="engine")
def fixture_engine(tmp_path):
    """The environment in which podman is engine.py; ports, sockets and programs are those of this test."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "podman").write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/tests/e2e/engine.py "$@"\n', encoding="utf-8")
    (tmp_path / "bin" / "podman").chmod(0o755)
    port = free_port()
    (tmp_path / "places").write_text(json.dumps({
        "/opt/cricket/bin": str(PRODUCTS), "/opt/cricket/apps": str(APPS), "/opt/cricket/lib/cricket/lib": str(PRODUCTS / "lib"),
        "/tmp/cricket.sock": f"{tmp_path}/s", "/tmp/cricket-cache": f"{tmp_path}/cache",
        "0.0.0.0:9909": f"127.0.0.1:{port}", "server:9909": f"127.0.0.1:{port}"}), encoding="utf-8")
    env = clean_env(ENGINE_FOLDER=str(tmp_path))
    env["PATH"] = f"{tmp_path / 'bin'}:{env['PATH']}"
    return env


def compose(python, env, *words):
    return run([python, "-m", "podman_compose", *words], env, timeout=120)


def documented():
    """What docker/README.md has one type behind `docker compose`; the files are given by their paths."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    docker compose (.*)$", text, re.M)
    return [[str(ROOT / w) if w.startswith("docker/") else w for w in shlex.split(c)] for c in commands]


def errors(python, text):
    done = subprocess.run([python, "-c", VALIDATE], input=text, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def test_the_readme_brings_up_each_file():
    first, second = documented()
    assert [w for w in first if w.endswith(".yaml")] == [str(FOLDER / "compose.yaml")]
    assert [w for w in second if w.endswith(".yaml")] == [str(FOLDER / "compose.yaml"), str(FOLDER / "compose.gpu.yaml")]
    assert FILES == ["compose.gpu.yaml", "compose.yaml"]


@pytest.mark.parametrize("name", FILES)
def test_the_schema_accepts_a_file(python, name):
    assert not errors(python, (FOLDER / name).read_text(encoding="utf-8"))


def test_the_schema_refuses_an_unknown_field(python):
    """Otherwise the test above would say nothing."""
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    assert "healthcheck" in errors(python, text.replace("healthcheck:", "healthcheck_:"))[0]


def test_both_files_together_are_accepted(python, engine):
    files = [w for name in ("compose.yaml", "compose.gpu.yaml") for w in ("-f", FOLDER / name)]
    result = compose(python, engine, *files, "config")
    assert result.status == 0 and not errors(python, result.out), result.err
    services = yaml.safe_load(result.out)["services"]
    assert set(services) == {"server", "client", "pytorch"}
    assert [n for n, s in services.items() if "deploy" in s] == ["server"]
    assert services["pytorch"]["depends_on"] == services["client"]["depends_on"]


def test_the_client_runs_its_program_when_the_server_is_healthy(python, engine, tmp_path, app):
    app("vector_add")
    result = compose(python, engine, *documented()[0])
    assert result.status == 0 and "vector_add: 50000 elements, 0 wrong" in result.out, result.out + result.err
    calls = [line.split()[0] for line in (tmp_path / "calls").read_text(encoding="utf-8").splitlines()]
    calls = [c for c in calls if c in ("build", "create", "start", "wait")]
    assert calls[:4] == ["build", "build", "create", "create"]
    assert sorted(calls[4:6]) == ["start", "wait"] and calls[6:] == ["start"]   # the server, and the wait for it; the client


def test_the_status_is_that_of_the_client(python, engine, tmp_path):
    """The server is not reached: the client's own status comes out."""
    places = json.loads((tmp_path / "places").read_text(encoding="utf-8"))
    places["server:9909"] = f"127.0.0.1:{free_port()}"
    (tmp_path / "places").write_text(json.dumps(places), encoding="utf-8")
    result = compose(python, engine, *documented()[0])
    assert result.status != 0 and "cannot" in result.out + result.err, result.out + result.err


def test_pytorch_gets_the_server_and_no_gpu(python, engine, tmp_path):
    """The commands to the engine; the image of PyTorch is not here to run."""
    places = json.loads((tmp_path / "places").read_text(encoding="utf-8"))
    (tmp_path / "places").write_text(json.dumps({"python3": "true", **places}), encoding="utf-8")
    result = compose(python, engine, *documented()[1])
    assert result.status == 0, result.out + result.err
    told = {p.name.split("_")[1]: json.loads(p.read_text(encoding="utf-8")) for p in tmp_path.glob("*.container")}
    assert set(told) == {"server", "pytorch"}
    assert told["server"]["devices"] == ["nvidia.com/gpu=all"] and not told["pytorch"]["devices"]
    assert told["pytorch"]["env"] == ["REMOTE_GPU_ADDRESS=server:9909"]
    assert told["pytorch"]["command"] == ["python3", "/opt/cricket/apps/pytorch_minimal.py"]
    assert "alias=server" in told["server"]["network"]
