"""tests/e2e/test_cdi.py - `cricket cdi`, `cricket docker` and `cricket podman`, and the token's file that containers get.

No engine is needed: the specification is checked against CDI's rules, and the engine is a script that prints its arguments.
tests/systems/containers.sh runs containers.
"""
import json
import os
import re
import stat
import subprocess
import sys

import pytest

from conftest import CLIENT, DRIVER, KIND, PRODUCTS, SLOW, Server, clean_env, client_env, run

pytestmark = pytest.mark.skipif(DRIVER != "emu" or bool(KIND), reason="needs the command beside the emulated GPU")

CRICKET = PRODUCTS / "cricket"
LIBRARY = "/opt/cricket/lib/cricket"
TOKEN = "a-secret-of-the-test"
COUNT = "import ctypes; c, n = ctypes.CDLL('libcuda.so.1'), ctypes.c_int(); print(c.cuInit(0), c.cuDeviceGetCount(ctypes.byref(n)), n.value)"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "config" / "cricket").mkdir(parents=True)
    return clean_env(XDG_CONFIG_HOME=str(tmp_path / "config"))


def configure(home, text):
    with open(os.path.join(home["XDG_CONFIG_HOME"], "cricket", "config"), "w", encoding="utf-8") as f:
        f.write(text)


def cricket(env, *words):
    return subprocess.run([CRICKET, *map(str, words)], env=env, capture_output=True, text=True, timeout=60 * SLOW)


