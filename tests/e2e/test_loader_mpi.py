"""tests/e2e/test_loader_mpi.py - MPI programs whose MPI library is a lower half.

tests/loader/mpi_checks.c is an MPI program like any other; whatever it does must come out as it
does natively. mpirun starts one loader a rank.
"""
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, SAN, TSAN, clean_env, run

pytestmark = [
    pytest.mark.skipif(SAN or TSAN, reason="the loader runs without a libc, so without a sanitizer"),
    pytest.mark.skipif(not shutil.which("mpirun") or not shutil.which("mpicc"), reason="no Open MPI"),
]

LOADER = ROOT / "loader" / "kernel-loader"
BUILT = ROOT / "build" / "tests-loader"
CHECKS = BUILT / "mpi_checks"
UNDER = [LOADER, "--lh", f"mpi={ROOT / 'loader' / 'mpi_lh.exe'}"]
ALL = ["ring", "allreduce", "large", "window", "types", "callbacks", "handles", "every_type",
       "generalized", "file", "threads", "pmpi", "tools"]


def mpirun(ranks, *command, timeout=120, **env):
    """Runs COMMAND as this many ranks on this machine, whoever we are."""
    more = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return run(["mpirun", "--oversubscribe", "-np", str(ranks), *command], clean_env(**more, **env), timeout)


def test_an_mpi_program_is_bound_to_the_stub_by_soname():
    needed = run(["readelf", "-d", CHECKS], clean_env()).out
    assert "libmpi.so.40" in needed
    result = mpirun(1, *UNDER, "--map", "--", CHECKS, "ring")
    assert re.search(r"^upper\t.*loader/stubs/mpi/libmpi\.so\.40$", result.err, re.M), result.err
    assert re.search(r"^mpi\t.*/libmpi\.so\.40\.[0-9.]+$", result.err, re.M)
    assert not re.search(r"^upper\t.*/libopen-(pal|rte)", result.err, re.M)


@pytest.mark.parametrize("ranks", [2, 4])
def test_checks_come_out_as_they_do_natively(ranks):
    for under in ([], [*UNDER, "--"]):
        result = mpirun(ranks, *under, CHECKS, *ALL)
        assert (result.status, result.out) == (0, "".join(f"{c} ok\n" for c in ALL)), result.err


def test_one_rank_without_mpirun():
    result = run([*UNDER, "--", CHECKS, "allreduce", "callbacks"], clean_env())
    assert (result.status, result.out) == (0, "allreduce ok\ncallbacks ok\n"), result.err


@pytest.mark.skipif(not shutil.which("mpicxx"), reason="no mpicxx")
def test_a_program_of_mpicxx_runs_as_natively():
    """Open MPI 4's mpicxx links libmpi_cxx, which needs more of libmpi than MPI's functions."""
    for under in ([], [*UNDER, "--"]):
        result = mpirun(3, *under, BUILT / "mpi_cxx")
        assert (result.status, result.out) == (0, "largest 2, sum 3, 3 threads\n"), result.err


@pytest.mark.skipif(not os.path.exists("/usr/lib/x86_64-linux-gnu/libmpi_cxx.so.40"), reason="no C++ bindings")
def test_what_the_cxx_bindings_cannot_do_is_refused_with_a_line():
    result = mpirun(1, *UNDER, "--", BUILT / "mpi_cxx", "refused")
    assert (result.status, result.out) == (0, "largest 0, sum 0, 3 threads\n"), result.err
    assert "Create_keyval of the C++ bindings is not supported" in result.err


@pytest.mark.slow
def test_a_hundred_starts_of_four_ranks():
    loop = 'for i in $(seq 25); do "$@" || exit 1; done'
    result = mpirun(4, "bash", "-c", loop, "bash", *UNDER, "--", BUILT / "empty_ok")
    assert (result.status, result.err) == (0, "")


