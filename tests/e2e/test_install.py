"""tests/e2e/test_install.py - what `make install` leaves: everything, and it works from there alone."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import KIND, ROOT, Server, clean_env, listens, run, wait_until

pytestmark = pytest.mark.skipif(bool(KIND), reason="what has sanitizers is not installed")

INSTALL = ROOT / "tools" / "install.sh"


@pytest.fixture(name="prefix", scope="module")
def fixture_prefix(tmp_path_factory):
    """All of it, installed as a package is made and then moved to another place, for links must bear that."""
    folder = tmp_path_factory.mktemp("install")
    result = run([INSTALL, "all", "/usr"], clean_env(DESTDIR=str(folder / "package")))
    assert result.status == 0, result.err
    assert os.listdir(folder / "package") == ["usr"]
    return (folder / "package" / "usr").rename(folder / "moved")


@pytest.fixture(name="installed", scope="module")
def fixture_installed(prefix, tmp_path_factory):
    """The installed server."""
    server = Server(tmp_path_factory.mktemp("server"), program=prefix / "bin" / "cricket-rpc-server")
    yield server
    server.stop()


def paths(prefix, names):
    """NAMES that are no file below PREFIX."""
    return [n for n in names if not (prefix / n).is_file()]


def test_all_that_is_built_is_installed(prefix):
    built = [p for p in (ROOT / "cpu").iterdir() if p.is_file() and p.name not in ("Makefile", "README.md", "hardening.mk")]
    assert len(built) > 8
    assert not paths(prefix / "lib" / "cricket", [p.name for p in built])
    assert not paths(prefix / "bin", [p.name for p in built if not re.search(r"\.so", p.name)])
    loader = ["kernel-loader", "libupper.so", *(p.name for p in (ROOT / "loader").glob("*_lh.exe")),
              *(str(p.relative_to(ROOT / "loader")) for p in (ROOT / "loader" / "stubs").glob("*/*.so*"))]
    assert not paths(prefix / "lib" / "cricket", loader)
    manuals = [f"man{p.suffix[1:]}/{p.name}" for p in (ROOT / "man").glob("*.[1-9]")]
    assert not paths(prefix / "share" / "man", manuals)
    wheel = {"build", "cricket_gpu", "setup.py"}
    python = [str(p.relative_to(ROOT)) for p in (ROOT / "python").rglob("*.py")
              if p.relative_to(ROOT / "python").parts[0] not in wheel]
    assert not paths(prefix / "lib" / "cricket", python)


def test_no_driver_comes_where_programs_look_for_one(prefix):
    assert sorted(os.listdir(prefix / "lib")) == [
        "cmake", "cricket", "libm3.so", "libm3.so.1", "libwcm.so", "libwcm.so.1", "pkgconfig", "systemd", "sysusers.d",
        "tmpfiles.d"]
    dangling = [p for p in prefix.rglob("*") if not p.exists()]
    assert not dangling
    unit = (prefix / "lib" / "systemd" / "system" / "cricket-rpc-server.service").read_text(encoding="utf-8")
    assert "ExecStart=/usr/bin/cricket-rpc-server --config -/etc/cricket/server.conf --state-dir /var/lib/cricket " in unit


@pytest.mark.parametrize("way", ["preloaded", "by its name", "without a server"])
def test_a_program_runs(prefix, installed, app, way):
    home = prefix / "lib" / "cricket"
    env = {"preloaded": {"LD_PRELOAD": str(home / "cricket-client.so")},
           "by its name": {"LD_LIBRARY_PATH": str(home / "lib")},
           "without a server": {"LD_LIBRARY_PATH": str(home / "emu")}}[way]
    if way != "without a server":
        env["REMOTE_GPU_ADDRESS"] = installed.address("unix")
    result = run([app("vector_add")], clean_env(**env))
    assert (result.status, result.err) == (0, "") and "0 wrong" in result.out
    if way != "without a server":
        assert run([app("nvml")], clean_env(**env)).status == 0


def test_a_program_runs_under_the_loader(prefix, installed, app):
    half = prefix / "lib" / "cricket" / "cuda_lh.exe"
    result = run([prefix / "bin" / "kernel-loader", "--lh", f"cuda={half}", "--", app("vector_add")],
                 clean_env(REMOTE_GPU_ADDRESS=installed.address("unix")))
    assert (result.status, result.err) == (0, "") and "0 wrong" in result.out


def test_an_mpi_program_runs_under_the_loader(prefix):
    half = prefix / "lib" / "cricket" / "mpi_lh.exe"
    checks = ROOT / "build" / "tests-loader" / "mpi_checks"
    if not half.exists() or not checks.exists():
        pytest.skip("no Open MPI: the MPI half is not built")
    result = run([prefix / "bin" / "kernel-loader", "--lh", f"mpi={half}", "--", checks, "allreduce"], clean_env())
    assert (result.status, result.out) == (0, "allreduce ok\n"), result.err


@pytest.mark.parametrize("where", ["emu", "remote"])
def test_a_kernel_is_launched(prefix, installed, where):
    options = ["--driver", "emu"] if where == "emu" else ["--connect", installed.address("tcp")]
    request = '{"scalars": [3, 2.5], "arrays": {"X": [1, 2, 3], "Y": [1, 1, 1], "R": [0, 0, 0]}}'
    ptx = ROOT / "tests" / "data" / "launcher" / "kernels.ptx"
    result = subprocess.run([prefix / "bin" / "gpu_launcher", *options, ptx, "saxpyKernel", *"1 1 1 256 1 1".split()],
                            input=request, capture_output=True, text=True, env=clean_env(), timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert '"R":[3.5,6.0,8.5]' in result.stdout


def test_memory_has_names(prefix, installed):
    wait_until(lambda: listens(f"{installed.unix}.m3"), 10, "the server's socket for M3 is there")
    m3 = [prefix / "bin" / "m3", "--socket", f"{installed.unix}.m3"]
    assert run([*m3, "alloc", "weights", "2M"], clean_env()).status == 0
    assert "2097152" in run([*m3, "ls"], clean_env()).out
    assert run([prefix / "bin" / "m3-server", "--version"], clean_env()).status == 0


@pytest.mark.parametrize("language, source, library", [
    ("c", '#include <m3.h>\nint main(void) { return !m3_strerror(0); }', "m3"),
    ("c++", '#include <MemMapManager.h>\nint main() { return !m3_strerror(0); }', "m3"),
    ("c", '#include <wcm.h>\nint main(void) { return !wcm_version(); }', "wcm"),
    ("c++", '#include <whole_chunked_memory.h>\nint main() { return !wcm_version(); }', "wcm")])
def test_a_program_is_built_with_what_is_installed(prefix, tmp_path, language, source, library):
    compiler = shutil.which("g++" if language == "c++" else "gcc")
    if not compiler:
        pytest.skip("no compiler")
    program = tmp_path / ("program.cc" if language == "c++" else "program.c")
    program.write_text(source, encoding="utf-8")
    built = run([compiler, program, "-o", tmp_path / "program", f"-I{prefix / 'include'}", f"-L{prefix / 'lib'}",
                 f"-l{library}"], clean_env())
    assert built.status == 0, built.err
    result = run([tmp_path / "program"], clean_env(LD_LIBRARY_PATH=str(prefix / "lib")))
    assert (result.status, result.err) == (0, "")


def test_python_finds_its_library(prefix):
    code = ("import gpu_launcher, wholememory; from wholememory import _library\n"
            "print(gpu_launcher.__file__, _library.load()._name)")
    result = run(["python3", "-c", code], clean_env(PYTHONPATH=str(prefix / "lib" / "cricket" / "python"),
                                                    PYTHONDONTWRITEBYTECODE="1"))
    assert result.status == 0, result.err
    assert all(pathlib.Path(p).is_relative_to(prefix) for p in result.out.split())


def test_what_cannot_be_installed_is_said(tmp_path):
    for words in ([], ["everything"], ["server", "here"], ["client", tmp_path, "more"]):
        result = run([INSTALL, *words], clean_env())
        assert result.status == 2 and "PREFIX" in result.err, words
    copy = tmp_path / "tools" / "install.sh"
    copy.parent.mkdir()
    shutil.copy(INSTALL, copy)
    result = run([copy, "memory", tmp_path / "prefix"], clean_env())
    assert result.status == 2 and result.err == "install: error: cpu/m3 does not exist: run 'make' first\n"


def test_make_installs_it():
    plan = subprocess.run(["make", "-n", "install", "PREFIX=/opt/it", "DESTDIR=/tmp/package"], cwd=ROOT, env=clean_env(),
                          capture_output=True, text=True, timeout=120, check=False)
    assert plan.returncode == 0, plan.stderr
    assert 'DESTDIR="/tmp/package" tools/install.sh all "/opt/it"' in plan.stdout


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="this system has no packages of Debian's kind")
def test_each_library_that_is_linked_statically_is_in_the_list_of_contents():
    makefile = (ROOT / "cpu" / "Makefile").read_text(encoding="utf-8")
    names = set(re.findall(r"\$\(call (?:lib|archive),([\w+]+)\)", makefile))
    assert len(names) > 8
    listed = {c["name"] for c in json.loads(run([ROOT / "tools" / "sbom.py"], clean_env()).out)["components"]}
    for name in names:
        archive = run(["gcc", f"-print-file-name=lib{name}.a"], clean_env()).out.strip()
        if not os.path.isabs(archive):
            continue    # linked dynamically here
        source = run(["dpkg-query", "-S", os.path.realpath(archive)], clean_env()).out.split(":")[0]
        source = run(["dpkg-query", "-W", "-f", "${source:Package}", source], clean_env()).out
        assert source in listed, f"{archive} is of {source}; tools/licences.sh lacks it"
