"""tests/e2e/test_hardening.py - tools/check-hardening finds programs and objects that lack what cpu/hardening.mk adds."""
import subprocess

import pytest

from conftest import KIND, ROOT, clean_env, run

pytestmark = pytest.mark.skipif(bool(KIND), reason="nothing here depends on sanitizers")

CHECK = ROOT / "tools" / "check-hardening"
# More code than the check overlooks, with buffers in it.
SOURCE = """
#include <stdio.h>
#include <string.h>
#define ONE(n) int f##n(const char *s) { char b[64 + n]; strcpy(b, s); return (int)strlen(b) + printf("%s", b); }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
TEN(10) TEN(11) TEN(12) TEN(13) TEN(14) TEN(15) TEN(16) TEN(17) TEN(18) TEN(19) TEN(20) TEN(21) TEN(22) TEN(23) TEN(24)
int main(int argc, char **argv) { return argc ? f10(argv[0]) : 0; }
"""
HARD = ["-O2", "-fPIE", "-fcf-protection", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-pie",
        "-Wl,-z,relro,-z,now,-z,noexecstack"]


def build(folder, *flags):
    (folder / "program.c").write_text(SOURCE)
    subprocess.run(["cc", *HARD, *flags, "-w", "-o", folder / "program", folder / "program.c"], check=True)
    return folder / "program"


def test_a_hardened_program_passes(tmp_path):
    checked = run([CHECK, build(tmp_path)], clean_env())
    assert checked.status == 0, checked.out + checked.err


@pytest.mark.parametrize("flags, fault", [
    (["-fno-stack-protector"], "-fstack-protector-strong"),
    (["-U_FORTIFY_SOURCE"], "-D_FORTIFY_SOURCE"),
    (["-fno-PIE", "-no-pie"], "-pie"),
    (["-Wl,-z,lazy"], "-z,now"),
    (["-Wl,-z,norelro"], "-z,relro"),
    (["-Wl,-z,execstack"], "-z,noexecstack"),
    (["-Wl,-rpath,/tmp/somewhere"], "looks for libraries in /tmp/somewhere"),
])
def test_a_program_without_one_of_them_is_named(tmp_path, flags, fault):
    checked = run([CHECK, build(tmp_path, *flags)], clean_env())
    assert checked.status == 1
    assert fault in checked.out, checked.out + checked.err


def test_an_object_without_marks_for_branches_is_named(tmp_path):
    (tmp_path / "program.c").write_text(SOURCE)
    made = tmp_path / "program.o"
    subprocess.run(["cc", *HARD, "-fcf-protection=none", "-w", "-c", "-o", made, tmp_path / "program.c"], check=True)
    checked = run([CHECK, made], clean_env())
    assert checked.status == 1
    assert "-fcf-protection" in checked.out, checked.out + checked.err
