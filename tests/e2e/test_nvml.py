"""tests/e2e/test_nvml.py - NVML from the same server: by every way a program finds the library, beside
the driver, before a fork, and without a server."""
import importlib.util
import subprocess
import sys

import pytest

from conftest import APPS, DRIVER, HANG, PRODUCTS, ROOT, TRANSPORTS, Server, client_env, preload, run, runtime, wait_until
from ports import free_port

sys.path.insert(0, str(ROOT / "tools"))
from api.nvml_table import NvmlTable  # noqa: E402

SECOND = PRODUCTS / "libnvidia-ml.so.1"
FOLDER = PRODUCTS / "lib"
POOL_PROGRAM = ROOT / "tests" / "e2e" / "pool_program.py"
PROMISED = "NVML: 0 not as promised\n"
HEAD = """
import ctypes, os, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
def handle(index=0):
    h = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(h)) == 0
    return h
def cuda_count():
    cuda, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    return cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(n)), n.value
"""


def ways(address):
    """Environments in which a program finds NVML when it asks for it."""
    yield client_env(address)
    if not runtime():  # a sanitizer finds the true XDR only in what is loaded at the start
        yield client_env(address, LD_PRELOAD="", LD_LIBRARY_PATH=str(FOLDER))


def python(code, env, timeout=60):
    return run([sys.executable, "-c", HEAD + code], env, timeout)


@pytest.mark.parametrize("argument", ([], ["fork"]), ids=("here", "fork"))
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nvml_and_the_driver_tell_the_same(server, app, transport, argument):
    program = app("nvml")
    for env in ways(server.address(transport)):
        result = run([program, *argument], env)
        assert (result.out, result.status) == (PROMISED, 0), result.err
        assert result.err == ""
        server.wait_idle()      # or its end frees memory while the next one measures


@pytest.mark.skipif(DRIVER != "emu", reason="needs no server")
def test_the_emulated_driver_has_nvml_too(app, direct_env):
    result = run([app("nvml")], direct_env)
    assert (result.out, result.status) == (PROMISED, 0), result.err


# Each call that can fail, first before the start and then with nothing but zeros, as programs of all kinds may.
EVERY_CALL = """
def results(rows):
    return {name: getattr(nvml, name)(*[ctypes.c_void_p(0)] * count) for name, count, _ in rows}
before = results(ROWS)
assert set(before.values()) <= {1, 2}, before      # not started, or the argument is wrong
assert nvml.nvmlInit_v2() == 0
expected = {"refuse": {3}, "deny": {4}, "call": {2, 3}}
after = results(ROWS)
print([(name, after[name]) for name, _, kind in ROWS if after[name] not in expected[kind]])
"""


def every_call():
    """Name, number of arguments and kind of what can be called with zeros."""
    rows = NvmlTable("nvml.api", (ROOT / "rpc" / "nvml.api").read_text(encoding="utf-8")).rows
    by_name = {r.name: r for r in rows}
    for row in rows:
        target = by_name.get(row.target, row)
        count = 0 if "(void)" in target.prototype() else target.prototype().count(",") + 1
        if "Init" not in row.name and row.name not in ("nvmlShutdown", "nvmlErrorString", "nvmlInternalGetExportTable"):
            yield row.name, count, {"refuse": "refuse", "deny": "deny"}.get(row.kind, "call")


@pytest.mark.skipif(DRIVER != "emu", reason="asks the emulated driver's own NVML")
@pytest.mark.parametrize("where", ["direct", "remote"])
def test_every_call_has_a_result_in_both_libraries(server, direct_env, where):
    env = direct_env if where == "direct" else client_env(server.address("tcp"))
    result = python(f"ROWS = {list(every_call())}\n" + EVERY_CALL, env)
    assert (result.out, result.status) == ("[]\n", 0), result.err


