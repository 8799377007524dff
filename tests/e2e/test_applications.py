"""tests/e2e/test_applications.py - bench/apps: its runner, with small programs of all kinds of ends, and an application on
the emulated GPU; bench/side_by_side.py."""
import importlib.util
import json
import re
import sys

import pytest

from conftest import DRIVER, KIND, ROOT, clean_env, run
from python_apps import packages     # noqa: F401  (a fixture)

APPS = ROOT / "bench" / "apps"
RUN = APPS / "run.py"
pytestmark = pytest.mark.skipif(bool(KIND), reason="it takes the products without sanitizers")
# Programs that print what common.py prints. `remote` is the address; they make no CUDA call.
HEAD = """
import json, os, sys, time
remote = os.environ.get("REMOTE_GPU_ADDRESS", "")
def say(*numbers, seconds=2.0):
    print("a line of its own")
    print(json.dumps({"numbers": numbers}))
    print(json.dumps({"version": "fake 1.0", "first_s": 1, "seconds": 3 * seconds if remote else seconds}))
"""
FAKES = {
    "equal": "say([1, 2], 0.5)",
    "varies": "open('runs', 'a').write('x'); say(1 + os.path.getsize('runs') * 1e-7)",
    "differs": "say(2.0 if remote.startswith('shm') else 1.0)",
    "tokens": "say([1, 2, 3] if remote else [1, 2])",
    "fails": "say(1) if not remote else [][1]",
    "crashes": "say(1) if not remote else os.kill(os.getpid(), 9)",
    "silent": "remote or say(1)",
    "natively": "sys.exit('RuntimeError: no GPU')",
    "module": "import no_such_module",
    "package": "print('JAX without a GPU', file=sys.stderr); sys.exit(77)",
    "partly": "say(1)\nif remote: import no_such_module",
    "hangs": "if remote: time.sleep(100)\nsay(1)",
}


def rows_of(text):
    """{title: the cells after it} of the table that comes last."""
    lines = [line.strip("| ").split(" | ") for line in text[text.index("\n---\n"):].splitlines() if line.startswith("| ")]
    return {title: [c.strip() for c in cells] for title, *cells in lines}


@pytest.fixture(scope="module")
def fakes(tmp_path_factory):
    """One run of all fakes: its result, and the folder of its logs."""
    folder = tmp_path_factory.mktemp("applications")
    listed = []
    for name, text in FAKES.items():
        (folder / f"{name}.py").write_text(HEAD + text + "\n", encoding="utf-8")
        listed.append([name, str(folder / f"{name}.py"), [], 5 if name == "hangs" else 100])
    (folder / "list.json").write_text(json.dumps(listed), encoding="utf-8")
    result = run([sys.executable, RUN, "-j", "2", "--apps", folder / "list.json", "--out", folder / "out", "--shm", "shm:/nowhere",
                  "--tcp", "tcp://127.0.0.1:1"], clean_env(CRICKET_TEST_DRIVER="emu"), 180)
    return result, folder / "out"


def test_each_end_of_an_application_has_its_row(fakes):
    result, out = fakes
    rows = rows_of(result.out)
    assert rows["equal"] == ["fake 1.0", "2.000", "3.00", "3.00", "equal"], result.out + result.err
    said = {name: row[-1] for name, row in rows.items()}
    assert re.fullmatch(r"varies \(by \S+, native by \S+ from run to run\)", said["varies"]), said
    assert said["differs"] == "shm: differs (by 0.5)"
    assert said["tokens"] == "differs"
    assert said["fails"] == "fails (IndexError: list index out of range (status 1))"
    assert said["crashes"].startswith("fails (") and "signal 9" in said["crashes"]
    assert said["silent"].startswith("fails (no numbers")
    assert said["natively"] == "native fails (RuntimeError: no GPU (status 1))"
    assert said["module"] == "not installed (ModuleNotFoundError: No module named 'no_such_module')"
    assert said["package"] == "not installed (JAX without a GPU)"
    assert said["partly"].startswith("fails (")
    assert said["hangs"].startswith("fails (no result in 5 s")
    assert result.status == 1
    assert result.out.splitlines()[-1] == "applications: 5 as natively or not installed, 7 not"
    kept = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert kept["differs"]["again"]["value"] == [1.0] and "again" not in kept["equal"]
    assert "| hangs |" in (out / "applications.md").read_text(encoding="utf-8")


