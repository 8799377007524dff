"""tests/e2e/test_recipes.py - the commands of docs/recipes.md do what it says."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import DRIVER, KIND, PRODUCTS, ROOT, SLOW, Server, clean_env, is_alive, listens, wait_until
from ports import free_port
from sshd import sshd_in

# What the recipes run as ./program.
COUNT = """#!{python}
import ctypes
c, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(c.cuInit(0), c.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0) or
      c.cuDeviceGetCount(ctypes.byref(n)), n.value)
"""
# A call that waits, for each line.
CALLS = """
import sys
context = ctypes.c_void_p()
assert c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and c.cuCtxSetCurrent(context) == 0
print(end="", flush=True)
for line in sys.stdin:
    print(c.cuCtxSynchronize(), flush=True)
"""


def recipe(title):
    """The commands of a section."""
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    return [line[4:] for line in section.splitlines() if line.startswith("    ")]


@pytest.fixture(name="place")
def fixture_place(tmp_path):
    """A folder with ./program, and an environment that finds the commands."""
    (tmp_path / "program").write_text(COUNT.format(python=sys.executable))
    (tmp_path / "program").chmod(0o755)
    env = clean_env(XDG_CONFIG_HOME=str(tmp_path), HOME=str(tmp_path))
    env["PATH"] = f"{PRODUCTS}:{env['PATH']}"
    return tmp_path, env


def shell(place, commands, timeout=60):
    """Runs COMMANDS in one shell, which ends at the first that fails."""
    folder, env = place
    done = subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=folder, env=env, capture_output=True, text=True,
                          timeout=timeout * SLOW)
    assert done.returncode == 0, done.stderr
    return done.stdout


def changed(commands, *pairs):
    """The commands with other words for those of the document; each must occur."""
    text = "\n".join(commands)
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, str(new))
    return text.splitlines()


@pytest.fixture(name="ssh")
def fixture_ssh(place):
    with sshd_in(place[0]) as command:
        yield command


def tunnel_by_hand(kind, server, place, ssh):
    """The recipe's command of a tunnel, a command that waits for it, and that of the program."""
    commands, local, path = recipe("Over ssh"), free_port(), place[0] / "forwarded"
    if kind == "port":
        wait = f"for i in $(seq 600); do (exec 3<> /dev/tcp/127.0.0.1/{local}) 2> /dev/null && break; sleep 0.1; done"
        tunnel, program = changed(commands[1:3], ("ssh ", f"{ssh} "), ("9910", local), (":9909", f":{server.port}"),
                                  ("gpuhost", "127.0.0.1"))
    else:
        wait = f"for i in $(seq 600); do [ -S {path} ] && break; sleep 0.1; done"
        tunnel, program = changed(commands[3:], ("/tmp/cricket-gpuhost", path), ("/run/cricket.sock", server.unix), ("ssh ", f"{ssh} "),
                                  (" gpuhost", " 127.0.0.1"))
    return tunnel, wait, program


def test_over_ssh(server, place, ssh):
    place[1].update(CRICKET_SSH=ssh, CRICKET_SSH_SOCKET=server.unix)
    assert shell(place, changed(recipe("Over ssh")[:1], ("gpuhost", "127.0.0.1")), 120) == "0 0 1\n"
    for kind in ("port", "path"):
        tunnel, ready, program = tunnel_by_hand(kind, server, place, ssh)
        assert shell(place, [tunnel, "trap 'kill $!' EXIT", ready, program], 120) == "0 0 1\n"


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["port", "path"])
def test_a_session_survives_the_end_of_its_tunnel(own_server, place, ssh, kind):
    """For longer than the times in which connections are made again without a line."""
    (place[0] / "program").write_text((place[0] / "program").read_text() + CALLS)
    tunnel, ready, program = tunnel_by_hand(kind, own_server, place, ssh)
    tunnel = ["bash", "-c", "exec " + tunnel.removesuffix("&")]
    through = subprocess.Popen(tunnel, env=place[1])
    with subprocess.Popen(["bash", "-c", f"{ready}; exec {program}"], cwd=place[0], env=place[1], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        try:
            assert running.stdout.readline() == "0 0 1\n", running.stderr.read()
            worker, = own_server.workers()
            through.kill()
            through.wait()
            assert " is cut (" in running.stderr.readline()
            through = subprocess.Popen(tunnel, env=place[1])
            assert " is back after " in running.stderr.readline()
            assert running.communicate("again\n", timeout=60 * SLOW) == ("0\n", "")
            wait_until(lambda: not is_alive(worker), 10, "the session ends with the program")
        finally:
            running.kill()
            through.kill()
            through.wait()


def test_in_a_virtual_environment(server, place):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place[0] / "venv"], check=True, timeout=120)
    out = shell(place, changed(recipe("Virtual environments and conda"), ("gpuhost", server.address("tcp"))))
    assert out == f"{place[0]}/venv\n"


