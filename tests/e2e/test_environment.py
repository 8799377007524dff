"""tests/e2e/test_environment.py - the variables of CUDA, which the client has to heed; wrong ones of Cricket; CRICKET_TRACE=FILE."""
import os
import pty
import re
import shutil
import subprocess
import sys

import pytest

from conftest import DRIVER, EXPECTED, KIND, PRODUCTS, ROOT, SERVER, SLOW, Server, clean_env, client_env, over, run, with_words

NONE = ["cudaErrorNoDevice"]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A server with three emulated devices."""
    if DRIVER != "emu":
        pytest.skip("the number of devices is the emulated driver's")
    s = Server(tmp_path_factory.mktemp("three"), CRICKET_EMU="devices=3")
    yield s
    s.stop()


@pytest.fixture(params=["server", "direct"])
def devices(request, app):
    """devices("uuids", VARIABLE=...): what the program sees."""
    if request.param == "server":
        base = client_env(request.getfixturevalue("three").address("unix"))
    else:
        base = with_words(request.getfixturevalue("direct_env"), "CRICKET_EMU", "devices=3")

    def go(what="devices", **env):
        result = run([app("environment"), what], dict(base, **env))
        assert result.status == 0, result.err
        return result.out.split()
    return go


def test_a_program_with_other_rights_heeds_no_variable_of_its_user(tmp_path):
    """As the C library does with LD_PRELOAD: such a program must not run what CRICKET_SSH says."""
    program = tmp_path / "server"
    shutil.copy(SERVER, program)
    if os.getuid() != 0 or os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip("needs root, and a folder without nosuid")
    for mode, heeded in ((0o755, True), (0o2755, False)):
        os.chown(program, 0, 65534)
        program.chmod(mode)
        server = Server(tmp_path / str(heeded), "--driver", PRODUCTS / "libcuda-emu.so", "--cache-dir", tmp_path / "cache",
                        program=program, CRICKET_LOG="nonsense")
        try:
            assert ("nonsense" in server.log()) == heeded, server.log()
        finally:
            server.end()


def test_all_devices_are_seen_in_both_orders(devices):
    all_three = devices()
    assert len(set(all_three)) == 3
    assert devices(CUDA_DEVICE_ORDER="PCI_BUS_ID") == sorted(all_three)
    assert devices(CUDA_DEVICE_ORDER="FASTEST_FIRST") == all_three


def test_indices_and_uuids_choose_devices(devices):
    buses, uuids = devices(), devices("uuids")
    assert devices(CUDA_VISIBLE_DEVICES="2,0") == [buses[2], buses[0]]
    assert devices(CUDA_VISIBLE_DEVICES=f"{uuids[1]},0") == [buses[1], buses[0]]
    assert devices(CUDA_VISIBLE_DEVICES="1,7,0") == [buses[1]]


@pytest.mark.parametrize("chosen", ["", "-1", "GPU-ffffffff", "MIG-GPU-aabbccdd/1/0",
                                    "MIG-3eb87630-93d5-b2b6-b8ff-9b359caf4ee2"])
def test_a_list_without_a_device_is_no_device(devices, chosen):
    assert devices(CUDA_VISIBLE_DEVICES=chosen) == NONE


def test_a_mig_id_of_a_whole_gpu_names_it(devices):
    mig = devices("uuids")[0].replace("GPU-", "MIG-")
    assert devices(CUDA_VISIBLE_DEVICES=mig) == devices()[:1]


def test_a_device_named_twice_is_an_error(devices):
    assert devices(CUDA_VISIBLE_DEVICES="0,0") == ["cudaErrorInvalidDevice"]


@pytest.mark.parametrize("value, told", [("1", "cudaErrorIllegalAddress"), ("0", "cudaSuccess")])
def test_a_blocking_launch_tells_its_error_itself(server, app, value, told):
    env = client_env(server.address("unix"), CUDA_LAUNCH_BLOCKING=value)
    result = run([app("environment"), "fault"], env)
    assert result.out == f"at the launch: {told}; after: cudaErrorIllegalAddress\n", result.err
    if not KIND:    # with sanitizers the worker's stderr is theirs
        (line,) = result.lines_about("CUDA_ERROR_ILLEGAL_ADDRESS")
        assert line.startswith("cricket: cu") and re.search(r"Cause: kernel \S*\w+, block 0,0,0, thread 0,0,0: ", line), line


def test_a_blocking_launch_into_a_capture_does_not_wait(server, app):
    result = run([app("graph_modes")], client_env(server.address("unix"), CUDA_LAUNCH_BLOCKING="1"))
    assert result.status == 0, result.err
    assert result.out == (EXPECTED / "graph_modes.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("value, mode", [("EAGER", "eager"), ("LAZY", "lazy"), (None, "lazy")])
def test_the_mode_of_loading_is_what_was_asked_for(server, app, value, mode):
    env = client_env(server.address("unix"), **({"CUDA_MODULE_LOADING": value} if value else {}))
    assert run([app("environment"), "loading"], env).out == mode + "\n"


ASK = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"


def test_wrong_variables_give_one_line_each(server):
    wrong = {"REMOTE_GPU_ADDRES": "gpuhost", "CRICKET_STATZ": "1", "CRICKET_OTHER_THING": "1", "CRICKET_TIMEOUT": "abc",
             "CRICKET_RESUME": "5x", "CRICKET_WAIT": "soon", "CRICKET_WEIGHTS": "o", "CRICKET_LOST": "zero", "CRICKET_POOL": "ANY"}
    result = run([sys.executable, "-c", ASK], client_env(server.address("tcp"), **wrong))
    assert (result.status, result.out) == (0, "0\n")
    assert all(line.startswith("cricket: WARNING: ") for line in result.err.splitlines())
    lines = sorted(line.split("WARNING: ")[1] for line in result.err.splitlines())
    assert lines == ["CRICKET_LOST=zero is not one of sigbus, zeros: the default, sigbus is used",
                     "CRICKET_POOL=ANY is not one of all, any: the default, all is used",
                     "CRICKET_RESUME=5x is not a time: the default, 60s is used",
                     "CRICKET_TIMEOUT=abc is not a number: the default, 10 is used",
                     "CRICKET_WAIT=soon is not a time: the default, 0 is used",
                     "CRICKET_WEIGHTS=o is not one of auto, on, off: the default, auto is used",
                     "unknown variable CRICKET_OTHER_THING",
                     "unknown variable CRICKET_STATZ; did you mean CRICKET_STATS?",
                     "unknown variable REMOTE_GPU_ADDRES; did you mean REMOTE_GPU_ADDRESS?"]


def test_right_variables_give_no_line(server):
    table = run([SERVER, "--help-env"], clean_env()).out
    names = [n for n in re.findall(r"^([A-Z][A-Z0-9_]+)", table, re.M) if n.startswith("CRICKET_")]
    fine = {n: "" for n in names if n not in ("CRICKET_LOG_FD",)}
    fine.update(CRICKET_TEST_X="1", CRICKET_LOADER_X="1", CRICKET_CACHE_SIZE="4G", CRICKET_RESUME="5m")
    result = run([sys.executable, "-c", ASK], client_env(server.address("tcp"), **fine))
    assert (result.status, result.out, result.err) == (0, "0\n", "")


def test_old_variables_and_wrong_words_have_one_line_each_in_the_program(server):
    result = run([sys.executable, "-c", ASK], client_env(server.address("tcp"), CRICKET_SPLICE="0", CRICKET_DEBUG="no-shm,no-aren,spin=x", CRICKET_EMU_MEMORY="1G"))
    assert (result.status, result.out) == (0, "0\n")
    assert sorted(line.split("WARNING: ")[1] for line in result.err.splitlines()) == [
        "CRICKET_DEBUG: spin=x is not a number",
        "CRICKET_DEBUG: unknown word no-aren; did you mean no-arena?",
        "CRICKET_SPLICE is an old name, which the next release ignores: set CRICKET_DEBUG=no-splice"]


@pytest.mark.skipif(DRIVER != "emu", reason="the number of devices is the emulated driver's")
def test_an_emulated_gpu_without_a_server_reports_wrong_words(app, direct_env):
    result = run([app("environment"), "devices"], with_words(direct_env, "CRICKET_EMU", "devices=2,mem=1G"))
    assert len(result.out.split()) == 2
    assert [line.split("WARNING: ")[1] for line in result.err.splitlines()] == ["CRICKET_EMU: unknown word mem"]


@pytest.mark.skipif(DRIVER != "emu", reason="the number of devices is the emulated driver's")
def test_an_old_variable_works_and_has_one_line(tmp_path, app):
    old = Server(tmp_path / "server", CRICKET_EMU_DEVICES="2")
    try:
        for _ in range(2):
            result = run([app("environment"), "devices"], client_env(old.address("unix"), CRICKET_EMU_DEVICES="2"))
            assert (len(result.out.split()), result.err) == (2, "")
        (line,) = [line for line in old.log().splitlines() if "CRICKET_EMU_DEVICES" in line]
        assert line.endswith("CRICKET_EMU_DEVICES is an old name, which the next release ignores: set CRICKET_EMU=devices=2")
    finally:
        old.end()


def test_a_trace_goes_into_a_file(server, tmp_path):
    env = client_env(server.address("tcp"), CRICKET_TRACE=str(tmp_path / "trace"))
    for _ in range(2):
        result = run([sys.executable, "-c", ASK + "\nctypes.CDLL(None).cuDevicePrimaryCtxRetain("
                      "ctypes.byref(ctypes.c_void_p()), 0)"], env)
        assert (result.status, result.err) == (0, "")
    lines = (tmp_path / "trace").read_text().splitlines()
    assert lines and all(re.fullmatch(r"cricket: -> .* \{pid \d+ thread \d+ ns \d+ took \d+ bytes \d+\}", line)
                         for line in lines)
    assert sum("ck_primary_retain" in line for line in lines) == 2
    result = run([sys.executable, "-c", ASK], client_env(server.address("tcp"), CRICKET_TRACE="/no/where"))
    assert result.out == "0\n" and "CRICKET_TRACE=/no/where: No such file or directory" in result.err


UPLOADS = """
import ctypes, os
c = ctypes.CDLL("libcuda.so.1")
context, memory, data = ctypes.c_void_p(), ctypes.c_uint64(), os.urandom(1 << 20)
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert c.cuCtxSetCurrent(context) == 0 and c.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
for i in range(7):
    assert c.cuMemcpyHtoD_v2(memory, data, ctypes.c_size_t(1 << 20)) == 0
