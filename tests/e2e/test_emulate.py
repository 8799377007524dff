"""tests/e2e/test_emulate.py - `cricket run -s emu`: a server with the emulated GPU that lives as long as its program."""
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys

import pytest

from conftest import DRIVER, PRODUCTS, ROOT, SLOW, children_of, command_env, ended, is_alive, start, state_and_parent, wait_until, with_words

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="starts the emulated GPU itself")

CRICKET = PRODUCTS / "cricket"
# Uses the GPU, prints where it is, and goes on until its input ends.
PROGRAM = """
import ctypes, os, sys
driver, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(driver.cuInit(0), driver.cuDeviceGetCount(ctypes.byref(n)), n.value, os.getpid(), os.environ["REMOTE_GPU_ADDRESS"], flush=True)
sys.stdin.read()
"""


@pytest.fixture(name="env")
def fixture_env(tmp_path):
    """The environment of a user without a configuration; the folders of the servers are in RUN."""
    (tmp_path / "run").mkdir()
    return command_env(XDG_CONFIG_HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path / "run"))


def emulate(env, *command, cricket=CRICKET, options=()):
    return ended(start([cricket, "run", "-s", "emu", *options, "--", *command], env), 60)


class Running:
    """PROGRAM on an emulated GPU of its own."""

    def __init__(self, env, **options):
        self.process = subprocess.Popen([CRICKET, "run", "-s", "emu", "--", sys.executable, "-c", PROGRAM], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options,
                                        # a script's background processes ignore it, and so may these tests
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        words = self.process.stdout.readline().split()
        assert words[:4] == ["0", "0", "1", str(self.process.pid)], words
        self.socket = pathlib.Path(words[4].removeprefix("shm:"))
        self.folder = self.socket.parent
        self.server, = servers_at(self.socket)

    def is_gone(self):
        return not is_alive(self.server) and not self.folder.exists()


def servers_at(socket):
    """The servers that were started with this socket. Their children have the same arguments until they have others."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[:1] == ["cricket-rpc-server"] and str(socket) in words and is_alive(int(entry.parent.name)):
            found.append(int(entry.parent.name))
    return [pid for pid in found if state_and_parent(pid)[1] not in found]


@pytest.mark.quick
def test_a_program_finds_an_emulated_gpu_and_its_status_is_returned(env):
    done = emulate(env, sys.executable, "-c", PROGRAM + "sys.exit(7)")
    assert (done.status, done.out.split()[:3]) == (7, ["0", "0", "1"]), done.err
    wait_until(lambda: not os.listdir(env["XDG_RUNTIME_DIR"]), 20, "the server's folder is gone")


def test_only_its_user_reaches_the_server_and_not_over_tcp(env):
    program = Running(env)
    assert stat.S_IMODE(program.folder.stat().st_mode) == 0o700
    inodes = {os.readlink(fd) for fd in pathlib.Path(f"/proc/{program.server}/fd").iterdir() if fd.is_symlink()}
    with open("/proc/net/tcp", encoding="ascii") as four, open("/proc/net/tcp6", encoding="ascii") as six:
        listening = {f"socket:[{line.split()[9]}]" for line in (*four, *six) if line.split()[3] == "0A"}
    assert not inodes & listening
    program.process.communicate(timeout=60 * SLOW)
    wait_until(program.is_gone, 20, "server and folder are gone")


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_server_ends_with_the_program(env, number):
    program = Running(env)
    if number is not None:
        program.process.send_signal(number)
    program.process.communicate(timeout=60 * SLOW)
    assert program.process.returncode == (-number if number else 0)
    wait_until(program.is_gone, 20, "server and folder are gone")


def test_the_server_ends_if_its_keeper_is_killed(env):
    program = Running(env)
    keeper = int(pathlib.Path(f"/proc/{program.server}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: not is_alive(program.server), 20, "the server is gone")
    program.process.communicate(timeout=60 * SLOW)


def test_an_interrupt_of_the_terminal_leaves_the_server_to_the_program(env):
    """A program may clean up its GPU after Ctrl-C, which the terminal sends to all processes of its group."""
    program = Running(env, start_new_session=True)
    os.kill(program.process.pid, signal.SIGSTOP)
    os.killpg(program.process.pid, signal.SIGINT)
    assert os.getpgid(program.server) != program.process.pid and is_alive(program.server)
    os.kill(program.process.pid, signal.SIGCONT)
    program.process.communicate(timeout=60 * SLOW)
    wait_until(program.is_gone, 20, "server and folder are gone")


def test_two_at_once_have_servers_of_their_own(env):
    first, second = Running(env), Running(env)
    assert first.socket != second.socket and first.server != second.server
    first.process.communicate(timeout=60 * SLOW)
    wait_until(first.is_gone, 20, "the first server is gone")
    assert is_alive(second.server) and second.socket.exists()
    second.process.communicate(timeout=60 * SLOW)
    wait_until(second.is_gone, 20, "the second server is gone")


def test_the_program_has_no_child_to_wait_for(env):
    program = Running(env)
    assert children_of(program.process.pid) == []
    program.process.communicate(timeout=60 * SLOW)


def test_what_selects_gpus_is_for_the_program_and_not_for_the_server(env):
    done = emulate({**with_words(env, "CRICKET_EMU", "devices=2"), "CUDA_VISIBLE_DEVICES": "1,0"}, sys.executable, "-c", PROGRAM)
    assert done.out.split()[:3] == ["0", "0", "2"], done.err


def test_settings_for_ptx_give_way_to_those_of_the_user(env):
    program = "import os; print([os.environ.get(n) for n in ('CUPY_COMPILE_WITH_PTX', 'CUPY_ACCELERATORS')])"
    assert emulate(env, sys.executable, "-c", program).out == "['1', '']\n"
    assert emulate({**env, "CUPY_ACCELERATORS": "cub"}, sys.executable, "-c", program).out == "['1', 'cub']\n"


# As Triton does: PTX goes through the assembler, and what that writes is loaded.
ASSEMBLE = """
import ctypes, os, pathlib, subprocess, sys
tool, folder = os.environ["TRITON_PTXAS_PATH"], pathlib.Path(sys.argv[1])
print("release 12.8," in subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout)
(folder / "k.ptx").write_text(".version 8.0\\n.target sm_90a\\n.address_size 64\\n.visible .entry nothing() { ret; }\\n")
subprocess.run([tool, "-lineinfo", "-v", "--gpu-name=sm_90a", folder / "k.ptx", "-o", folder / "k.cubin"], check=True)
c, context, module, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and c.cuCtxSetCurrent(context) == 0
assert c.cuModuleLoadData(ctypes.byref(module), (folder / "k.cubin").read_bytes()) == 0
assert c.cuModuleGetFunction(ctypes.byref(function), module, b"nothing") == 0
print(c.cuLaunchKernel(function, *[1] * 6, 0, None, None, None), c.cuCtxSynchronize())
"""


def test_what_the_assembler_writes_can_be_launched(env, tmp_path):
    done = emulate(env, sys.executable, "-c", ASSEMBLE, tmp_path)
    assert done.out == "True\n0 0\n" and done.err == ""


@pytest.mark.parametrize("arguments", [["-o", "out"], ["no-such.ptx", "-o", "out"], ["in.ptx", "-o", "no-such-folder/out"], []])
def test_the_assembler_names_what_it_cannot_read_or_write(env, tmp_path, arguments):
    (tmp_path / "in.ptx").write_text("")
    command = f'cd {tmp_path} && exec "$TRITON_PTXAS_PATH" "$@"'
    done = emulate(env, "sh", "-c", command, "sh", *arguments)
    assert done.status == 1 and len(done.err.splitlines()) == 1 and "cricket: ptxas: " in done.err


def test_the_assembler_of_the_user_stays(env):
    done = emulate({**env, "TRITON_PTXAS_PATH": "/mine"}, "sh", "-c", "echo $TRITON_PTXAS_PATH")
    assert done.out == "/mine\n"


def test_a_long_folder_is_passed_over(env, tmp_path):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    done = emulate({**env, "XDG_RUNTIME_DIR": str(long), "TMPDIR": env["XDG_RUNTIME_DIR"]}, sys.executable, "-c", PROGRAM)
    assert done.status == 0, done.err


@pytest.mark.parametrize("missing", ["cricket-rpc-server", "libcuda-emu.so"])
def test_a_missing_file_is_named(env, tmp_path, missing):
    shutil.copy(CRICKET, tmp_path / "cricket-copy")
    for name in {"cricket-rpc-server", "libcuda-emu.so"} - {missing}:
        shutil.copy(PRODUCTS / name, tmp_path / name)
    done = emulate(env, "true", cricket=tmp_path / "cricket-copy")
    assert done.status == 1 and len(done.err.splitlines()) == 1, done.err
    assert f"there is no {missing}" in done.err and "install" in done.err


def test_a_server_that_cannot_start_is_an_error(env, tmp_path):
    shutil.copy(CRICKET, tmp_path / "cricket-copy")
    (tmp_path / "libcuda-emu.so").write_text("")
    (tmp_path / "cricket-rpc-server").write_text("#!/bin/sh\necho 'no luck today' >&2\nexit 3\n")
    (tmp_path / "cricket-rpc-server").chmod(0o755)
    done = emulate(env, "true", cricket=tmp_path / "cricket-copy")
    assert done.status == 1 and "no luck today" in done.err and "did not start" in done.err
    wait_until(lambda: not os.listdir(env["XDG_RUNTIME_DIR"]), 20, "the folder is gone")


def test_a_section_of_this_name_is_a_server_like_others(env, server, tmp_path):
    (tmp_path / "cricket").mkdir()
    (tmp_path / "cricket" / "config").write_text(f"[emu]\naddress = {server.address('tcp')}\n")
    done = emulate(env, sys.executable, "-c", PROGRAM)
    assert done.out.split()[4] == server.address("tcp"), done.err


@pytest.mark.parametrize("words", [["env"], ["check"], ["status"], ["servers"]])
def test_other_commands_say_what_emu_is_for(env, words):
    done = ended(start([CRICKET, *words, "-s", "emu"], env), 60)
    assert done.status != 0 and "cricket run" in done.err and "emu:9909" in done.err, done.err


def test_wrong_variables_are_reported_once(env):
    env = env | {"CRICKET_LOG": "bogus", "CRICKET_TIMOUT": "3", "CRICKET_RESUME": "x", "CRICKET_EMU": "devices=2"}
    done = emulate(env, sys.executable, "-c", PROGRAM)
    assert done.out.split()[:3] == ["0", "0", "2"], done
    for wrong in ("CRICKET_LOG=", "CRICKET_TIMOUT", "CRICKET_RESUME"):
        assert len([line for line in done.err.splitlines() if wrong in line]) == 1, (wrong, done.err)
    assert "INFO" not in done.err, done.err


def test_a_program_can_do_without_shared_memory(env):
    done = emulate(env | {"CRICKET_DEBUG": "no-shm"}, sys.executable, "-c", PROGRAM)
    assert done.out.split()[:3] == ["0", "0", "1"] and done.out.split()[4].startswith("unix:/"), done


@pytest.mark.parametrize("linker", [False, True])
def test_machine_code_that_a_program_has_made_is_explained(tmp_path, env, linker):
    """As Numba with nvJitLink does; the line names the page with the settings."""
    (tmp_path / "empty.c").write_text("")
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", tmp_path / "libnvJitLink.so.13", tmp_path / "empty.c"], check=True)
    program = f"""
import ctypes
{f'ctypes.CDLL({str(tmp_path / "libnvJitLink.so.13")!r})' if linker else ''}
c, module, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and c.cuCtxSetCurrent(context) == 0
code = open({str(ROOT / "tests" / "data" / "elf" / "big_sm_90.cubin")!r}, "rb").read()
assert [c.cuModuleLoadData(ctypes.byref(module), code) for _ in range(2)] == [209, 209]
"""
    done = ended(start([CRICKET, "run", "-s", "emu", "--", sys.executable, "-c", program], env), 60)
    lines = [line for line in done.err.splitlines() if "runs only PTX" in line]
    assert done.status == 0 and len(lines) == 1 and "this program has made machine code" in lines[0] and "docs/emulator.md" in lines[0], done.err
    assert ("nvJitLink" in lines[0]) == linker, done.err
