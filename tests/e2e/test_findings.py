"""tests/e2e/test_findings.py - `cricket run -s emu --check`: errors of kernels, their source lines, and the exit status."""
import os
import pathlib
import re
import signal
import sys

import pytest

from conftest import DRIVER, PRODUCTS, command_env, ended, start, wait_until

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="starts the emulated GPU itself")

CRICKET = PRODUCTS / "cricket"
SOURCE = pathlib.Path(__file__).parent.parent / "test_apps" / "kernel_errors.cu"
FOUND = 99


def expectations():
    """{kernel: {(what, line)}} as the comments of the source say."""
    found, kernel = {}, None
    for number, line in enumerate(SOURCE.read_text(encoding="utf-8").splitlines(), 1):
        if head := re.match(r"__global__ void (\w+)\(", line):
            kernel = found.setdefault(head[1], set())
        if what := re.search(r"/\* finds ([\w ]+) here \*/", line):
            kernel.add((what[1], number))
    return found


KERNELS = expectations()


@pytest.fixture(name="env")
def fixture_env(tmp_path):
    (tmp_path / "run").mkdir()
    return command_env(XDG_CONFIG_HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path / "run"))


def check(env, *command, options=()):
    return ended(start([CRICKET, "run", "-s", "emu", "--check", *options, "--", *command], env), 60)


def findings(result):
    return [line for line in result.err.splitlines() if re.match(r"cricket: (race|uninitialised|fault): kernel ", line)]


def test_there_are_twenty_kernels_with_errors():
    assert len([kernel for kernel, errors in KERNELS.items() if errors]) >= 20
    assert set(KERNELS) == set((SOURCE.parent.parent / "e2e" / "expected" / "kernel_errors.txt").read_text().split())


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_error_is_reported_with_its_source_line(env, app, kernel):
    result = check(env, app("kernel_errors"), kernel)
    lines = findings(result)
    named = {(what, number) for what, number in KERNELS[kernel]
             for line in lines if what in line and f"kernel_errors.cu:{number}" in line}
    assert named == KERNELS[kernel], result.err
    for line in lines:
        assert re.search(rf"kernel \w*{kernel}\w*, block \d+,\d+,\d+[:,] thread \d+,\d+,\d+", line), line
    assert result.status == (FOUND if KERNELS[kernel] else 0), result.err
    count = f"found {len(lines)} error" if lines else "found nothing"
    assert f"cricket: the checks {count}" in result.err
    assert bool(lines) == bool(KERNELS[kernel])


def test_an_address_behind_an_allocation_is_related_to_it(env, app):
    result = check(env, app("kernel_errors"), "bounds_one_behind")
    assert "0 bytes after the end of an allocation of 1024 bytes at 0x" in result.err
    result = check(env, app("kernel_errors"), "misaligned_vector")
    assert "4 bytes into an allocation of 1024 bytes at 0x" in result.err


def test_a_place_in_a_function_of_a_header_names_its_caller(env, app):
    result = check(env, app("kernel_errors"), "bounds_atomic")
    assert re.search(r"device_atomic_functions.hpp:\d+, called at \S*kernel_errors.cu:\d+\)", result.err), result.err


def test_an_error_that_several_processes_meet_counts_once(env, app):
    program = f"for i in 1 2 3; do {app('kernel_errors')} race_warp; done"
    result = check(env, "sh", "-c", program)
    assert len(findings(result)) == 1 and "found 1 error\n" in result.err, result.err
    assert result.status == FOUND
    program = f"{app('kernel_errors')} race_warp; {app('kernel_errors')} misaligned_int; {app('kernel_errors')} misaligned_vector"
    result = check(env, "sh", "-c", program)
    assert len(findings(result)) == 3 and result.status == FOUND, result.err


def test_without_findings_the_status_and_the_output_are_the_programs(env):
    result = check(env, sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert (result.status, result.out) == (7, "out\n")
    assert result.err.splitlines() == ["err", "cricket: the checks found nothing"]
    result = check(env, sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert result.status == 128 + signal.SIGKILL
    assert check(env, "/nonexistent/program").status == 127
    wait_until(lambda: not os.listdir(env["XDG_RUNTIME_DIR"]), 20, "the folders of the servers are gone")


@pytest.mark.parametrize("variable", ("CRICKET_LOG=none", "CRICKET_LOG=error", "CRICKET_LOG_FORMAT=json"))
def test_settings_of_the_log_hide_no_finding(env, app, variable):
    result = check({**env, **dict([variable.split("=")])}, app("kernel_errors"), "race_warp")
    assert len(findings(result)) == 1 and result.status == FOUND, result.err


def test_a_signal_reaches_the_program(env):
    program = "import signal, sys; signal.signal(15, lambda *_: sys.exit(5)); print('ready', flush=True); signal.pause()"
    process = start([CRICKET, "run", "-s", "emu", "--check", sys.executable, "-c", program], env)
    assert process.stdout.readline().strip() == "ready"
    process.send_signal(signal.SIGTERM)
    assert ended(process, 60).status == 5


def test_only_an_emulated_gpu_checks(env):
    result = ended(start([CRICKET, "run", "-s", "127.0.0.1:1", "--check", "true"], env), 60)
    assert result.status == 2 and "--check needs the emulated GPU: cricket run -s emu --check PROGRAM" in result.err
    assert ended(start([CRICKET, "env", "--check"], env), 60).status == 2
