"""tests/gen/test_check_cuda.py - tools/check-cuda: names in headers on which no table decides."""
import re
import subprocess

import pytest

from helpers import ROOT, tool, toolkit_include

PROGRAM = ROOT / "tools" / "check-cuda"


def check(*options):
    done = subprocess.run([PROGRAM, *options], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_each_name_of_the_list_has_a_decision():
    status, said = check()
    assert status == 0 and re.search(r"1\d\d\d names, 0 without a decision", said), said


def test_each_name_of_the_toolkits_headers_has_a_decision():
    if not toolkit_include():
        pytest.skip("no CUDA toolkit")
    status, said = check("--headers", toolkit_include())
    assert status == 0, said


@pytest.mark.parametrize("header, text, name", [
    ("cudaTypedefs.h", "typedef CUresult (CUDAAPI *PFN_cuNew_v14000)(int a);", "cuNew 14000"),
    ("cudaTypedefs.h", "typedef CUresult (CUDAAPI *PFN_cuMemAlloc_v14000_ptsz)(int a);", "cuMemAlloc 14000 per thread"),
    ("cuda.h", "enum { CUDA_ERROR_NEW = 3000 };", "CUDA_ERROR_NEW"),
    ("cuda.h", "enum { CU_DEVICE_ATTRIBUTE_NEW = 400, CU_DEVICE_ATTRIBUTE_MAX };", "CU_DEVICE_ATTRIBUTE_NEW"),
    ("cuda.h", "#define CUDA_VERSION 99000\n", "CUDA_VERSION 99000: CK_CUDA_VERSION_ON_TABLE is"),
    ("nvml.h", "nvmlReturn_t DECLDIR nvmlNew(int a);", "nvmlNew"),
    ("nccl.h", "ncclResult_t ncclNew(int a);", "ncclNew"),
    ("cupti_activity.h", "CUptiResult CUPTIAPI cuptiNew(int a);", "cuptiNew"),
])
def test_a_new_name_is_reported(tmp_path, header, text, name):
    (tmp_path / header).write_text("/* cuOld nvmlOld(int); */\n" + text)
    status, said = check("--headers", tmp_path)
    assert status == 1 and f"error: {name}" in said and "1 names, 1 without a decision" in said


def test_a_refusal_without_a_reason_is_no_decision(monkeypatch):
    check_cuda = tool("check-cuda")
    table = (ROOT / "rpc" / "driver.api").read_text()
    without = re.sub(r"(cuCoredumpRegisterStartCallback +\d+ refuse) +coredump", r"\1", table)
    assert without != table
    monkeypatch.setattr(check_cuda, "text_of", lambda *p: without if p[-1] == "driver.api" else ROOT.joinpath(*p).read_text())
    assert check_cuda.lacking({"cuCoredumpRegisterStartCallback 13020"}) == ["cuCoredumpRegisterStartCallback 13020"]