@pytest.mark.parametrize("pinned", ["0", "1"])
def test_what_mpi_maps_stays_in_its_window(pinned):
    result = mpirun(2, *UNDER, "--", BUILT / "mpi_maps", OMPI_MCA_mpi_leave_pinned=pinned)
    assert (result.status, result.out) == (0, "ok\n"), (result.out, result.err)


def test_the_applications_signals_stay_its_own():
    result = mpirun(2, *UNDER, "--", BUILT / "mpi_maps", "signals")
    assert (result.status, result.out) == (0, "ok\n"), (result.out, result.err)


def test_an_abort_ends_all_ranks_with_its_status():
    """Open MPI's own line about it is garbled now and then, natively too, where machines are busy."""
    result = mpirun(2, *UNDER, "--", BUILT / "mpi_maps", "abort")
    assert result.status == 33 and re.search("MPI_ABORT|show_help", result.err), result


def test_without_the_half_calls_fail_with_a_line():
    env = clean_env(LD_LIBRARY_PATH=str(ROOT / "loader" / "stubs" / "mpi"))
    result = run([BUILT / "mpi_maps"], env)
    assert result.status == 1 and "PMPI_Init: no MPI half" in result.err


def test_every_c_function_of_the_library_is_in_the_stub():
    stub = run(["nm", "-D", "--defined-only", ROOT / "loader" / "stubs" / "mpi" / "libmpi.so.40"],
               clean_env()).out
    library = run(["nm", "-D", "--defined-only", os.path.realpath(next(
        line.split()[-1] for line in subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout.splitlines()
        if line.split()[:1] == ["libmpi.so.40"]))], clean_env()).out
    wanted = re.compile(r"P?MPIX?_[A-Z]\w*[a-z]\w*$|P?MPIX?_T_\w+$|P?MPI_(Wtime|Wtick)$")

    def names(text):
        return {line.split()[-1] for line in text.splitlines()}
    fortran = {n for n in names(library) if n.endswith("_F90")}
    lost = {n for n in names(library) if wanted.match(n)} - names(stub) - fortran
    assert len(names(stub)) > 800 and not lost


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("hpcc"), reason="no hpcc, the HPC Challenge benchmark")
def test_the_hpc_challenge_has_the_same_results(tmp_path):
    """Debian's package, unmodified: it checks its results, and they are those of the native run."""
    found = {}
    for name, under in (("native", []), ("loader", [*UNDER, "--"])):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(ROOT / "tests" / "data" / "hpccinf.txt", folder)
        result = mpirun(4, "--wdir", folder, *under, shutil.which("hpcc"), timeout=300)
        report = (folder / "hpccoutf.txt").read_text(encoding="utf-8")
        assert result.status == 0 and "Success=1" in report, (result.err, report)
        # PTRANS has a second line of a run, CPU, only where its time was enough to be measured
        found[name] = (len(re.findall(r"^WALL.* PASSED ", report, re.M)), report.count("0 tests completed and failed"),
                       re.findall(r"^\|\|Ax-b.*PASSED$", report, re.M))
    assert found["native"][0] == 5 and len(found["native"][2]) > 0 and found["loader"] == found["native"]


@pytest.mark.skipif(subprocess.run(["/usr/bin/python3", "-c", "import mpi4py"], capture_output=True,
                                   check=False).returncode != 0, reason="no mpi4py")
def test_mpi4py_runs_in_python():
    code = ("from mpi4py import MPI; c = MPI.COMM_WORLD; a = c.allgather({'rank': c.rank});"
            "o = MPI.Op.Create(lambda x, y, t: y.__setitem__(0, max(x[0], y[0])), True);"
            "assert a == [{'rank': r} for r in range(c.size)]; n = c.allreduce(c.rank + 1); c.rank or print(n)")
    result = mpirun(3, *UNDER, "--", "/usr/bin/python3", "-c", code)
    assert (result.status, result.out) == (0, "6\n"), result.err
