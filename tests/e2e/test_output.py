"""tests/e2e/test_output.py - a full disk, and standard output that takes nothing: no program says that all is well."""
import os
import stat
import subprocess

import pytest

from conftest import PRODUCTS, SERVER, client_env, run
from namespaces import command, missing
from test_command import CRICKET, home  # noqa: F401 (a fixture)


def on_a_full_disk(env, *words):
    with open("/dev/full", "wb") as full:
        return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, env=env, check=False, timeout=60)


@pytest.mark.parametrize("words", [
    "cricket --help", "cricket --version", "cricket help run", "cricket servers", "cricket servers --state", "cricket status", "cricket status --json",
    "cricket status --watch", "cricket check", "cricket env", "cricket metrics", "cricket cdi", "cricket store", "cricket-rpc-server --help",
    "cricket-rpc-server --version", "cricket-rpc-server --help-env", "cricket-rpc-server --new-config", "cricket-rpc-server --show-config",
    "cricket-rpc-server --new-token bob", "cricket-rpc-server --unix SOCKET --ctl sessions", "cricket-rpc-server --unix SOCKET --ctl config",
    "cricket-exporter --help", "cricket-exporter --version", "m3-server --help", "m3 --help", "m3 --version", "gpu_launcher --help"])
def test_what_does_not_arrive_is_an_error(server, home, words):  # noqa: F811
    program, *rest = [str(server.unix) if word == "SOCKET" else word for word in words.split()]
    if not (PRODUCTS / program).is_file():
        pytest.skip("not all programs are built with a sanitizer")
    done = on_a_full_disk({**home, "REMOTE_GPU_ADDRESS": server.address("unix")}, PRODUCTS / program, *rest)
    lines = done.stderr.decode().splitlines()
    assert done.returncode not in (0, 2) and len(lines) == 1 and lines[0].startswith(f"{program}: standard output: "), done


@pytest.mark.parametrize("words", ["cricket status", "cricket metrics", "cricket servers --state", "cricket check", "cricket-rpc-server --help", "m3 --help"])
def test_a_descriptor_that_is_closed_is_no_connection_of_the_program(server, home, words):  # noqa: F811
    program, *rest = words.split()
    if not (PRODUCTS / program).is_file():
        pytest.skip("not all programs are built with a sanitizer")
    done = run(["sh", "-c", 'exec "$@" >&-', "sh", PRODUCTS / program, *rest], {**home, "REMOTE_GPU_ADDRESS": server.address("unix")})
    assert done.status == 1 and done.err == f"{program}: standard output: Bad file descriptor\n", done


def test_a_token_that_is_not_shown_is_no_success(home, tmp_path):  # noqa: F811
    done = on_a_full_disk(home, CRICKET, "token", "add", "bob", "-f", tmp_path / "tokens")
    assert done.returncode == 1 and b"could not be shown: `cricket token revoke bob`" in done.stderr, done
    assert run([CRICKET, "token", "revoke", "bob", "-f", tmp_path / "tokens"], home).status == 0


@pytest.mark.parametrize("name", ["CRICKET_TRACE", "CRICKET_STATS"])
def test_what_a_program_does_not_record_is_told_once(server, app, name):
    result = run([app("vector_add")], client_env(server.address("unix"), **{name: "/dev/full"}))
    (line,) = result.err.splitlines()
    assert result.status == 0 and f"{name}=/dev/full: No space left on device" in line


@pytest.mark.skipif(missing() != "", reason=missing())
@pytest.mark.parametrize("words", [[SERVER, "--setup", "gpuhost"], [SERVER, "--new-cert", "DISK/tls"], [CRICKET, "token", "add", "bob"],
                                   [CRICKET, "jupyter"], [CRICKET, "cdi", "--output", "DISK/cdi.json"]])
def test_the_file_that_a_full_disk_has_no_room_for_is_named(server, home, tmp_path, words):  # noqa: F811
    env = {**home, "REMOTE_GPU_ADDRESS": server.address("unix"), "HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}
    small = command(f'mount -t tmpfs -o size=4k none {tmp_path}; printf %4096s x >{tmp_path}/full; exec "$@"')
    done = run([*small, *[str(word).replace("DISK", str(tmp_path)) for word in words]], env)
    assert done.status != 0 and done.out == "" and f"{tmp_path}/" in done.err and "No space left on device" in done.err
    assert done.err.count("\n") == 1


def test_a_specification_is_written_to_what_is_no_file(server, home, tmp_path):  # noqa: F811
    """/dev/stdout, for one, would have become a file, for all of the machine."""
    env = {**home, "REMOTE_GPU_ADDRESS": server.address("unix")}
    (tmp_path / "out").symlink_to("/proc/self/fd/1")
    done = run([CRICKET, "cdi", "--output", tmp_path / "out"], env)
    assert done.status == 0 and done.out == run([CRICKET, "cdi"], env).out
    assert (tmp_path / "out").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    with open(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as pipe:
        assert run([CRICKET, "cdi", "--output", tmp_path / "pipe"], env).status == 0
        assert pipe.read() == done.out and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    assert run([CRICKET, "cdi", "--output", tmp_path], env).status == 1