def test_a_kernel_for_jupyter(server, place):
    kernel = json.loads("\n".join(recipe("Jupyter")))
    assert set(kernel) == {"display_name", "language", "argv"} and kernel["argv"][-1] == "{connection_file}"
    words = [server.address("tcp") if w == "gpuhost" else w for w in kernel["argv"]]
    at = words.index("-m")
    done = subprocess.run(words[:at] + ["-c", COUNT.split("\n", 1)[1]], env=place[1], capture_output=True, text=True,
                          timeout=60 * SLOW)
    assert done.stdout == "0 0 1\n", done.stderr


@pytest.mark.parametrize("title, file", [("VS Code and other IDEs", ".env"), ("Docker, Podman, compose", "cricket.env")])
def test_variables_in_a_file_suffice(server, place, title, file):
    """What reads the file is not here: the program gets nothing but its variables."""
    shell(place, changed(recipe(title)[:1], ("gpuhost", server.address("tcp"))))
    variables = dict(line.split("=", 1) for line in (place[0] / file).read_text().splitlines())
    if KIND:
        variables.update({k: v for k, v in place[1].items() if k.endswith("SAN_OPTIONS")})
    done = subprocess.run([place[0] / "program"], env=variables, capture_output=True, text=True, timeout=60 * SLOW)
    assert done.stdout == "0 0 1\n", done.stderr


def example(path):
    return json.loads((ROOT / "docs" / "examples" / path).read_text(encoding="utf-8"))


def filled(text, values):
    """A text of VS Code with ${NAME} as it fills it in."""
    return re.sub(r"\$\{([^}]*)\}", lambda m: values[m[1]], text)


@pytest.mark.skipif(DRIVER != "emu" or bool(KIND), reason="starts the emulated GPU itself, as built for users")
def test_the_tasks_of_vs_code_run(place):
    (place[0] / "pytest.py").write_text("import ctypes\nassert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0\nprint('tested')\n")
    (place[0] / "file.py").write_text("import ctypes\nprint(ctypes.CDLL('libcuda.so.1').cuInit(0))\n")
    values = {"command:python.interpreterPath": sys.executable, "file": str(place[0] / "file.py")}
    for task, said in zip(example("vscode/tasks.json")["tasks"], ("tested\n", "0\n")):
        words = [task["command"], *(filled(word, values) for word in task["args"])]
        done = subprocess.run(words, cwd=place[0], env=place[1], capture_output=True, text=True, timeout=60 * SLOW, check=False)
        assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_vs_code_debugs_with_the_file_of_variables(place):
    configuration, = example("vscode/launch.json")["configurations"]
    command = shell(place, [recipe("VS Code and other IDEs")[0].replace("gpuhost", "127.0.0.1:1"), "ls -A"])
    assert filled(configuration["envFile"], {"workspaceFolder": "."}).removeprefix("./") in command.split()


def test_the_dev_container_of_a_server_has_the_device_of_cdi(server, place):
    """tests/systems/containers.sh starts a container with these options."""
    config = example("devcontainer/server/devcontainer.json")
    (place[0] / "cricket").mkdir()
    (place[0] / "cricket" / "config").write_text(f"[lab]\naddress = {server.address('tcp')}\n")
    made = shell(place, [line.split(" --output")[0] for line in recipe("Dev containers") if "cricket cdi" in line])
    specification = json.loads(made)
    device, = specification["devices"]
    assert config["runArgs"] == ["--device", f"{specification['kind']}={device['name']}"]
    assert "image" in config and config["postStartCommand"] == "cricket check"


