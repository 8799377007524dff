"""tests/e2e/test_mps.py - share = "mps": the sessions of one identity use a GPU through an NVIDIA MPS of their own.

The daemon is a stand-in (mps_daemon.py), and the emulated driver its client.
"""
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from conftest import DRIVER, HANG, ROOT, SERVER, SLOW, Server, children_of, clean_env, client_env, is_alive, name_of, wait_until
from test_arena import HEAD
from test_confine import needs_landlock
from test_control import Asker
from test_upgrade import upgrade

USER = pwd.getpwuid(os.getuid()).pw_name
POLICY = f'identities: ( {{ user = "{USER}"; share = "mps"; sm = "25%"; memory = "64M"; }}, {{ address = "127.0.0.1"; }} );'
SMS = 16    # of the emulated GPU
GONE = "the NVIDIA MPS of its identity has ended"

# Answers each line: with the number of multiprocessors, the result of an allocation, or by a fault.
PROGRAM = HEAD + r"""
current()
say("ready")
for line in sys.stdin:
    word = line.strip()
    if word == "sms":
        count = ctypes.c_int()
        check(cuda.cuDeviceGetAttribute(ctypes.byref(count), 16, 0))
        say(count.value)
    elif word == "use":
        p = ctypes.c_uint64()
        say(cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20)) or
            cuda.cuMemsetD8_v2(p, 1, ctypes.c_size_t(1 << 20)) or cuda.cuCtxSynchronize())
    elif word == "fault":
        ptx = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n.reg .u64 %r;\nmov.u64 %r, 8;\nst.global.u64 [%r], %r;\nret;\n}\n"
        module, k = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuModuleLoadData(ctypes.byref(module), ptx))
        check(cuda.cuModuleGetFunction(ctypes.byref(k), module, b"k"))
        check(cuda.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, None, None, None))
        say(cuda.cuCtxSynchronize())
"""

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="the daemon is a stand-in")


class Mps:
    """A server whose PATH begins with the stand-in, and what that has recorded."""

    def __init__(self, folder, *options, policy=POLICY, mode="", control=True, **environment):
        (folder / "bin").mkdir()
        self.run = tempfile.TemporaryDirectory(prefix="mps")      # its sockets need a short path
        if control:
            shutil.copy(ROOT / "tests" / "e2e" / "mps_daemon.py", folder / "bin" / "nvidia-cuda-mps-control")
        self.policy = folder / "policy"
        self.policy.write_text(policy)
        self.record = folder / "record"
        self.folder = folder
        self.environment = {"PATH": f"{folder}/bin:/usr/bin:/bin", "XDG_RUNTIME_DIR": self.run.name, "MPS_DAEMON": mode,
                            "MPS_RECORD": str(self.record), **environment}
        self.programs = []
        self.server = Server(folder / "server", "--policy", self.policy, "--audit", folder / "audit", *options, **self.environment)

    def begin(self, transport="unix", **env):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=client_env(self.server.address(transport), **env), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.programs.append(process)
        return process

    def start(self, transport="unix", **env):
        process = self.begin(transport, **env)
        line = process.stdout.readline()
        assert line == "ready\n", line + process.stderr.read() + self.server.log()
        return process

    def refused(self, transport="unix", **env):
        result = subprocess.run([sys.executable, "-c", PROGRAM], env=client_env(self.server.address(transport), **env), text=True,
                                capture_output=True, stdin=subprocess.DEVNULL, timeout=60 * SLOW)
        assert result.returncode != 0
        return result.stderr

    def events(self, word):
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [line.split()[1:] for line in lines if line.split()[0] == word]

    def daemons(self):
        return [pid for pid in children_of(self.server.process.pid) if name_of(pid) == "nvidia-cuda-mps"]

    def folders(self):
        return list(pathlib.Path(self.run.name).glob("cricket-mps-*"))

    def sessions(self):
        return Asker(self.server).ask("sessions")["sessions"]

    def end(self):
        for process in self.programs:
            process.kill()
            process.wait()
        self.server.end()
        self.run.cleanup()


@pytest.fixture(name="mps")
def make_mps(tmp_path):
    made = []

    def go(*arguments, **more):
        made.append(Mps(tmp_path, *arguments, **more))
        return made[-1]
    yield go
    for one in made:
        one.end()


def ask(process, word):
    print(word, file=process.stdin, flush=True)
    return int(process.stdout.readline())


def finish(process):
    process.stdin.close()
    assert process.wait(HANG) == 0, process.stderr.read()


