"""tests/gpu/test_battery.py - the battery as pytest's: a test for each case, all of a file run at once.

    python3 -m pytest tests/gpu -k sdpa         as root on a machine with a GPU; BATTERY_TRANSPORT=tcp
"""
import os
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import battery  # noqa: E402
import judge  # noqa: E402
import runner  # noqa: E402

if runner.DRIVER != "emu" and not shutil.which("nvidia-smi"):
    pytest.skip("no GPU here", allow_module_level=True)

CASES = {m: c for m in battery.FILES for c in [runner.cases_of(m)] if not isinstance(c, str)}
ALL = [(m, n) for m, cases in CASES.items() for n in cases]


@pytest.fixture(scope="session")
def sides(tmp_path_factory):
    """A server, and how to run a command natively and through it."""
    folder = tmp_path_factory.mktemp("battery")
    server, address = runner.start_server(folder, os.environ.get("BATTERY_TRANSPORT", "unix"))
    s = runner.Sides(address, folder, battery.gpu_count(), 1200)
    yield s
    s.close()
    server.terminate()
    server.wait()


@pytest.fixture(scope="session")
def result_of(sides, request):
    """(case, native, remote, again) of a case; the first of a file runs all that were chosen."""
    wanted, done = {}, {}
    for item in request.session.items:
        if hasattr(item, "callspec") and "module" in item.callspec.params:
            wanted.setdefault(item.callspec.params["module"], []).append(item.callspec.params["name"])

    def get(module, name):
        if module not in done:
            done[module] = battery.run_file(sides, module, "^(" + "|".join(wanted[module]) + ")$")
        return done[module][name]
    return get


@pytest.mark.parametrize("module, name", ALL, ids=[f"{m.removeprefix('cases_')}-{n}" for m, n in ALL])
def test_remote_is_as_native(result_of, module, name):
    word, detail = judge.verdict(*result_of(module, name))
    if word in ("not installed", "native fails", "limit"):
        pytest.skip(f"{word}: {detail}")
    assert word in judge.GOOD, detail