def test_every_script_is_listed_and_compiles():
    listed = run([sys.executable, RUN, "--list"], clean_env()).out
    for script in sorted(APPS.glob("*.py")):
        compile(script.read_text(encoding="utf-8"), script, "exec")
        if script.name not in ("run.py", "common.py", "wheels.py"):
            assert f": {script.name} " in listed, script.name


def test_a_wheel_is_installed_for_the_applications(tmp_path):
    """Without the network, and without what it asks for."""
    wheels = importlib.util.spec_from_file_location("wheels", APPS / "wheels.py")
    module = importlib.util.module_from_spec(wheels)
    wheels.loader.exec_module(module)
    import zipfile
    name, info = "ck_fake-1.0-py3-none-any.whl", "ck_fake-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / name, "w") as z:
        z.writestr("ck_fake.py", "ANSWER = 42\n")
        z.writestr("left_out.bin", "x" * 1000)
        z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: ck-fake\nVersion: 1.0\nRequires-Dist: no-such-package-at-all\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", f"ck_fake.py,,\nleft_out.bin,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    (tmp_path / "small").mkdir()
    module.repack(tmp_path / name, tmp_path / "small" / name, "left_out")
    (tmp_path / "app.py").write_text(HEAD + "import ck_fake\nsay(ck_fake.ANSWER, os.path.exists(ck_fake.__file__[:-10] + 'left_out.bin'))\n",
                                     encoding="utf-8")
    (tmp_path / "list.json").write_text(json.dumps([["app", str(tmp_path / "app.py"), [], 60]]), encoding="utf-8")
    result = run([sys.executable, RUN, "--apps", tmp_path / "list.json", "--out", tmp_path / "out", "--wheels", tmp_path / "small",
                  "--shm", "shm:/nowhere", "--tcp", "tcp://127.0.0.1:1"], clean_env(CRICKET_TEST_DRIVER="emu"), 120)
    if "No module named pip" in result.out:
        pytest.skip("no pip here")
    assert result.status == 0 and rows_of(result.out)["app"][-1] == "equal", result.out + result.err
    assert json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["app"]["tcp"]["value"] == [42, False]


@pytest.mark.slow
def test_an_application_computes_the_same_on_the_emulated_gpu(packages, tmp_path):      # noqa: F811
    if DRIVER != "emu":
        pytest.skip("bench/gpu.sh applications is for a GPU")
    result = run([packages / "bin" / "python3", RUN, "-k", "numba_kernels", "--out", tmp_path], clean_env(CRICKET_TEST_DRIVER="emu"), 300)
    assert result.status == 0, result.out + result.err
    assert rows_of(result.out)["Numba"][-1] == "equal", result.out


def test_answers_side_by_side(tmp_path):
    """What differs, by its last word; messages of Cricket are none, and lines that occur twice are told apart."""
    texts = {"native": "none cuX CUDA_ERROR_A\nsame 1\ncuY: CUDA_SUCCESS\ncuY: CUDA_SUCCESS\n",
             "shm": "none   cuX   CUDA_ERROR_B\ncricket: ERROR: one line\nsame 1\ncuY: CUDA_SUCCESS\ncuY: CUDA_ERROR_C\n",
             "tcp": "none cuX CUDA_ERROR_B\nsame 1\n"}
    files = []
    for name, text in texts.items():
        files.append(tmp_path / name)
        files[-1].write_text(text, encoding="utf-8")
    plain = run([sys.executable, ROOT / "bench" / "side_by_side.py", *files], clean_env())
    assert plain.out.splitlines() == ["none cuX: A | B | B", "cuY: SUCCESS | SUCCESS | -", "cuY (2): SUCCESS | C | -",
                                      "3 of 4 answers differ"]
    grouped = run([sys.executable, ROOT / "bench" / "side_by_side.py", "--group", *files[:2]], clean_env())
    assert grouped.out.splitlines() == ["   1 A | B: none cuX", "   1 SUCCESS | C: cuY (2)", "2 of 4 answers differ"]
    assert plain.status == grouped.status == 1
