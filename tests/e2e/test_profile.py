"""tests/e2e/test_profile.py - a program that profiles itself through CUPTI: records of the GPU come from the server."""
import pathlib
import textwrap

import pytest

from conftest import TRANSPORTS, client_env, run

EXPECTED = """\
result 64
buffers in use 1
kernels 6, with the id 1, names _Z5scalePff
copies some, 2097152 bytes, fills 1
untied 0, outside of the time 0, before the call 0, dropped 0
launched by cudaLaunchKernel_v7000
driver some, runtime some
result 64
afterwards 0
"""

# What a profiler asks for beside activities: one subscriber, no callbacks about calls, errors by name.
QUESTIONS = """
    import ctypes
    cupti = ctypes.CDLL("libcupti.so.12")
    handle, text, version = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_uint32()
    callback = ctypes.CFUNCTYPE(None)(lambda: None)
    print(cupti.cuptiSubscribe(ctypes.byref(handle), callback, None))
    print(cupti.cuptiSubscribe(ctypes.byref(handle), callback, None))
    print(cupti.cuptiEnableCallback(1, handle, 3, 1), cupti.cuptiEnableCallback(1, handle, 2, 1))
    print(cupti.cuptiUnsubscribe(handle), cupti.cuptiUnsubscribe(handle))
    print(cupti.cuptiActivityEnable(6), cupti.cuptiActivityEnable(1000), cupti.cuptiGetLastError())
    for i in range(2):
        print(cupti.cuptiMetricGetNumEvents(1, None))
    print(cupti.cuptiGetResultString(27, ctypes.byref(text)), text.value.decode())
    print(cupti.cuptiGetVersion(ctypes.byref(version)), cupti.cuptiActivityFlushAll(0))
"""

CALLS = """
from cupti_program import *
begin()
memory = made(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(64))
enable(DRIVER, MEMSET)
wanted = {name_of(1, n): n for n in range(1, 800) if cupti.cuptiGetCallbackName(1, n, ctypes.byref(ctypes.c_char_p())) == 0}
call("cuptiActivityEnableDriverApi", wanted["cuCtxGetCurrent"], 0)
made(ctypes.c_void_p, "cuCtxGetCurrent")
made(ctypes.c_int, "cuCtxGetDevice")
call("cuMemsetD8_v2", memory, 1, ctypes.c_size_t(64))
cuda.cuMemFree_v2(ctypes.c_uint64(1))
calls = records(DRIVER)
(fill,) = records(MEMSET)
assert [name_of(1, c.call) for c in calls] == ["cuCtxGetDevice", "cuMemsetD8_v2", "cuMemFree_v2"], calls
assert [c.result for c in calls] == [0, 0, 1], calls
assert fill.correlation == calls[1].correlation != calls[0].correlation
"""


def run_cupti(source, address, **more):
    env = client_env(address, PYTHONPATH=str(pathlib.Path(__file__).parent), **more)
    return run(["/usr/bin/python3", "-c", textwrap.dedent(source)], env)


def test_each_call_has_a_record_unless_it_is_left_out(server):
    result = run_cupti(CALLS, server.address("tcp"))
    assert (result.status, result.err) == (0, "")


@pytest.mark.parametrize("moment", ["late", "early"])
@pytest.mark.parametrize("library", ["libcupti.so.12", "libcupti.so.13"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_program_profiles_itself(server, app, transport, library, moment):
    result = run([app("profile"), library, moment], client_env(server.address(transport)))
    assert result.status == 0, result.err
    assert result.out == EXPECTED
    assert result.err == ""


def test_without_a_profiler_no_message_is_about_one(server, app):
    result = run([app("vector_add")], client_env(server.address("tcp"), CRICKET_TRACE="1"))
    assert result.status == 0, result.err
    assert "ck_launch" in result.err
    assert "ck_profile" not in result.err


def test_unsupported_calls_are_reported_once_by_name(server):
    result = run(["/usr/bin/python3", "-c", textwrap.dedent(QUESTIONS)], client_env(server.address("tcp")))
    assert result.status == 0, result.err
    assert result.out.split() == "0 39 0 27 0 1 27 21 21 27 27 0 CUPTI_ERROR_NOT_SUPPORTED 0 7".split()
    assert len(result.lines_about("cuptiMetricGetNumEvents is not supported")) == 1
    assert len(result.lines_about("callbacks about calls are not supported")) == 1
    assert len(result.lines_about("kind 6")) == 1
