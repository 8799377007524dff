"""tests/e2e/test_libraries.py - libm3 and libwcm as other projects find and use them: SONAME, symbol versions, pkg-config,
CMake, the examples of docs/examples/libraries, and the check of their ABI."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import KIND, PRODUCTS, ROOT, clean_env, ended, run, start

pytestmark = pytest.mark.skipif(bool(KIND), reason="what has sanitizers is not installed")

EXAMPLES = ROOT / "docs" / "examples" / "libraries"
LIBRARIES = {"m3": ("LIBM3_1.0", ["m3.h"]), "wcm": ("LIBWCM_1.0", ["wcm.h"])}
CHECK_ABI = ROOT / "tools" / "check-abi"


def output(*command, **more):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=clean_env(**more), timeout=300,
                            check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def installed(folder, libdir=""):
    """Installs both libraries and the broker below FOLDER, as a package for /usr."""
    more = {"LIBDIR": libdir} if libdir else {}
    output(ROOT / "tools" / "install.sh", "memory", "/usr", DESTDIR=str(folder), **more)
    return folder / "usr"


@pytest.fixture(name="prefix", scope="module")
def fixture_prefix(tmp_path_factory):
    return installed(tmp_path_factory.mktemp("libraries"))


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_has_a_version_and_so_have_its_functions(prefix, name):
    node, headers = LIBRARIES[name]
    library = prefix / "lib" / f"lib{name}.so"
    assert f"Library soname: [lib{name}.so.1]" in output("readelf", "-dW", library)
    symbols = re.findall(r"(\w+)@@(\S+)", output("nm", "-D", "--defined-only", "--with-symbol-versions", library))
    assert {version for _, version in symbols} == {node}
    text = "".join((ROOT / name / h).read_text(encoding="utf-8") for h in headers)
    declared = re.findall(rf"^{name.upper()}_API [^;(]*?\b({name}_\w+)\(", text, re.M)
    assert len(declared) > 25 and {s for s, _ in symbols} == set(declared)
    # Debian's list of the same, which the build of the packages compares too.
    package = {"m3": "libm3-1", "wcm": "libwcm1"}[name]
    listed = re.findall(rf"^ (\w+)@{node} ", (ROOT / "debian" / f"{package}.symbols").read_text(encoding="utf-8"), re.M)
    assert set(declared) == set(listed)


def built_by_pkg_config(folder, env):
    shutil.copytree(EXAMPLES, folder)
    output("make", "-C", folder, **env)
    return folder


def built_by_cmake(folder, prefix):
    output("cmake", "-S", EXAMPLES, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}")
    output("cmake", "--build", folder)
    return folder


def squares(program, env, ranks=2):
    """What each of the ranks prints; they meet by the name of this test's own group."""
    running = [start([program, rank, ranks], env) for rank in range(ranks)]
    return [ended(r, 60) for r in running]


