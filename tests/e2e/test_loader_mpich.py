"""tests/e2e/test_loader_mpich.py - programs of MPICH, in C, C++ and Fortran, whose MPI library is a lower half.

The programs are those of test_loader_mpi.py and test_loader_fortran.py, made with MPICH's compilers. Two ranks: MPICH
spins while it waits, so more ranks than processors take minutes, natively too.
"""
import re
import shutil

import pytest

import test_loader_fortran
import test_loader_mpi
from conftest import ROOT, SAN, TSAN, clean_env, run
from test_loader_mpi import BUILT, LOADER

pytestmark = [
    pytest.mark.skipif(SAN or TSAN, reason="the loader runs without a libc, so without a sanitizer"),
    pytest.mark.skipif(not shutil.which("mpirun.mpich") or not shutil.which("mpicc.mpich"), reason="no MPICH (libmpich-dev)"),
]

UNDER = [LOADER, "--lh", f"mpich={ROOT / 'loader' / 'mpich_lh.exe'}"]


def mpirun(ranks, *command, timeout=120, **env):
    return run(["mpirun.mpich", "-n", str(ranks), *command], clean_env(**env), timeout)


@pytest.fixture(scope="module", autouse=True)
def mpich_that_works():
    if mpirun(2, BUILT / "mpich_cxx").out.count("largest 0") == 2:
        pytest.skip("the processes of this MPICH do not find each other, natively, as those of Ubuntu 24.04's 4.2.0")


def test_checks_come_out_as_they_do_natively():
    checks = test_loader_mpi.ALL
    for under in ([], [*UNDER, "--"]):
        result = mpirun(2, *under, BUILT / "mpich_checks", *checks)
        assert (result.status, result.out) == (0, "".join(f"{c} ok\n" for c in checks)), result.err


def test_a_program_in_cxx_runs_as_natively():
    """Its classes are in libmpichcxx, which stays beside the program; their operations are the half's callbacks."""
    for under in ([], [*UNDER, "--"]):
        result = mpirun(2, *under, BUILT / "mpich_cxx")
        assert (result.status, result.out) == (0, "largest 1, sum 1, 3 threads\n"), result.err


@pytest.mark.skipif(not shutil.which("gfortran"), reason="no Fortran compiler (gfortran)")
@pytest.mark.parametrize("by", ["mpif", "mpi", "f08"])
def test_a_program_in_fortran_runs_as_natively(by, tmp_path):
    # What MPICH 4.0.2 itself does wrong: a put into a static variable may be lost, and MPI_Waitany of mpi_f08
    # returns a wrong index. The program in C has both.
    checks = [c for c in test_loader_fortran.ALL if c != "window" and (by, c) != ("f08", "requests")]
    for under in ([], [*UNDER, "--"]):
        result = mpirun(2, *under, BUILT / f"mpich_fortran_{by}", *checks, TMPDIR=str(tmp_path))
        assert (result.status, result.out) == (0, "".join(f"{c} ok\n" for c in checks)), result.err


def test_the_library_is_in_the_half_only():
    result = mpirun(1, *UNDER, "--map", "--", BUILT / "mpich_checks", "allreduce")
    assert result.status == 0, result.err
    assert re.search(r"^upper\t.*loader/stubs/mpich/libmpich\.so\.12$", result.err, re.M), result.err
    assert re.search(r"^mpich\t.*/libmpich\.so\.12\.[0-9.]+$", result.err, re.M)
    assert not re.search(r"^upper\t.*/lib(mpich\.so\.12\.[0-9.]+|ucp\.so)", result.err, re.M)


def test_without_a_half_for_it_the_library_stays_beside_the_program():
    """UCX, which MPICH is linked with, takes libc's brk over, and enters the kernel itself."""
    result = mpirun(2, LOADER, "--", BUILT / "mpich_checks", "allreduce", "types")
    assert (result.status, result.out) == (0, "allreduce ok\ntypes ok\n"), result.err


def test_without_the_half_calls_fail_with_a_line():
    env = clean_env(LD_LIBRARY_PATH=str(ROOT / "loader" / "stubs" / "mpich"))
    result = run([BUILT / "mpich_checks", "allreduce"], env)
    assert result.status != 0 and "PMPI_Init_thread: no MPI half" in result.err, result


def test_every_function_of_the_library_is_in_the_stub():
    def names(path):
        out = run(["nm", "-D", "--defined-only", path], clean_env()).out
        return {line.split()[-1] for line in out.splitlines()}
    stub = names(ROOT / "loader" / "stubs" / "mpich" / "libmpich.so.12")
    library = names("/usr/lib/x86_64-linux-gnu/libmpich.so.12")
    lost = {n for n in library - stub if not re.match(r"QMPI_|MPIR_Err_|MPII_Version_", n)}
    assert len(library) > 1000 and not lost