def specification(env, *words):
    done = cricket(env, "cdi", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def edits(spec):
    """(variables, {container path: host path}) of the one device."""
    found = spec["devices"][0]["containerEdits"]
    return dict(v.split("=", 1) for v in found["env"]), {m["containerPath"]: m["hostPath"] for m in found["mounts"]}


def test_the_specification_follows_the_rules_of_cdi(server, home):
    """Version, names and fields as the specification of CDI 0.5 has them; unknown fields make engines refuse it."""
    configure(home, f"[lab]\naddress = unix:{server.unix}\n")
    spec = specification(home, "-s", "lab")
    assert set(spec) == {"cdiVersion", "kind", "devices"} and spec["cdiVersion"] == "0.5.0"
    assert re.fullmatch(r"[A-Za-z][\w.-]*/[A-Za-z][\w.-]*", spec["kind"]) and spec["kind"] == "cricket/gpu"
    assert [d["name"] for d in spec["devices"]] == ["lab"]
    found = spec["devices"][0]["containerEdits"]
    assert set(found) == {"env", "mounts"} and all(re.fullmatch(r"\w+=.+", v) for v in found["env"])
    for mount in found["mounts"]:
        assert set(mount) == {"hostPath", "containerPath", "options"}
        assert os.path.exists(mount["hostPath"]) and os.path.isabs(mount["containerPath"])
        assert {"ro", "bind"} <= set(mount["options"]) and "noexec" not in mount["options"]


def test_a_container_gets_what_run_sets(server, home):
    """The variables of `cricket run`, with the places that a container has; nothing of this process's lists."""
    env = dict(home, LD_LIBRARY_PATH="/of/this/host", CUDA_VISIBLE_DEVICES="7", CRICKET_NCCL="workers")
    variables, mounts = edits(specification(env, "-s", f"unix:{server.unix}", "--devices", "0", "--mem", "1G"))
    here = dict(line.split("=", 1) for line in
                cricket(home, "env", "-f", "plain", "-s", f"unix:{server.unix}", "-d", "0", "-m", "1G").stdout.splitlines())
    assert set(variables) == set(here) and variables["LD_PRELOAD"] == f"{LIBRARY}/cricket-client.so"
    assert variables["LD_LIBRARY_PATH"] == variables["TRITON_LIBCUDA_PATH"] == f"{LIBRARY}/lib"
    assert variables["CUDA_VISIBLE_DEVICES"] == "0" and variables["CRICKET_MEMORY"] == "1G"
    assert mounts[LIBRARY] == os.path.realpath(CLIENT.parent) and mounts["/usr/local/bin/cricket"] == os.path.realpath(CRICKET)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libcupti.so.12"):
        assert os.path.exists(f"{mounts[LIBRARY]}/lib/{name}")


@pytest.mark.parametrize("form, address", [
    ("unix:{unix}", "unix:/run/cricket/server1"), ("unix:{unix}//0", "unix:/run/cricket/server1//0"),
    ("shm:{unix}", "shm:/run/cricket/server1"), ("127.0.0.1:{port}", "unix:/run/cricket/server1"),
    ("127.0.0.1:{port}/0", "unix:/run/cricket/server1//0"), ("tcp://127.0.0.1:{port}", "tcp://127.0.0.1:{port}"),
    ("tcp://127.0.0.1:{port}/0,unix:{unix}", "tcp://127.0.0.1:{port}/0,unix:/run/cricket/server1"),
    ("srv:lab.example", "srv:lab.example")])
def test_a_server_of_this_host_is_reached_by_its_socket(server, home, form, address):
    words = {"unix": server.unix, "port": server.port}
    env = dict(home, CRICKET_DEBUG="resolver=127.0.0.1:1")    # DNS that does not answer now may do so later
    variables, mounts = edits(specification(env, "-s", form.format(**words)))
    assert variables["REMOTE_GPU_ADDRESS"] == address.format(**words)
    assert mounts.get("/run/cricket/server1", str(server.unix)) == str(server.unix)
    assert ("/run/cricket/server1" in mounts) == ("/run/cricket" in address)


@pytest.mark.parametrize("words, said", [
    (["-s", "ssh://127.0.0.1"], "neither ssh nor a server"), (["-s", "local"], "neither ssh nor a server"),
    (["-s", "unix:/no/socket"], "/no/socket: cannot be mounted"), (["--kind", "gpu"], "--kind is VENDOR/CLASS"),
    (["--kind", "1a/gpu"], "--kind is VENDOR/CLASS"), (["--name", "a/b"], "--name"), (["--name", "-a"], "--name"),
    (["--format", "sh"], "usage"), (["more"], "usage")])
def test_what_a_container_cannot_have_is_refused(home, tmp_path, words, said):
    done = cricket(home, "cdi", "--output", tmp_path / "out.json", *words)
    assert done.returncode in (1, 2) and said.lower() in done.stderr.lower(), done.stderr
    assert not (tmp_path / "out.json").exists()


def test_the_output_is_a_file_in_a_folder_that_is_made(server, home, tmp_path):
    file = tmp_path / "etc" / "cdi" / "cricket.json"
    done = cricket(home, "cdi", "-s", f"unix:{server.unix}", "--kind=nvidia.com/gpu", "--name", "all", "--output", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    spec = json.loads(file.read_text(encoding="utf-8"))
    assert spec["kind"] == "nvidia.com/gpu" and spec["devices"][0]["name"] == "all"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_files_of_tls_are_mounted(home, tmp_path):
    for name in ("ca.pem", "own.pem", "own.key"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    configure(home, f"[lab]\naddress = tcp://127.0.0.1:1\ntls-ca = {tmp_path}/ca.pem\ntls = require\n")
    env = dict(home, CRICKET_TLS_CERT=f"{tmp_path}/own.pem", CRICKET_TLS_KEY=f"{tmp_path}/own.key")
    variables, mounts = edits(specification(env, "-s", "lab"))
    assert variables["CRICKET_TLS"] == "require"
    for name, file in (("CA", "ca.pem"), ("CERT", "own.pem"), ("KEY", "own.key")):
        assert mounts[variables[f"CRICKET_TLS_{name}"]] == str(tmp_path / file)


# --- the token

def test_the_token_is_in_a_file_and_not_in_the_variables(server, home):
    env = dict(home, CRICKET_TOKEN=TOKEN)
    spec = specification(env, "-s", f"unix:{server.unix}")
    variables, mounts = edits(spec)
    assert TOKEN not in json.dumps(spec) and "CRICKET_TOKEN" not in variables
    file = mounts[variables["CRICKET_TOKEN_FILE"]]
    with open(file, encoding="utf-8") as f:
        assert f.read() == TOKEN + "\n"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600 and stat.S_IMODE(os.stat(os.path.dirname(file)).st_mode) == 0o700


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text(TOKEN + "\n", encoding="utf-8")
    s = Server(folder / "server", "--token-file", folder / "token")
    yield s
    s.stop()


def count(guarded, tmp_path, content, **more):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    return run([sys.executable, "-c", COUNT], client_env(guarded.address("tcp"), CRICKET_TOKEN_FILE=str(file), **more))


@pytest.mark.parametrize("content", [TOKEN.encode(), TOKEN.encode() + b"\n", TOKEN.encode() + b"\r\nmore\n"])
def test_the_client_reads_the_first_line_of_the_file(guarded, tmp_path, content):
    assert count(guarded, tmp_path, content).out == "0 0 1\n"


@pytest.mark.parametrize("content, said", [
    (None, "No such file"), (b"", "No data"), (b"\n", "No data"), (b"x" * 5000, "Message too long"), (b"wrong\n", "refuses")])
def test_a_wrong_file_is_reported(guarded, tmp_path, content, said):
    done = count(guarded, tmp_path, content)
    assert not done.out.startswith("0 0") and said in done.err, done.err
    assert said == "refuses" or "CRICKET_TOKEN_FILE" in done.err


def test_a_pipe_without_a_writer_is_not_waited_for(guarded, tmp_path):
    os.mkfifo(tmp_path / "token")
    assert "CRICKET_TOKEN_FILE" in count(guarded, tmp_path, None).err


def test_the_token_itself_comes_first_and_the_command_reads_the_file_too(guarded, home, tmp_path):
    assert count(guarded, tmp_path, b"wrong\n", CRICKET_TOKEN=TOKEN).out == "0 0 1\n"
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    env = dict(home, CRICKET_TOKEN_FILE=str(tmp_path / "token"))
    assert cricket(env, "check", guarded.address("tcp")).returncode == 0


# --- engines

ENGINE = """#!/bin/sh
for word; do printf '%s\\n' "$word"; done
"""


def engine(home, tmp_path, *words):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("docker", "podman"):
        (folder / name).write_text(ENGINE, encoding="utf-8")
        (folder / name).chmod(0o755)
    return cricket(dict(home, PATH=f"{folder}:{home['PATH']}", CRICKET_TOKEN=TOKEN), *words)


@pytest.mark.parametrize("name, command", [("docker", "run"), ("podman", "run"), ("podman", "create")])
def test_an_engine_gets_options_for_what_the_specification_has(server, home, tmp_path, name, command):
    done = engine(home, tmp_path, name, "-s", f"unix:{server.unix}", command, "--rm", "-s", "image", "program", "--flag")
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    assert words[0] == command and words[-5:] == ["--rm", "-s", "image", "program", "--flag"] and TOKEN not in done.stdout
    added = list(zip(words[1:-5:2], words[2:-5:2]))
    variables, mounts = edits(specification(dict(home, CRICKET_TOKEN=TOKEN), "-s", f"unix:{server.unix}"))
    assert [v for o, v in added if o == "--env"] == [f"{n}={v}" for n, v in variables.items()]
    assert [v for o, v in added if o == "--mount"] == [
        f"type=bind,source={host},target={inside},readonly" for inside, host in mounts.items()]
    assert len(added) == len(variables) + len(mounts)


def test_only_commands_that_make_containers_are_passed_on(home, tmp_path):
    done = engine(home, tmp_path, "podman", "ps")
    assert done.returncode == 2 and "only run and create" in done.stderr and not done.stdout


def test_a_missing_engine_is_reported(server, home, tmp_path):
    done = cricket(dict(home, PATH=str(tmp_path)), "podman", "-s", f"unix:{server.unix}", "run", "image")
    assert (done.returncode, done.stderr) == (127, "cricket: podman: No such file or directory\n")


# --- podman of an ordinary user

USER, GROUP = 4711, 4712


@pytest.fixture(name="own")
def fixture_own(tmp_path):
    """own(NAME, WORD...): `cricket NAME WORD...` of a user with a further group, with an engine that prints its arguments."""
    if os.getuid() != 0:
        pytest.skip("becomes another user")
    for folder in [tmp_path, *tmp_path.parents]:
        if not os.stat(folder).st_mode & 0o001:
            folder.chmod(os.stat(folder).st_mode | 0o011)
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", USER, USER)
    (tmp_path / "engines").mkdir()
    for name in ("docker", "podman"):
        (tmp_path / "engines" / name).write_text(ENGINE, encoding="utf-8")
        (tmp_path / "engines" / name).chmod(0o755)

    def go(*words):
        env = clean_env(HOME=str(tmp_path / "home"), PATH=f"{tmp_path}/engines:{os.environ['PATH']}")
        env.pop("XDG_CONFIG_HOME", None)
        return subprocess.run(["setpriv", "--reuid", str(USER), "--regid", str(USER), "--groups", str(GROUP), CRICKET, *map(str, words)], env=env,
                              capture_output=True, text=True, check=False, timeout=60 * SLOW)
    return go


@pytest.fixture(name="another")
def fixture_another(tmp_path):
    """A server of root, at a socket that the user can find."""
    (tmp_path / "server").mkdir()
    made = Server(tmp_path / "server")
    yield made
    made.stop()


def test_a_socket_that_the_user_may_not_use_is_not_mounted(own, another):
    done = own("podman", "-s", f"unix:{another.unix}", "run", "image")
    assert done.returncode == 1 and done.stdout == "" and done.stderr == f"cricket: unix:{another.unix}: this user may not use this socket\n"
    done = own("podman", "-s", another.address("tcp"), "run", "--network", "host", "image")     # as programs do, over TCP
    assert done.returncode == 0 and f"REMOTE_GPU_ADDRESS={another.address('tcp')}\n" in done.stdout and "/run/cricket/server" not in done.stdout
    assert done.stderr == f"cricket: {another.address('tcp')}: {another.unix}: this user may not use this socket; a container reaches this address only " \
                          "with --network host\n"
    done = own("docker", "-s", f"unix:{another.unix}", "run", "image")                          # whose service is root
    assert done.returncode == 0 and f"source={another.unix}," in done.stdout


def test_a_socket_for_a_further_group_is_explained(own, another):
    os.chown(another.unix, -1, GROUP)
    os.chmod(another.unix, 0o660)
    done = own("podman", "-s", f"unix:{another.unix}", "run", "image")
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1 and "--group-add keep-groups" in done.stderr, done
    done = own("podman", "-s", f"unix:{another.unix}", "run", "--group-add", "keep-groups", "image")
    assert done.returncode == 0 and f"source={another.unix}," in done.stdout, done
    os.chmod(another.unix, 0o666)
    assert own("podman", "-s", f"unix:{another.unix}", "run", "image").returncode == 0