# hashcat asks with the first versions; PyTorch looks up all of these when it is out of memory, and calls some.
FIRST_VERSIONS = """
h, count, pid, kind = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint(16), ctypes.c_int()
room, pci, text = (ctypes.c_uint64 * 64)(), ctypes.create_string_buffer(b"x" * 68, 68), ctypes.create_string_buffer(96)
print(nvml.nvmlInit(), nvml.nvmlDeviceGetCount(ctypes.byref(count)), count.value > 0)
print(nvml.nvmlDeviceGetHandleByIndex(0, ctypes.byref(h)), nvml.nvmlDeviceGetPciInfo(h, pci), pci.raw[32:] == b"x" * 36)
print(nvml.nvmlDeviceGetPciInfo_v2(h, pci), pci.raw[36:] == b"x" * 32, nvml.nvmlDeviceGetHandleByPciBusId(pci, ctypes.byref(h)))
print(nvml.nvmlDeviceGetComputeRunningProcesses_v2(h, ctypes.byref(pid), room),
      nvml.nvmlDeviceGetNvLinkRemoteDeviceType(h, 0, ctypes.byref(kind)),
      nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(h, 0, pci), nvml.nvmlDeviceGetNvLinkRemotePciInfo(h, 0, pci))
print(nvml.nvmlDeviceGetFanSpeed(h, ctypes.byref(count)), nvml.nvmlDeviceGetTemperatureThreshold(h, 0, ctypes.byref(count)),
      nvml.nvmlDeviceGetCurrPcieLinkWidth(h, ctypes.byref(count)))
events = ctypes.c_void_p()
print(nvml.nvmlEventSetCreate(ctypes.byref(events)), nvml.nvmlEventSetWait(events, room, 1), nvml.nvmlEventSetFree(events))
"""


@pytest.mark.skipif(DRIVER != "emu", reason="knows what the emulated driver's NVML does not support")
@pytest.mark.parametrize("where", ["direct", "remote"])
def test_the_first_versions_of_calls_and_those_that_are_not_supported(server, direct_env, where):
    env = direct_env if where == "direct" else client_env(server.address("tcp"))
    result = python(FIRST_VERSIONS, env)
    assert result.out == "0 0 True\n0 0 True\n0 True 0\n0 3 3 3\n3 3 3\n0 10 0\n", result.err


@pytest.mark.parametrize("argument", ([], ["fork"]), ids=("here", "fork"))
def test_a_program_that_is_linked_with_nvml_finds_it(server, app, argument):
    program, address = app("nvml_linked"), server.address("unix")
    for env in (client_env(address, LD_PRELOAD=f"{preload()}:{SECOND}"),
                client_env(address, LD_PRELOAD=runtime(), LD_LIBRARY_PATH=str(FOLDER))):
        result = run([program, *argument], env)
        assert (result.out, result.status) == (PROMISED, 0), result.err


def test_other_programs_are_not_disturbed():
    for command in (["ls", "/"], ["bash", "-c", "echo one | cat"]):
        alone = run(command, client_env(None, LD_PRELOAD=""))
        result = run(command, client_env(f"127.0.0.1:{free_port()}"))
        assert (result.status, result.out, result.err) == (0, alone.out, "")


def test_without_a_server_the_driver_is_not_loaded():
    result = python("print(nvml.nvmlInit_v2(), nvml.nvmlInitWithFlags(1), nvml.nvmlShutdown())",
                    client_env(f"127.0.0.1:{free_port()}"))
    assert result.out == "9 9 1\n"
    assert len(result.err.splitlines()) == 1, result.err


def test_the_name_can_be_left_to_others():
    code = "import ctypes\ntry:\n ctypes.CDLL('libnvidia-ml.so.1')\nexcept OSError: print('none')"
    plain = run([sys.executable, "-c", code], client_env(None, LD_PRELOAD="")).out
    result = run([sys.executable, "-c", code], client_env(None, CRICKET_DEBUG="no-nvml"))
    assert (result.status, result.out) == (0, plain), result.err


def test_what_changes_a_gpu_is_not_permitted(server):
    result = python("""
assert nvml.nvmlInit_v2() == 0
h = handle()
print(nvml.nvmlDeviceSetPowerManagementLimit(h, 1), nvml.nvmlDeviceSetComputeMode(h, 2),
      nvml.nvmlDeviceResetGpuLockedClocks(h), nvml.nvmlDeviceSetMigMode(h, 1, None))
print(nvml.nvmlSystemEventSetCreate(None), nvml.nvmlGpmSampleAlloc(None))
print(nvml.nvmlShutdown(), nvml.nvmlDeviceSetComputeMode(h, 2))
""", client_env(server.address("unix")))
    assert (result.out, result.err) == ("4 4 4 4\n3 3\n0 1\n", "")


@pytest.mark.skipif(DRIVER != "emu", reason="needs two devices")
def test_devices_are_chosen_when_the_driver_starts(tmp_path):
    """Programs ask NVML for a free GPU, and then name it in CUDA_VISIBLE_DEVICES."""
    server = Server(tmp_path / "server", CRICKET_EMU="devices=2")
    try:
        result = python("""
n = ctypes.c_uint()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(n)) == 0
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
print(n.value, cuda_count(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(n)), n.value)
""", client_env(server.address("unix")))
        assert result.out == "2 (0, 0, 1) 0 2\n", result.err
    finally:
        server.stop()