def test_sessions_of_one_identity_have_one_daemon_and_others_none(mps):
    server = mps("--warm", "1", "--standby", "1")
    one, two, other = server.start(), server.start(), server.start("tcp")
    assert [ask(one, "sms"), ask(two, "sms"), ask(other, "sms")] == [SMS // 4, SMS // 4, SMS]
    assert [ask(p, "use") for p in (one, two, other)] == [0, 0, 0]
    workers = {s["pid"] for s in server.sessions() if s["identity"] == f"user {USER}"}
    (started,) = server.events("start")
    assert started[1] == "all" and server.daemons() == [int(started[0])]
    assert {int(pid) for (pid,) in server.events("client")} == workers
    shares = {s["identity"]: s["share"] for s in Asker(server.server).ask("status")["sessions"]}
    assert shares == {f"user {USER}": "mps", "address 127.0.0.1": "time"}
    (folder,) = server.folders()
    assert folder.stat().st_mode & 0o777 == 0o700
    environment = pathlib.Path(f"/proc/{workers.pop()}/environ").read_text(encoding="utf-8").split("\0")
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25" in environment and f"CUDA_MPS_LOG_DIRECTORY={folder}" in environment


def test_names_that_others_have_taken_are_not_in_the_way(mps):
    """Without a folder for the server at runtime, the folders are in /tmp, where others can guess its process id."""
    server = mps()
    for number in range(200):
        (pathlib.Path(server.run.name) / f"cricket-mps-{server.server.process.pid}-{number}").mkdir()
    program = server.start()
    assert ask(program, "use") == 0 and len(server.folders()) == 201
    finish(program)


def test_a_program_can_ask_for_a_part_of_the_multiprocessors(mps):
    server = mps()
    assert ask(server.start(CRICKET_SM="13%"), "sms") == SMS * 13 // 100
    assert ask(server.start(CRICKET_SM="50%"), "sms") == SMS // 4      # the policy gives less
    assert "CRICKET_SM: not a part of the multiprocessors as in 25%: 50" in server.refused(CRICKET_SM="50")
    assert '--sm (CRICKET_SM) needs share = "mps" in the server' in server.refused("tcp", CRICKET_SM="50%")


def test_the_daemon_ends_after_the_last_session_and_the_next_one_starts_another(mps):
    server = mps()
    one, two = server.start(), server.start()
    finish(one)
    finish(two)
    again = server.start()      # within the moment for which the daemon stays
    assert len(server.events("start")) == 1
    finish(again)
    wait_until(lambda: server.events("quit") and not server.daemons() and not server.folders(), 20, "the daemon ends")
    assert ask(server.start(), "use") == 0
    assert len(server.events("start")) == 2


def test_another_list_of_gpus_has_another_daemon(mps):
    uuid = "GPU-43726963-6b65-8074-8045-6d7547505500"
    server = mps(policy=f'identities: ( {{ user = "{USER}"; share = "mps"; }} );')
    server.start()
    server.policy.write_text(f'identities: ( {{ user = "{USER}"; share = "mps"; gpus = "{uuid}"; memory = "64M"; }} );')
    assert Asker(server.server).ask("reload")["ok"]
    assert ask(server.start(), "use") == 0
    assert [words[1] for words in server.events("start")] == ["all", uuid]
    assert len(server.daemons()) == 2
    environments = [pathlib.Path(f"/proc/{s['pid']}/environ").read_text(encoding="utf-8").split("\0") for s in server.sessions()]
    assert sorted("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1088M" in each for each in environments) == [False, True]


@pytest.mark.parametrize("mode", ["", "stubborn"])
def test_the_daemon_ends_with_the_server(mps, mode):
    server = mps(mode=mode)
    server.start()
    (daemon,) = server.daemons()
    servers = children_of(daemon)
    server.server.stop()
    wait_until(lambda: not any(map(is_alive, [daemon, *servers])) and not server.folders(), HANG, "the daemon has ended")


def test_a_daemon_that_dies_ends_its_sessions_with_their_reason(mps):
    server = mps()
    one, two, other = server.start(), server.start(), server.start("tcp")
    (daemon,) = server.daemons()
    (nvidia,) = children_of(daemon)
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: [s["identity"] for s in server.sessions()] == ["address 127.0.0.1"], 20, "its sessions end")
    assert ask(other, "use") == 0
    wait_until(lambda: not is_alive(nvidia) and not server.folders(), 20, "its processes and its folder are gone")
    assert server.server.log().count("its sessions end") == 1
    for process in (one, two):
        assert ask(process, "use") != 0
        process.stdin.close()
        assert GONE in process.stderr.read()
    assert (server.folder / "audit").read_text().count(GONE) == 2
    assert ask(server.start(), "use") == 0
    assert len(server.events("start")) == 2


