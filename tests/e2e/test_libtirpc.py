"""tests/e2e/test_libtirpc.py - the submodule: what git says of it, and `make libtirpc` with sources and without.

The sources are a small library with the same build system and the same files.
"""
import os
import re
import shutil
import subprocess

import pytest

from conftest import KIND, ROOT, clean_env, run

pytestmark = pytest.mark.skipif(bool(KIND), reason="nothing here depends on sanitizers")

SCRIPT = ROOT / "tools" / "libtirpc.sh"
COMMIT = "5ca4ca92f629d9d83e83544b9239abaaacf0a527"
URL = "git://git.linux-nfs.org/projects/steved/libtirpc.git"
TREE = {
    "configure.ac": "AC_INIT([libtirpc], [9.8.7])\nAM_INIT_AUTOMAKE([foreign subdir-objects])\n"
                    "AC_CONFIG_MACRO_DIR([m4])\nAC_PROG_CC\nLT_INIT\n"
                    "AC_ARG_ENABLE([gssapi], [AS_HELP_STRING([--disable-gssapi], [without])])\n"
                    "AC_CONFIG_FILES([Makefile libtirpc.pc])\nAC_OUTPUT\n",
    "Makefile.am": "ACLOCAL_AMFLAGS = -I m4\nlib_LTLIBRARIES = libtirpc.la\nlibtirpc_la_SOURCES = src/one.c\n"
                   "libtirpc_la_LDFLAGS = -version-info 3:0:0\npkgconfigdir = $(libdir)/pkgconfig\n"
                   "pkgconfig_DATA = libtirpc.pc\n",
    "libtirpc.pc.in": "prefix=@prefix@\nexec_prefix=@exec_prefix@\nlibdir=@libdir@\nincludedir=@includedir@\n"
                      "Name: libtirpc\nDescription: a stand-in\nVersion: @PACKAGE_VERSION@\n"
                      "Libs: -L@libdir@ -ltirpc\nCflags: -I@includedir@/tirpc\n",
    "src/one.c": "int one(void) { return 1; }\n",
    "m4/.keep": "",
}


def git(*words, folder=ROOT):
    return subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(name="clone", scope="module")
def fixture_clone(tmp_path_factory):
    """A plain clone, as somebody has it who cannot reach the submodule."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    folder = tmp_path_factory.mktemp("clone") / "cricket"
    git("clone", "-q", "--no-checkout", "--shared", ROOT, folder)
    git("checkout", "-q", "HEAD", folder=folder)
    return folder


def write_tree(folder):
    for name, text in TREE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def files(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_the_submodule_is_a_commit_of_libtirpcs_own_repository(clone):
    assert git("ls-tree", "HEAD", "submodules/libtirpc", folder=clone) == f"160000 commit {COMMIT}\tsubmodules/libtirpc\n"
    settings = git("config", "-f", ".gitmodules", "--list", folder=clone)
    assert sorted(settings.splitlines()) == sorted(
        f"submodule.submodules/libtirpc.{s}" for s in ("path=submodules/libtirpc", f"url={URL}", "ignore=dirty"))
    assert re.match(rf"-{COMMIT} submodules/libtirpc$", git("submodule", "status", folder=clone))


def test_a_clone_without_it_says_what_is_used_and_stays_clean(clone):
    result = run(["make", "-C", clone, "--no-print-directory", "libtirpc"], clean_env())
    version = run(["pkg-config", "--modversion", "libtirpc"], clean_env()).out.strip()
    assert result.status == 0 and f"using the system's libtirpc {version}" in result.out, result.err
    assert "git submodule update --init" in result.out
    assert git("status", "--porcelain", folder=clone) == ""


def built_from(folder):
    return run(["make", "-C", folder, "--no-print-directory", "libtirpc"], clean_env(), 240)


def links_with_what_was_built(folder):
    """Headers and library are of one release, in the client and in the server."""
    out = f"{folder}/build/libtirpc"
    show = run(["make", "-s", "-C", folder / "cpu", "show",
                "--eval=show: ; @echo $(LIBS_SERVER); echo $(LIBS_RPC) $(TIRPC_CFLAGS)"], clean_env())
    server, client = show.out.splitlines()
    assert server.startswith(f"-L{out}/lib -ltirpc ") and server.endswith(":$ORIGIN/../build/libtirpc/lib")
    assert client == f"../build/libtirpc/lib/libtirpc.a -I{out}/include/tirpc"


def stays_as_it_was(folder):
    submodule = folder / "submodules" / "libtirpc"
    assert git("status", "--porcelain", folder=folder) == ""
    assert files(submodule) == set(TREE) and os.readlink(submodule / "install") == "../../build/libtirpc"
    assert run(["make", "-C", folder, "clean"], clean_env()).status == 0
    assert (submodule / "install" / "lib" / "libtirpc.so.3").exists()


def is_built_anew_when_it_has_changed(folder):
    """And if that fails, what was built before does not stay for the next build to use."""
    log = folder / "build" / "libtirpc" / "source" / "config.log"
    made = log.stat().st_mtime_ns
    assert built_from(folder).status == 0 and log.stat().st_mtime_ns == made
    (folder / "submodules" / "libtirpc" / "configure.ac").write_text("AC_INIT([libtirpc]\n", encoding="utf-8")
    result = built_from(folder)
    assert result.status != 0 and "libtirpc: error: autoreconf failed" in result.err and "is in" not in result.out
    assert not (folder / "build" / "libtirpc" / "lib").exists()


@pytest.mark.skipif(not shutil.which("libtoolize"), reason="no libtool: make deps")
def test_sources_in_the_submodule_are_built_and_then_used(clone, tmp_path):
    """One build for several questions: it takes most of the time."""
    folder = tmp_path / "cricket"
    git("clone", "-q", "--shared", clone, folder)
    write_tree(folder / "submodules" / "libtirpc")
    result = built_from(folder)
    assert result.status == 0 and "libtirpc: 9.8.7 is in" in result.out, result.err
    links_with_what_was_built(folder)
    stays_as_it_was(folder)
    is_built_anew_when_it_has_changed(folder)


def test_tools_that_are_missing_are_named(tmp_path):
    write_tree(tmp_path / "sources")
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("bash", "sed", "env"):
        (bare / name).symlink_to(shutil.which(name))
    result = run([SCRIPT, tmp_path / "sources", tmp_path / "out"], clean_env(PATH=str(bare)))
    assert result.status == 1
    assert "make deps" in result.err and "libtool" in result.err and len(result.err.splitlines()) == 1
