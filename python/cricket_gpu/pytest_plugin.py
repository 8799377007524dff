"""The option --cricket-emu of pytest: the tests run on an emulated GPU."""
import os
import re

import pytest

import cricket_gpu

MACHINE_CODE = re.compile(r"NO_BINARY_FOR_GPU|no kernel image is available|NoKernelImageForDevice")
_emulated = []


def pytest_addoption(parser):
    parser.getgroup("cricket").addoption("--cricket-emu", action="store_true",
                                         help="run the tests on an emulated GPU, which runs PTX on the CPU")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Before anything can use CUDA. The processes of pytest-xdist have their GPU from the one that starts them."""
    if early_config.known_args_namespace.cricket_emu and "PYTEST_XDIST_WORKER" not in os.environ:
        try:
            _emulated.append(cricket_gpu.emulate())
        except (OSError, RuntimeError) as problem:
            raise pytest.UsageError(f"--cricket-emu: {problem}") from None


def pytest_configure(config):
    config.addinivalue_line("markers", "real_gpu: needs machine code, and is skipped with --cricket-emu")


def pytest_report_header(config):
    return "cricket: emulated GPU" if config.option.cricket_emu else None


def pytest_collection_modifyitems(config, items):
    for item in items if config.option.cricket_emu else ():
        if item.get_closest_marker("real_gpu"):
            item.add_marker(pytest.mark.skip(reason="the emulated GPU runs no machine code"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and item.config.option.cricket_emu and MACHINE_CODE.search(str(call.excinfo.value)):
        report.sections.append(("cricket", "The emulated GPU runs PTX only, and this code contains none that it can run: compile to "
                                           "PTX, or mark the test with real_gpu."))


def pytest_unconfigure():
    while _emulated:
        _emulated.pop().close()
