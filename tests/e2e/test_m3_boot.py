"""tests/e2e/test_m3_boot.py - MemMapManager::Instance(), the single line that boots a broker."""
import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import DRIVER, HANG, KIND, ROOT, clean_env, run, wait_until

pytestmark = [pytest.mark.skipif(bool(KIND), reason="a program without sanitizers uses the library"),
              pytest.mark.skipif(DRIVER != "emu", reason="the program would take NVIDIA's driver, and its broker the emulated one")]

CPU = ROOT / "cpu"
# Allocates by name, says what came of it, and stays until its input ends; "halt" ends the broker.
PROGRAM = r"""
#include "m3/MemMapManager.h"
int main(int argc, char **argv)
{
	auto m3Srv = MemMapManger::Instance();
	ProcessInfo info;
	int sock_fd = ipcOpenAndBindSocket(nullptr);
	if (argc > 1)
		return ipcHaltM3Server(sock_fd, info);
	MemMapResponse got = m3Srv->RequestAllocate(info, sock_fd, (char *)"shared", 0, 4096);
	printf("%d %d %llu\n", (int)got.status, got.m3, (unsigned long long)got.shareableHandle);
	fflush(stdout);
	getchar();
	return got.status != STATUSCODE_ACK;
}
"""


@pytest.fixture(name="program", scope="module")
def fixture_program(tmp_path_factory):
    """A program of the first M3's interface, which finds libm3.so.1 by LD_LIBRARY_PATH."""
    path = tmp_path_factory.mktemp("m3") / "program"
    subprocess.run(["g++", "-std=c++14", f"-I{ROOT}", f"-I{ROOT / 'm3'}", "-x", "c++", "-o", path, "-", "-L", CPU,
                    "-lm3"], input=PROGRAM, text=True, check=True, timeout=120)
    return path


@pytest.fixture(name="env")
def fixture_env(tmp_path):
    """A place for the socket that no other test has; what runs there is ended."""
    env = clean_env(CRICKET_M3=str(tmp_path / "socket"), CRICKET_DRIVER="emu", LD_LIBRARY_PATH=str(CPU))
    yield env
    for pid in brokers(env):
        os.kill(pid, signal.SIGKILL)


def brokers(env):
    """The processes that serve there, without their copiers."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[0].endswith("m3-server") and env["CRICKET_M3"] in words:
            found.append(int(pid))
    return found


def begin(program, env):
    return subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def test_one_line_boots_a_broker_that_outlives_the_program(program, env):
    """Nothing of the program stays open in it: `run` returns, though the broker goes on."""
    first = run([program], env)
    assert re.fullmatch(r"1 0 \d+\n", first.out) and (first.status, first.err) == (0, "")
    one = brokers(env)
    assert len(one) == 1 and os.getsid(one[0]) == one[0]
    assert run([program], env).status == 0 and brokers(env) == one
    assert run([program, "halt"], env).status == 0
    wait_until(lambda: not brokers(env), 10, "the broker has ended")


def test_programs_that_start_at_once_share_one_broker_and_its_memory(program, env):
    started = [begin(program, env) for _ in range(8)]
    lines = [p.stdout.readline() for p in started]
    assert len(brokers(env)) == 1
    for p in started:
        assert p.communicate("\n", timeout=HANG)[1] == "" and p.returncode == 0
    assert len(set(lines)) == 1 and lines[0].startswith("1 0 "), lines


def test_memory_stays_when_the_program_that_booted_the_broker_is_killed(program, env):
    first = begin(program, env)
    line = first.stdout.readline()
    second = begin(program, env)
    assert second.stdout.readline() == line
    first.kill()
    first.wait()
    third = begin(program, env)
    assert third.stdout.readline() == line
    for p in (second, third):
        assert p.communicate("\n", timeout=HANG)[1] == "" and p.returncode == 0


def test_without_m3_server_a_line_says_so(program, env, tmp_path):
    shutil.copy2(CPU / "libm3.so.1", tmp_path)
    result = run([program], {**env, "LD_LIBRARY_PATH": str(tmp_path), "PATH": str(tmp_path)})
    assert result.out.startswith("3 "), result
    assert "no broker runs, and m3-server cannot be started: No such file or directory" in result.err


def test_m3_server_is_found_by_path(program, env, tmp_path):
    shutil.copy2(CPU / "libm3.so.1", tmp_path)
    result = run([program], {**env, "LD_LIBRARY_PATH": str(tmp_path), "PATH": f"{CPU}:{env['PATH']}"})
    assert (result.status, result.err) == (0, "")


@pytest.mark.parametrize("change,words", [({"CRICKET_DRIVER": "/nowhere/libcuda.so"}, "/nowhere/libcuda.so"),
                                          ({"CRICKET_M3": "/nowhere/socket"}, "/nowhere/socket: No such file")],
                         ids=["driver", "socket"])
def test_a_broker_that_cannot_start_says_why(program, env, change, words):
    result = run([program], {**env, **change})
    assert result.out.startswith("3 "), result
    assert words in result.err and "no broker runs, and" in result.err and "exit status 1" in result.err


def test_an_idle_broker_ends_and_takes_its_socket_along(env):
    server = run([CPU / "m3-server", "--detach", "--idle", "1", "--socket", env["CRICKET_M3"]], env)
    assert (server.status, server.err) == (0, "") and len(brokers(env)) == 1
    wait_until(lambda: not brokers(env), 20, "the idle broker has ended")
    assert not os.path.exists(env["CRICKET_M3"])


def test_a_second_one_in_the_background_leaves_the_first_alone(env):
    command = [CPU / "m3-server", "--detach", "--socket", env["CRICKET_M3"]]
    assert run(command, env).status == 0
    one = brokers(env)
    assert (run(command, env).status, brokers(env)) == (0, one)
    assert run(command[:1] + command[2:], env).status == 1      # in the foreground that is an error
