"""tests/e2e/test_timeline.py - `cricket run --profile`: a timeline of a program that knows nothing of it."""
import json
import os
import pathlib
import re
import signal
import sys

import pytest

from conftest import DRIVER, HANG, KIND, PRODUCTS, TRANSPORTS, clean_env, client_env, run, start, wait_until
from test_control import Asker
from test_move import move, receiver
from test_suspend import HOLD, begun, gpu_server, only, program, use        # noqa: F401
from travel import STEPS, programs_that_end_with_the_test, result_without_a_checkpoint, servers_with_criu  # noqa: F401

CRICKET = PRODUCTS / "cricket"

# Copies once, says so, and waits.
COPIES_AND_WAITS = """
import ctypes, time
c, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert c.cuInit(0) == 0 and c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and c.cuCtxSetCurrent(context) == 0
assert c.cuMemAlloc_v2(ctypes.byref(memory), 1 << 16) == 0 and c.cuMemcpyHtoD_v2(memory, bytes(1 << 16), 1 << 16) == 0
assert c.cuCtxSynchronize() == 0
"""
FORKS = """
import os
child = os.fork()
""" + COPIES_AND_WAITS + """
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def events_of(path):
    document = json.loads(path.read_text())
    assert set(document) == {"traceEvents", "displayTimeUnit"}
    return document["traceEvents"]


def spans(events, category):
    return [e for e in events if e["ph"] == "X" and e["cat"] == category]


def group_names(events):
    return {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}


@pytest.mark.skipif(bool(KIND), reason="cricket run puts the client in front of the sanitizer's library")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_timeline_has_calls_messages_and_work_tied_by_arrows(server, app, tmp_path, transport):
    path = tmp_path / "out.json"
    path.write_text("of an earlier run")
    done = run([CRICKET, "run", "-s", server.address(transport), "--profile", path, "--", app("vector_add")], clean_env())
    assert (done.status, done.err) == (0, "") and "0 wrong" in done.out
    events = events_of(path)
    kernel, = spans(events, "kernel")
    launch, = [e for e in spans(events, "runtime") if e["name"] == "cudaLaunchKernel"]
    groups = group_names(events)
    assert "vector_add" in kernel["name"] and groups[kernel["pid"]].startswith("GPU 0 ")
    assert groups[launch["pid"]] == "vector_add" and launch["args"]["correlation"] == kernel["args"]["correlation"]
    tail, = [e for e in events if e["ph"] == "s" and e["id"] == kernel["args"]["correlation"]]
    head, = [e for e in events if e["ph"] == "f" and e["id"] == kernel["args"]["correlation"]]
    assert [tail[k] for k in ("pid", "tid", "ts")] == [launch[k] for k in ("pid", "tid", "ts")]
    assert [head[k] for k in ("pid", "tid", "ts")] == [kernel[k] for k in ("pid", "tid", "ts")] and head["bp"] == "e"
    assert sum(e["args"]["bytes"] for e in spans(events, "copy")) == 3 * 50000 * 4
    waits, sends = spans(events, "wait"), spans(events, "one-way")
    assert [e["name"] for e in sends].count("ck_launch") == 1 and all(e["args"]["sent"] > 0 for e in waits + sends)
    assert sum(e["args"]["received"] for e in waits) > (50000 * 4 if transport != "shm" else 0)
    assert {groups[e["pid"]] for e in waits + sends} == {f"messages to {server.address(transport)}"}
    assert not [e for e in waits if "profile" in e["name"]]


@pytest.mark.skipif(bool(KIND), reason="cricket run puts the client in front of the sanitizer's library")
def test_each_process_has_a_file(server, app, tmp_path):
    path = tmp_path / "out.json"
    script = 'cd /; "$0"; "$0"; "$1" -c "$2"'
    done = run([CRICKET, "run", "-s", server.address("tcp"), "--profile", path, "--", "sh", "-c", script, app("vector_add"),
                sys.executable, FORKS], clean_env())
    assert (done.status, done.err) == (0, "")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 4 and files[0] == path
    processes = set()
    for file in files:
        events = events_of(file)
        pid, = {e["pid"] for e in spans(events, "runtime") + spans(events, "driver")}
        assert spans(events, "copy") and (file == path or file.name == f"out.json.{pid}")
        processes.add(pid)
    assert len(processes) == 4


def test_a_killed_program_leaves_a_whole_document(server, tmp_path):
    path = tmp_path / "out.json"
    process = start([sys.executable, "-c", COPIES_AND_WAITS + "time.sleep(1000)"],
                    client_env(server.address("tcp"), CRICKET_PROFILE=str(path)))
    try:
        wait_until(lambda: path.exists() and path.stat().st_size > 0 and spans(events_of(path), "copy"), 60,
                   "the copy in the file")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert spans(events_of(path), "copy")


def test_a_full_disk_ends_the_timeline_and_nothing_else(server, app, tmp_path):
    path = tmp_path / "out.json"
    env = client_env(server.address("tcp"), CRICKET_PROFILE=str(path))
    # a file beyond the limit raises SIGXFSZ, by default the end of the program
    done = run(["bash", "-c", 'ulimit -f 4; exec "$0"', app("vector_add")], env)
    assert done.status == 0 and "0 wrong" in done.out
    assert len(done.lines_about("the profile ends here")) == len(done.err.splitlines()) == 1
    assert events_of(path) == []


def test_a_file_that_cannot_be_made(server, app, tmp_path):
    path = tmp_path / "none" / "out.json"
    done = run([CRICKET, "run", "-s", server.address("tcp"), "--profile", path, "--", "echo", "ran"], clean_env())
    assert (done.status, done.out, done.err) == (1, "", f"cricket: {path}: No such file or directory\n")
    done = run([app("vector_add")], client_env(server.address("tcp"), CRICKET_PROFILE=str(path)))
    assert done.status == 0 and "0 wrong" in done.out
    assert len(done.lines_about("no timeline is written")) == len(done.err.splitlines()) == 1


def test_a_program_that_profiles_itself_comes_first(server, app, tmp_path):
    path = tmp_path / "out.json"
    env = client_env(server.address("tcp"), CRICKET_PROFILE=str(path))
    done = run([app("profile"), "libcupti.so.13", "late"], env)
    assert done.status == 0 and "kernels 6, with the id 1" in done.out and "untied 0, outside of the time 0" in done.out
    assert len(done.lines_about("starts its own profiler")) == len(done.err.splitlines()) == 1
    assert not spans(events_of(path), "kernel")


def test_ranges_of_the_program_are_in_the_timeline(server, tmp_path):
    path = tmp_path / "out.json"
    source = """