@pytest.mark.skipif(DRIVER != "emu", reason="needs three devices")
@pytest.mark.parametrize("visible, chosen, expected", [(None, "", "012"), (None, "/1", "1"), (None, "/2,0", "20"),
                                                       ("2,0", "", "20"), ("2,0", "/1", "0"), ("1", "", "1")])
def test_nvml_lists_the_devices_that_cuda_has(tmp_path, visible, chosen, expected):
    """PyTorch counts devices by NVML, and uses them by CUDA."""
    more = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    server = Server(tmp_path / "server", CRICKET_EMU="devices=3", **more)
    try:
        env = client_env(server.address("tcp") + chosen)
        by = {case: run([sys.executable, POOL_PROGRAM, case], env) for case in ("nvml", "show")}
        shown = [line.split() for line in by["nvml"].out.splitlines()[:-1]]
        cuda = [line.split() for line in by["show"].out.splitlines()[:-1]]
        assert [(a[0], a[2].removeprefix("GPU-").replace("-", "")) for a in shown] == [(b[0], b[2]) for b in cuda], by["nvml"].err
        assert "".join(a[2][-1] for a in shown) == expected
    finally:
        server.stop()


@pytest.mark.skipif(DRIVER != "emu", reason="needs two devices")
def test_a_gpu_that_cuda_lacks_is_not_found_by_its_address(tmp_path):
    server = Server(tmp_path / "server", CRICKET_EMU="devices=2", CUDA_VISIBLE_DEVICES="1")
    try:
        result = python("""
h = ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0
print([nvml.nvmlDeviceGetHandleByPciBusId_v2(f"0000:0{bus}:00.0".encode(), ctypes.byref(h)) for bus in (1, 2)])
""", client_env(server.address("tcp")))
        assert result.out == "[6, 0]\n", result.err
    finally:
        server.stop()


def test_a_device_that_the_server_lacks_is_none_of_nvmls(server):
    result = python("""
h, n = ctypes.c_void_p(), ctypes.c_uint()
print(nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(h)))
""", client_env(server.address("tcp") + "/60"))
    assert (result.status, result.out) == (0, "2\n"), result.err


@pytest.mark.skipif(DRIVER != "emu", reason="containers hide processes from the real NVML")
def test_a_program_finds_itself_among_the_processes(tmp_path):
    """Memory counts in units of 2 MiB, as the driver gives it."""
    # a table of its own, so that a worker that is still ending does not count
    server = Server(tmp_path / "server", "--lease", "0", CRICKET_EMU=f"usage={tmp_path}/usage")
    result = python("""
assert nvml.nvmlInit_v2() == 0 and cuda_count()[0] == 0
cuda, c, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0)
cuda.cuCtxSetCurrent(c)
assert cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(3 << 20)) == 0
n, infos, name = ctypes.c_uint(0), (ctypes.c_uint64 * 30)(), ctypes.create_string_buffer(64)
call = nvml.nvmlDeviceGetComputeRunningProcesses_v3
print(call(handle(), ctypes.byref(n), None), n.value)
n.value = 10
print(call(handle(), ctypes.byref(n), infos), n.value, infos[0] == os.getpid(), infos[1] >> 20)
print(nvml.nvmlSystemGetProcessName(os.getpid(), name, 64), name.value in sys.executable.encode())
print(nvml.nvmlSystemGetProcessName(os.getpid(), name, 2))
""", client_env(server.address("unix")))
    server.stop()
    assert result.out == "7 1\n0 1 True 4\n0 True\n7\n", result.err


def test_a_server_that_ends_loses_the_gpu(own_server):
    result = python(f"""
import signal, time
assert nvml.nvmlInit_v2() == 0
h, n = handle(), ctypes.c_uint()
os.kill({own_server.process.pid}, signal.SIGKILL)
time.sleep(1)
print(nvml.nvmlDeviceGetIndex(h, ctypes.byref(n)), nvml.nvmlDeviceGetIndex(h, ctypes.byref(n)))
print(nvml.nvmlShutdown())
""", client_env(own_server.address("unix")))
    assert (result.status, result.out) == (0, "15 15\n0\n"), result.err
    assert len(result.lines_about("is lost")) == 1


@pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="nvidia-ml-py is not there")
def test_pynvml_works(server):
    result = run([sys.executable, "-c", """
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h))) == 0
assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(h).busId)) == 0
assert n.nvmlDeviceGetMemoryInfo(h).total == n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).total
assert n.nvmlDeviceGetTemperatureV(h, n.NVML_TEMPERATURE_GPU) > 0
assert n.nvmlDeviceGetUtilizationRates(h).gpu <= 100
n.nvmlDeviceGetComputeRunningProcesses(h)
print(n.nvmlDeviceGetName(h), n.nvmlSystemGetDriverVersion(), n.nvmlDeviceGetCount())
n.nvmlShutdown()
"""], client_env(server.address("unix")))
    assert result.status == 0 and result.out, result.err


# Takes memory, says so, and stays; then tells of each process: its MiB, and whether it is this one.
USER = HEAD + """
import time
cuda, c, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert nvml.nvmlInit_v2() == 0 and cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0) == 0 and cuda.cuCtxSetCurrent(c) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(int(sys.argv[1]) << 20)) == 0
free, total, memory = ctypes.c_size_t(), ctypes.c_size_t(), (ctypes.c_uint64 * 3)()
def consistent():
    n, infos, old = ctypes.c_uint(30), (ctypes.c_uint64 * 90)(), (ctypes.c_uint64 * 60)()
    assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle(), ctypes.byref(n), infos) == 0
    m = ctypes.c_uint(30)
    assert nvml.nvmlDeviceGetComputeRunningProcesses(handle(), ctypes.byref(m), old) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(handle(), memory) == 0
    assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    assert memory[0] == total.value and memory[1] + memory[2] == memory[0]
    own = [infos[3 * i + 1] for i in range(n.value) if infos[3 * i] & 0xffffffff == os.getpid()]
    assert own == [total.value - free.value]
    seen = [infos[3 * i + 1] for i in range(n.value)]
    return seen if seen == [old[2 * i + 1] for i in range(m.value)] and sum(seen) == memory[2] else None
def look():
    # each call is a moment of its own: another program may come or go between two of them
    for attempt in range(100):
        seen = consistent()
        if seen:
            break
        time.sleep(0.05)
    print(sorted(use >> 20 for use in seen), memory[2] >> 20, flush=True)
for _ in sys.stdin:
    look()
"""


class User:
    """A program that holds memory and looks at NVML when asked."""

    def __init__(self, env, mib):
        self.process = subprocess.Popen([sys.executable, "-c", USER, str(mib)], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def look(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def end(self, kill=False):
        if kill:
            self.process.kill()
        self.process.communicate(timeout=HANG)


@pytest.mark.skipif(DRIVER != "emu", reason="containers hide processes from the real NVML")
@pytest.mark.parametrize("kill", (False, True), ids=("ends", "killed"))
@pytest.mark.parametrize("way", ("direct", "tcp"))
def test_programs_see_each_others_memory(direct_env, tmp_path, way, kill):
    table = {"CRICKET_EMU": f"usage={tmp_path}/table"}
    other = None
    if way == "direct":
        env = dict(direct_env, **table)
    else:
        other = Server(tmp_path / "server", "--lease", "0", **table)
        env = client_env(other.address(way))
    one, two = User(env, 4), User(env, 6)
    try:
        one.look(), two.look()  # both have begun
        assert one.look() == two.look() == "[4, 6] 10\n"
        two.end(kill)
        wait_until(lambda: one.look() == "[4] 4\n", 10, "the other program is gone")
    finally:
        one.end()
        if two.process.poll() is None:
            two.end(kill=True)
        if other:
            other.stop()


@pytest.mark.skipif(bool(runtime()), reason="the sanitizer is preloaded, and the order of libraries is another")
def test_what_the_linker_says_of_a_program_linked_with_nvml_is_in_the_documents(server, app):
    """The words of the error message lead to the way that works."""
    program, env = app("nvml_linked"), client_env(server.address("unix"))
    refused = run([program], env)
    words = ("error while loading shared libraries: libnvidia-ml.so.1: cannot open shared object file: "
             "No such file or directory")
    if refused.status != 127:
        pytest.skip("this machine has NVML of its own")
    assert words in refused.err
    for document in ("docs/using.md", "man/cricket-client.7"):
        text = (ROOT / document).read_text(encoding="utf-8")
        assert "LD_LIBRARY_PATH" in text[text.index(words):][:600], document
    for way in ({"LD_PRELOAD": "", "LD_LIBRARY_PATH": str(FOLDER)}, {"LD_PRELOAD": str(SECOND)}):
        result = run([program], {**env, **way})
        assert (result.status, result.out) == (0, PROMISED), result.err
