"""tests/e2e/test_docker.py - the images' files, without an engine to build them.

What they run while they are built must be scripts of the project that CI runs, too, and what they name must
be there.
"""
import fnmatch
import re
import subprocess

import pytest

from conftest import HANG, KIND, PRODUCTS, ROOT, clean_env, run

DOCKER = ROOT / "docker"
FILES = sorted(p.name for p in DOCKER.glob("Dockerfile.*"))
COMPOSE = sorted(DOCKER.glob("compose*.yaml"))
# What `make` makes, and a test installs.
MADE = {"/src/tests/test_apps/bin/vector_add", "/src/tests/test_apps/bin/matmul", "/opt/cricket"}


def instructions(name):
    """(instruction, rest) of a Dockerfile, continued lines joined."""
    text = (DOCKER / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in lines]


def commands(name):
    """Each command of each RUN line, as the repository's root sees it."""
    return [c.strip().removeprefix("/opt/cricket/") for word, rest in instructions(name) if word == "RUN"
            for c in rest.split("&&")]


def goals_of_make():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return {g for line in re.findall(r"^([\w -]+):", makefile, re.M) for g in line.split()}


def test_there_are_images_of_server_client_and_pytorch():
    assert {"Dockerfile.server", "Dockerfile.client", "Dockerfile.pytorch"} <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_an_image_runs_nothing_but_what_ci_runs(name):
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    here = {"tools/install.sh server /opt/cricket", "tools/install.sh client /opt/cricket",     # below
            "tools/portable.sh --cc", "make -C tests/test_apps bin/vector_add bin/matmul",      # tests/systems/portable.sh
            "rm -rf /var/lib/apt/lists"}
    deps = subprocess.run([ROOT / "tools" / "deps.sh", "--help"], capture_output=True, text=True,
                          check=True, timeout=HANG).stdout
    assert commands(name)
    for command in commands(name):
        program, *words = command.split()
        if command in here:
            continue
        if program == "make":
            assert set(words) <= goals_of_make(), command
        elif program == "tools/deps.sh":
            assert "tools/deps.sh" in ci and all(w in deps for w in words), command
        else:
            raise AssertionError(command)


@pytest.mark.parametrize("name", FILES)
def test_what_an_image_copies_is_there(name):
    for word, rest in instructions(name):
        if word == "COPY":
            *sources, _ = [w for w in rest.split() if not w.startswith("--")]
            for source in sources:
                assert source in MADE if "--from=" in rest else (ROOT / source).exists(), source


def test_the_health_check_fails_without_a_server(server, tmp_path):
    """The command of Dockerfile.server and compose.yaml."""
    for file in ("Dockerfile.server", "compose.yaml"):
        words = re.findall(r"[\w/.:-]+", re.search(r"/opt/cricket/bin/cricket.*", (DOCKER / file).read_text(encoding="utf-8"))[0])
        assert words == ["/opt/cricket/bin/cricket", "status", "-s", "unix:/tmp/cricket.sock"], file
    command = [PRODUCTS / "cricket", "status", "-s"]
    assert run([*command, server.address("unix")], clean_env()).status == 0
    assert run([*command, f"unix:{tmp_path}/none"], clean_env()).status != 0


@pytest.mark.parametrize("file", COMPOSE, ids=[p.name for p in COMPOSE])
def test_compose_names_files_that_are_there(file):
    text = file.read_text(encoding="utf-8")
    named = re.findall(r"dockerfile: (\S+)", text)
    assert named and all((ROOT / n).exists() for n in named)
    assert set(re.findall(r"context: (\S+)", text)) == {".."}


def test_only_the_server_is_given_a_gpu():
    services = re.split(r"^  (\w+):$", (DOCKER / "compose.gpu.yaml").read_text(encoding="utf-8"), flags=re.M)
    with_gpu = [n for n, body in zip(services[1::2], services[2::2]) if "capabilities: [gpu]" in body]
    assert with_gpu == ["server"]


def test_the_recipe_for_a_mounted_tree_agrees_with_its_image():
    """Where the tree is mounted, the image's name, the goals, the program: what the README has one type is there."""
    readme = (DOCKER / "README.md").read_text(encoding="utf-8")
    image = dict(instructions("Dockerfile.devel"))
    assert f"-v $CRICKET:{image['WORKDIR']} " in readme and "    make libtirpc " in readme
    built, started = re.search(r"Dockerfile.devel -t (\S+)", readme)[1], re.search(r"docker run (--gpus.*-dit.*)", readme)[1]
    assert started.split()[-1] == built and f"--name {re.search('docker exec -it (.*) bash', readme)[1]} " in started
    comment = (DOCKER / "Dockerfile.devel").read_text(encoding="utf-8")
    assert f"docker run {started}\n" in comment
    goals = re.search(r"cd cpu && make (.*)", readme)[1].split()
    assert goals == ["cricket-rpc-server", "cricket-client.so"]
    for name in re.findall(r"python3 (tests/\S+)", readme):
        assert (ROOT / name).is_file()
    assert not [word for word, _ in instructions("Dockerfile.devel") if word == "USER"]


def test_what_a_build_leaves_in_the_tree_is_not_copied_into_images():
    """Programs of the host are not those of an image, and make would take them as built: docker ignores what git does."""
    ignored = [line.split("/") for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split()]
    made = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split() if line.startswith("/")]
    assert len(made) > 20 and [".git"] in ignored
    copied = [path for path in made if not any(
        len(rule) <= len(path.split("/")) and all(map(fnmatch.fnmatch, path.split("/"), rule)) for rule in ignored)]
    assert not copied


@pytest.mark.skipif(bool(KIND), reason="images have no sanitizers")
def test_what_is_installed_runs_without_being_preloaded(server, app, tmp_path):
    for what in ("server", "client"):
        assert run([ROOT / "tools" / "install.sh", what, tmp_path], clean_env()).status == 0
    assert run([tmp_path / "bin" / "cricket-rpc-server", "--version"], clean_env()).status == 0
    for name in ("Dockerfile.client", "Dockerfile.pytorch"):
        folder = re.search(r"LD_LIBRARY_PATH=/opt/cricket/(\S+)", (DOCKER / name).read_text(encoding="utf-8"))[1]
        env = clean_env(LD_LIBRARY_PATH=str(tmp_path / folder), REMOTE_GPU_ADDRESS=server.address("unix"))
        result = run([app("vector_add")], env)
        assert "0 wrong" in result.out, result.err