def test_the_dev_container_without_a_gpu_has_the_plugin_of_pytest():
    """test_ci_recipes.py runs its command, and test_emulated_python.py the option."""
    settings = example("devcontainer/emulated/devcontainer.json")["customizations"]["vscode"]["settings"]
    assert settings == {"python.testing.pytestEnabled": True, "python.testing.pytestArgs": ["--cricket-emu"]}


@pytest.mark.skipif(bool(KIND), reason="Open MPI is not made for sanitizers")
def test_below_mpirun(server, place):
    if not shutil.which("mpirun"):
        pytest.skip("no mpirun")
    place[1].update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    out = shell(place, changed(recipe("MPI"), ("gpuhost", server.address("tcp"))), 120)
    assert out.splitlines() == ["0 0 1"] * 2


def test_several_servers(server, place):
    here = server.address("tcp")
    out = shell(place, changed(recipe("Several servers"), ("127.0.0.1:9910", here), ("127.0.0.1:9911", f"127.0.0.1:{free_port()}")))
    lines = out.splitlines()
    assert [line.split()[1] for line in lines[1:3]] == ["ready", "missing"] and lines[3:] == ["0 0 1"]


def test_watching(own_server, place):
    wait_until(lambda: listens(f"{own_server.unix}.status"), 10, "the status socket is there")
    status, metrics, exporter = recipe("Watch a server")
    place[1]["REMOTE_GPU_ADDRESS"] = own_server.address("unix")
    port = free_port()
    out = shell(place, [status.replace("--watch", ""), metrics, exporter.replace("&", f"--listen 127.0.0.1:{port} &"),
                        "trap 'kill $!' EXIT", f"for i in $(seq 600); do (exec 3<> /dev/tcp/127.0.0.1/{port}) 2> /dev/null && "
                        "break; sleep 0.1; done", f"exec 3<> /dev/tcp/127.0.0.1/{port}",
                        "printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3", "cat <&3"])
    assert "SESSION" in out and "cricket_up 1" in out and "HTTP/1.1 200 OK" in out


def test_finding_out_where_a_program_waits(server, place):
    out = shell(place, changed(recipe("Find out where a program waits"), ("gpuhost", server.address("tcp"))))
    assert out == "0 0 1\n" * 2
    for name in ("out.json", "trace.json"):
        assert json.loads((place[0] / name).read_text())["displayTimeUnit"] == "ms"


@pytest.mark.skipif(bool(KIND), reason="what has sanitizers is not installed")
def test_upgrade_and_uninstall(place):
    """In a prefix of the test's own; a session of the running server goes on."""
    prefix = place[0] / "local"
    install = [f"{ROOT}/tools/install.sh all {prefix}"]
    shell(place, install, 120)
    before = {p.relative_to(prefix) for p in prefix.rglob("*")}
    server = Server(place[0] / "server", program=prefix / "bin" / "cricket-rpc-server")
    program = subprocess.Popen([PRODUCTS / "cricket", "run", "-s", server.address("unix"), sys.executable, "-c",
                                COUNT.split("\n", 1)[1] + "\ninput()\nprint(c.cuDeviceGetCount(ctypes.byref(n)), "
                                "c.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0))"],
                               env=place[1], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline() == "0 0 1\n"
        _, upgrade = recipe("Upgrade")
        shell(place, install, 120)
        out = shell(place, [f"{prefix}/bin/{upgrade} --unix {server.unix}"])
        assert out.startswith("upgraded to ")
        assert program.communicate("\n", timeout=60 * SLOW)[0] == "0 0\n"
    finally:
        program.kill()
        program.communicate()
        server.end()
    (prefix / "bin" / "other").write_text("of another program")
    assert "tools/uninstall.sh" in shell(place, [f"make -n -C {ROOT} " + recipe("Uninstall")[0].removeprefix("make "), "exit 0"])
    shell(place, [f"{ROOT}/tools/uninstall.sh {prefix}"])
    assert len(before) > 40 and {p.relative_to(prefix) for p in prefix.rglob("*")} == {pathlib.Path("bin"), pathlib.Path("bin/other")}