@pytest.mark.parametrize("way", ["pkg-config", "pkg-config of another libdir", "cmake", "cmake of another libdir"])
def test_the_examples_are_built_with_what_is_installed_and_run(prefix, tmp_path, way):
    tool = way.split(" ", maxsplit=1)[0]
    if not shutil.which(tool):
        pytest.skip(f"no {tool}")
    libdir = "lib"
    emulated = prefix / "lib" / "cricket" / "libcuda-emu.so"
    if "another" in way:
        libdir = "lib/x86_64-linux-gnu"
        prefix = installed(tmp_path / "package", libdir)
        assert not (prefix / "lib" / "libm3.so.1").exists() and not (prefix / "lib" / "cricket" / "libm3.so.1").exists()
    if tool == "cmake":
        folder = built_by_cmake(tmp_path / "build", prefix)
    else:
        folder = built_by_pkg_config(tmp_path / "build", {
            "PKG_CONFIG_PATH": str(prefix / libdir / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(prefix.parent)})
    for program, name in (("note", "m3"), ("squares", "wcm")):
        assert f"Shared library: [lib{name}.so.1]" in output("readelf", "-dW", folder / program)
    env = clean_env(LD_LIBRARY_PATH=f"{prefix / libdir}:{PRODUCTS / 'emu'}", CRICKET_M3=str(tmp_path / "m3"), CRICKET_DRIVER=str(emulated),
                    CRICKET_WCM=f"group=examples-{os.getpid()}", PATH=f"{prefix / 'bin'}:{os.environ['PATH']}")
    try:
        result = run([folder / "note", "kept by the broker"], env)
        assert (result.status, result.err) == (0, "")
        assert run([folder / "note"], env).out == "kept by the broker\n"
    finally:
        run([prefix / "bin" / "m3", "--socket", tmp_path / "m3", "halt"], env)
    for result in squares(folder / "squares", env):
        assert (result.status, result.out, result.err) == (0, "0 1\n", "")


def test_pkg_config_and_cmake_know_the_release(prefix):
    release = re.search(r"^RELEASE := (.*)$", (ROOT / "cpu" / "Makefile").read_text(encoding="utf-8"), re.M).group(1)
    for name in LIBRARIES:
        text = (prefix / "lib" / "pkgconfig" / f"{name}.pc").read_text(encoding="utf-8")
        assert f"\nVersion: {release}\n" in text and text.startswith("prefix=/usr\n") and "@" not in text
        folder = prefix / "lib" / "cmake" / name
        text = "".join(p.read_text(encoding="utf-8") for p in folder.iterdir())
        assert f'PACKAGE_VERSION "{release}"' in text and "@" not in text


def library_of(folder, source, header):
    """A library of that source, whose only public header is api.h."""
    folder.mkdir(exist_ok=True)
    (folder / "api.h").write_text(header, encoding="utf-8")
    (folder / "api.c").write_text(f'#include "api.h"\n{source}', encoding="utf-8")
    output("gcc", "-g", "-shared", "-fPIC", "-Wl,-soname,libapi.so.1", "-o", folder / "libapi.so.1", folder / "api.c")
    return folder / "libapi.so.1"


SOURCE = "int api_use(struct api *a) { return a->one; }\n"
HEADER = "struct api { int one; };\nint api_use(struct api *a);\n"


@pytest.mark.parametrize("source, header, fits", [
    (SOURCE, HEADER, True),
    (SOURCE + "int api_more(void) { return 1; }\n", HEADER + "int api_more(void);\n", True),
    (SOURCE, HEADER.replace("int one;", "int zero; int one;"), False),
    (SOURCE.replace("int api_use", "long api_use"), HEADER.replace("int api_use", "long api_use"), False),
    ("int api_more(void) { return 1; }\n", HEADER + "int api_more(void);\n", False)],
    ids=["equal", "a new function", "a structure grows", "a result changes", "a function is missing"])
def test_the_check_of_the_abi_finds_what_breaks_programs(tmp_path, source, header, fits):
    if not shutil.which("abidw"):
        pytest.skip("no abidw (tools/deps.sh --packages)")
    before = library_of(tmp_path / "before", SOURCE, HEADER)
    abi = tmp_path / "libapi.abi"
    output(CHECK_ABI, "--write", before, abi, tmp_path / "before" / "api.h")
    after = library_of(tmp_path / "after", source, header)
    result = run([CHECK_ABI, after, abi, tmp_path / "after" / "api.h"], clean_env())
    assert result.status == (0 if fits else 1), result.out + result.err
    assert fits or "differs from" in result.err


def test_the_libraries_keep_the_abi_of_the_last_release():
    result = run([CHECK_ABI], clean_env())
    if result.status == 77:
        pytest.skip(result.out)
    assert result.status == 0, result.out + result.err
    assert pathlib.Path(ROOT / "abi" / "libm3.so.1.abi").stat().st_size > 1000
