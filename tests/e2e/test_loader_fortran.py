"""tests/e2e/test_loader_fortran.py - MPI programs in Fortran whose MPI library is a lower half.

tests/loader/mpi_fortran.F90 is built three times, with mpif.h and with both modules; each result must be the native one.
"""
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, SAN, TSAN, clean_env, run
from test_loader_mpi import BUILT, UNDER, mpirun

pytestmark = [
    pytest.mark.skipif(SAN or TSAN, reason="the loader runs without a libc, so without a sanitizer"),
    pytest.mark.skipif(not shutil.which("mpirun") or not shutil.which("mpifort"), reason="no Open MPI"),
    pytest.mark.skipif(not shutil.which("gfortran"), reason="no Fortran compiler (gfortran)"),
]

STUBS = ROOT / "loader" / "stubs" / "mpi"
ALL = ["pingpong", "in_place", "operation", "requests", "types", "attributes", "handlers", "strings", "generalized",
       "graph", "window", "exchange", "file", "jacobi"]


@pytest.mark.parametrize("by", ["mpif", "mpi", "f08"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_checks_come_out_as_they_do_natively(by, ranks, tmp_path):
    for under in ([], [*UNDER, "--"]):
        result = mpirun(ranks, *under, BUILT / f"mpi_fortran_{by}", *ALL, TMPDIR=str(tmp_path))
        assert (result.status, result.out) == (0, "".join(f"{c} ok\n" for c in ALL)), result.err


def test_the_library_for_fortran_is_in_the_half_and_its_modules_are_not():
    result = mpirun(1, *UNDER, "--map", "--", BUILT / "mpi_fortran_f08", "in_place")
    assert result.status == 0, result.err
    assert re.search(r"^upper\t.*loader/stubs/mpi/libmpi_mpifh\.so\.40$", result.err, re.M), result.err
    assert re.search(r"^mpi\t.*/libmpi_mpifh\.so\.40\.[0-9.]+$", result.err, re.M)
    assert re.search(r"^upper\t.*/libmpi_usempif08\.so\.40\.[0-9.]+$", result.err, re.M)
    assert not re.search(r"^upper\t.*/libmpi(_mpifh)?\.so\.40\.[0-9.]+$", result.err, re.M)


def test_system_calls_in_place_of_fsgsbase_pass_the_same_arguments():
    result = mpirun(2, *UNDER, "--", BUILT / "mpi_fortran_f08", "attributes", "exchange", CRICKET_LOADER_FSGSBASE="0")
    assert (result.status, result.out) == (0, "attributes ok\nexchange ok\n"), result.err


def test_without_the_half_routines_return_an_error():
    env = clean_env(LD_LIBRARY_PATH=str(STUBS))
    result = run([BUILT / "mpi_fortran_mpif", "handlers"], env)
    assert result.status == 3 and "no MPI half is loaded" in result.err, result


def test_every_routine_of_the_library_is_in_the_stub():
    def names(*libraries):
        out = "".join(run(["nm", "-D", "--defined-only", lib], clean_env()).out for lib in libraries)
        return {line.split()[-1] for line in out.splitlines() if line.split()[-2] in "TW"}
    libraries = [line.split()[-1] for line in subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout.splitlines()
        if line.split()[:1] == ["libmpi_mpifh.so.40"]]
    wanted = names(libraries[0])
    assert len(wanted) > 4000 and not wanted - names(STUBS / "libmpi.so.40")