from cupti_program import *
import os
assert os.environ["NVTX_INJECTION64_PATH"].endswith("/cricket-client.so")
begin()
nvtx = Nvtx()
nvtx(1, "push", ctypes.c_char_p(b"of a thread"))
made(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(64))
nvtx(1, "pop")
identity = nvtx(1, "start", ctypes.c_char_p(b"of any"), result=ctypes.c_uint64)
nvtx(1, "end", ctypes.c_uint64(identity))
"""
    done = run([CRICKET, "run", "-s", server.address("tcp"), "-p", path, "--", "/usr/bin/python3", "-c", source],
               clean_env(PYTHONPATH=str(pathlib.Path(__file__).parent)))
    assert (done.status, done.err) == (0, "")
    events = events_of(path)
    markers = [e for e in events if e["cat"] == "marker"]
    assert [(e["ph"], e["name"]) for e in markers] == [("B", "of a thread"), ("E", ""), ("b", "of any"), ("e", "of any")]
    assert markers[2]["id"] == markers[3]["id"]
    call, = [e for e in spans(events, "driver") if e["name"] == "cuMemAlloc_v2"]
    assert markers[0]["ts"] <= call["ts"] <= call["ts"] + call["dur"] <= markers[1]["ts"] and markers[0]["tid"] == call["tid"]


# --- sessions that leave the GPU or the server

def test_a_profile_keeps_no_session_on_the_gpu(gpu_server, tmp_path):
    path = tmp_path / "out.json"
    server = gpu_server("--suspend-idle", "2")
    asker = Asker(server)
    one = begun(program(server, HOLD, 16, CRICKET_PROFILE=str(path)))
    before = use(one)
    for _ in range(2):
        wait_until(lambda: only(asker)["state"] == "suspended", 60, "the idle session leaves")
        assert use(one) == before
    one.stdin.close()
    # a call that waits for more than a second reports that
    assert one.wait(HANG) == 0 and not [line for line in one.stderr if not re.search("session is (suspended|resumed)", line)]
    # the program's; those of a suspend are of all 16 MiB
    copies = [e for e in spans(events_of(path), "copy") if e["name"] == "copy from the device" and e["args"]["bytes"] < 16 << 20]
    assert sum(e["args"]["bytes"] for e in copies) == 3 * (2 << 20)
    waits = spans(events_of(path), "wait")
    assert max(e["ts"] for e in copies) <= max(e["ts"] + e["dur"] for e in waits)


@pytest.mark.skipif(DRIVER != "emu", reason="as test_move.py")
def test_a_timeline_goes_on_when_the_session_moves(servers, start_program, expected, tmp_path):
    path = tmp_path / "out.json"
    first, second = servers("first"), servers("second")
    moving = start_program(first.address("tcp"), CRICKET_PROFILE=str(path))
    moving.go_on()
    done = move(first, second.address("tcp"), receiver(second, tmp_path))
    assert done.returncode == 0, done.stderr + first.log() + second.log()
    assert moving.end() == 0 and moving.result == expected, moving.errors
    assert "CRICKET_PROFILE" not in moving.errors
    events = events_of(path)        # each of the four threads fills once in a step
    assert len(spans(events, "fill")) == len([e for e in spans(events, "driver") if e["name"] == "cuMemsetD32Async"]) == 4 * STEPS