assert c.cuCtxSynchronize() == 0
"""


def test_a_long_upload_says_so_on_a_terminal_only(server):
    env = client_env(server.address("tcp"), CRICKET_DEBUG="no-compress", **over("bw=8M"))
    terminal, theirs = pty.openpty()
    try:
        command = [sys.executable, "-c", UPLOADS]
        with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs) as shown, \
                subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE) as piped:
            assert piped.communicate(timeout=120 * SLOW)[1] == b""
            assert (piped.returncode, shown.wait(120 * SLOW)) == (0, 0)
        said = os.read(terminal, 10000).decode()
        assert re.match(r"cricket: sending to the GPU server: \d+\.\d MB in \d+ s, \d+\.\d MB/s\r\n", said), said
    finally:
        os.close(terminal)
        os.close(theirs)


# Its kernel reads address 16. The argument: `CDLL` gives Python's lock up for a call, `PyDLL` keeps it.
FAULTS = """
import ctypes, pathlib, sys, threading
cuda = getattr(ctypes, sys.argv[1])("libcuda.so.1")
def check(err):
    assert err == 0, err
def launch(function):
    data, n = ctypes.c_uint64(16), ctypes.c_uint32(4)
    params = (ctypes.c_void_p * 2)(ctypes.addressof(data), ctypes.addressof(n))
    return cuda.cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, None, params, None)