def test_a_fault_ends_only_the_work_of_its_identity(mps):
    server = mps()
    one, two, other = server.start(), server.start(), server.start("tcp")
    assert ask(one, "fault") == 700     # ILLEGAL_ADDRESS
    assert ask(one, "use") == 700
    wait_until(lambda: server.events("fault"), 10, "the fault is seen")
    assert ask(two, "use") == 810       # MPS_CLIENT_TERMINATED
    assert ask(other, "use") == 0
    one.stdin.close()
    one.wait(HANG)
    late = server.begin()       # NVIDIA's server takes no client before the last one with the fault has ended
    wait_until(lambda: server.events("later"), 10, "it waits")
    two.stdin.close()
    two.wait(HANG)
    assert late.stdout.readline() == "ready\n" and ask(late, "use") == 0


def test_a_session_waits_until_the_daemon_takes_clients(mps):
    server = mps(mode="slow")
    assert ask(server.start(), "use") == 0
    assert len(server.events("later")) == 2


def test_a_daemon_that_does_not_start_refuses_sessions_with_its_reason(mps):
    server = mps(mode="fail")
    assert "NVIDIA MPS, which the policy asks for, did not start" in server.refused()
    assert "the last line of its log: no GPU here" in server.server.log()
    assert not server.folders() and not server.daemons()
    assert ask(server.start("tcp"), "use") == 0
    server.refused()
    assert len(server.events("start")) == 2


@pytest.mark.slow
def test_a_daemon_that_does_not_listen_is_killed(mps):
    server = mps(mode="deaf")
    assert "did not start" in server.refused()
    assert "does not listen after 10 s: killed" in server.server.log()
    assert not server.folders() and not server.daemons()


def test_a_server_without_the_program_refuses_sessions_by_name(mps):
    server = mps(control=False)
    words = "the policy shares the GPU through NVIDIA MPS, and the server has no nvidia-cuda-mps-control"
    assert words in server.refused()
    assert words in server.server.log()
    assert ask(server.start("tcp"), "use") == 0
    result = subprocess.run([SERVER, "--check-policy", server.policy], env=clean_env(PATH="/usr/bin"), capture_output=True,
                            text=True, timeout=HANG)
    assert result.returncode == 0 and "nvidia-cuda-mps-control is not on PATH" in result.stderr


def test_a_session_can_be_parked_but_not_suspended_written_or_moved(mps, tmp_path):
    server = mps("--suspend-idle", "3s")
    one, asker = server.start(), Asker(server.server)
    assert ask(one, "use") == 0
    (session,) = server.sessions()
    name = session["session"]
    for words in ({"command": "suspend"}, {"command": "checkpoint", "directory": str(tmp_path / "files")}):
        reply = asker.ask(session=name, **words)
        assert "MPS" in reply["error"] and "it can be parked" in reply["error"], reply
    reply = asker.ask("park", session=name)
    assert reply["ok"] and server.sessions()[0]["state"] == "parked", reply
    assert "it can be parked" in asker.ask("suspend", session=name)["error"]
    assert asker.ask("resume", session=name)["ok"]
    assert ask(one, "use") == 0
    wait_until(lambda: server.sessions()[0]["state"] == "parked", 20, "an idle session is parked")
    assert ask(one, "use") == 0


@needs_landlock
def test_confined_workers_reach_the_daemon(mps):
    server = mps("--confine", "none")
    assert ask(server.start(), "use") == 0
    assert len(server.events("client")) == 1


def test_an_upgrade_keeps_daemon_and_sessions(mps):
    server = mps()
    one, (daemon,) = server.start(), server.daemons()
    upgrade(server.server)
    assert ask(one, "use") == 0
    two = server.start()
    assert server.daemons() == [daemon] and len(server.events("start")) == 1
    upgrade(server.server)
    finish(one)
    finish(two)
    wait_until(lambda: server.events("quit") and not server.daemons() and not server.folders(), 20, "the daemon ends")


def test_a_killed_server_leaves_no_session_and_its_next_one_no_daemon(mps, tmp_path):
    server = mps("--state-dir", tmp_path / "state")
    server.start()
    (daemon,) = server.daemons()
    (nvidia,) = children_of(daemon)
    (session,) = server.sessions()
    server.server.process.kill()
    server.server.process.wait()
    wait_until(lambda: not is_alive(daemon) and not is_alive(session["pid"]), 10, "they end with the server")
    server.server = Server(tmp_path / "next", "--policy", server.policy, **server.environment)
    assert ask(server.start(), "use") == 0
    assert not is_alive(nvidia) and len(server.folders()) == 1