def step(function):
    return launch(function)
context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuInit(0)), check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)), check(cuda.cuCtxSetCurrent(context))
check(cuda.cuModuleLoadData(ctypes.byref(module), pathlib.Path("PTX").read_bytes() + bytes(1)))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"add_one"))
"""
CALLS_IT = "print(step(function), launch(function))"
# While the launch waits, another thread takes the lock, lets the kernel run and keeps the lock for longer than the client waits.
KEEPS_THE_LOCK = """
sys.setswitchinterval(1000)
locked, free = ctypes.PyDLL(None), ctypes.CDLL(None)
launching, kept = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
for semaphore in (launching, kept):
    check(free.sem_init(semaphore, 0, 0))
def keep():
    free.sem_wait(launching)
    locked.sem_post(kept)
    locked.sleep(3)
keeper = threading.Thread(target=keep)
keeper.start()
check(cuda.cuLaunchHostFunc(None, ctypes.cast(free.sem_wait, ctypes.c_void_p), kept))
locked.sem_post(launching)
print(step(function))
keeper.join()
"""


def faults(server, code, library, **env):
    source = FAULTS.replace("PTX", str(ROOT / "docs/examples/add_one.ptx")) + code
    return run([sys.executable, "-c", source, library], client_env(server.address("unix"), **env))


@pytest.mark.parametrize("library", ["CDLL", "PyDLL"])
def test_a_failed_kernel_is_reported_with_the_line_that_launched_it(server, library):
    result = faults(server, CALLS_IT, library, CUDA_LAUNCH_BLOCKING="1")
    assert result.out == "700 700\n", result.err
    lines = FAULTS.splitlines()
    at = [lines.index(line) + 1 for line in lines if "cuLaunchKernel" in line or "return launch" in line]
    (line,) = result.lines_about("the failed kernel was launched")
    assert line.endswith(f"launched at <string>:{at[0]} in launch, called at <string>:{at[1]} in step, "
                         f"called at <string>:{len(lines) + 1} in <module>")
    assert KIND or len(result.lines_about("illegal address 0x10")) == 1     # with sanitizers the worker's stderr is theirs


def test_without_blocking_launches_the_line_is_not_known(server):
    result = faults(server, "step(function)\nprint(cuda.cuCtxSynchronize())", "CDLL")
    assert result.out == "700\n" and not result.lines_about("was launched at")


def test_a_lock_of_python_that_is_not_free_is_given_up(server):
    result = faults(server, KEEPS_THE_LOCK, "CDLL", CUDA_LAUNCH_BLOCKING="1", CRICKET_LOG="client:debug")
    assert result.out == "700\n"
    assert result.lines_about("Python's lock is not free") and not result.lines_about("was launched at")


def test_a_program_that_is_no_python_gets_no_line(server, app):
    result = run([app("fault")], client_env(server.address("unix"), CUDA_LAUNCH_BLOCKING="1"))
    assert not result.lines_about("was launched at"), result.err
