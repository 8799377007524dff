"""tests/e2e/test_build.py - what single goals of the build leave: enough to run."""
import os
import re
import shutil

import pytest

from conftest import KIND, ROOT, Server, clean_env, client_env, run

pytestmark = pytest.mark.skipif(bool(KIND), reason="nothing here depends on sanitizers")


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    """Sources and objects, without what is linked of them."""
    names = ["cpu/Makefile", "cpu/hardening.mk", "cpu/build", *(f.name for f in ROOT.iterdir() if f.is_dir() and f.name not in
                                            (".git", "cpu", "build", "tests", "bench", "docs", "submodules"))]
    for name in names:
        target = tmp_path / "cricket" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, target)
    return tmp_path / "cricket"


def test_server_and_client_alone_run_a_program_without_a_gpu(tree, app, tmp_path):
    """The two goals that the README names, and the server as it starts by itself."""
    made = run(["make", "-C", tree / "cpu", "cricket-rpc-server", "cricket-client.so"], clean_env(), 300)
    assert made.status == 0, made.err
    server = Server(tmp_path / "server", "--driver", "auto", program=tree / "cpu" / "cricket-rpc-server")
    env = client_env(server.address("unix"), LD_PRELOAD=str(tree / "cpu" / "cricket-client.so"))
    result = run([app("vector_add")], env)
    server.stop()
    assert "0 wrong" in result.out, result.err


def test_a_server_without_the_emulated_driver_says_how_to_build_it(tmp_path):
    shutil.copy2(ROOT / "cpu" / "cricket-rpc-server", tmp_path)
    result = run([tmp_path / "cricket-rpc-server", "--driver", "emu", "--listen", "127.0.0.1:0", "--unix",
                  tmp_path / "socket"], clean_env())
    assert result.status == 1
    assert "make -C cpu libcuda-emu.so" in result.err, result.err


@pytest.fixture(name="compiler")
def fixture_compiler(tmp_path):
    """A compiler that compiles, and fails after it has begun to write what it links."""
    wrapper = tmp_path / "compiler"
    wrapper.write_text(r"""#!/bin/sh
case " $* " in *" -shared "* | *" -pie "*) ;; *) exec cc "$@" ;; esac
while [ "$1" != -o ]; do shift; done
echo broken >"$2"
echo "undefined reference to 'inflate'" >&2
exit 1
""")
    wrapper.chmod(0o755)
    return wrapper


def test_what_could_not_be_linked_is_not_taken_for_built(tree, compiler):
    goal = tree / "cpu" / "m3-server"
    failed = run(["make", "-C", tree / "cpu", "m3-server", f"CC={compiler}"], clean_env(), 300)
    assert failed.status != 0 and "inflate" in failed.err
    assert not goal.exists()
    made = run(["make", "-C", tree / "cpu", "m3-server"], clean_env(), 300)
    assert made.status == 0 and os.access(goal, os.X_OK), made.err


@pytest.mark.parametrize("makefile", sorted(str(p.relative_to(ROOT)) for depth in ("", "*/", "*/*/", "*/*/*/")
                                            for p in ROOT.glob(f"{depth}Makefile") if "build" not in p.relative_to(ROOT).parts))
def test_no_makefile_keeps_what_a_failed_command_has_written(makefile):
    assert "\n.DELETE_ON_ERROR:\n" in (ROOT / makefile).read_text(encoding="utf-8")


def test_a_demo_that_fails_gives_the_reason(tmp_path):
    """Its own script, with folders in which the build fails."""
    for name in ("tools", "cpu"):
        (tmp_path / name).mkdir()
    shutil.copy2(ROOT / "tools" / "demo.sh", tmp_path / "tools")
    (tmp_path / "tools" / "deps.sh").write_text("#!/bin/sh\n")
    (tmp_path / "tools" / "deps.sh").chmod(0o755)
    goals = "build-demo/cricket-rpc-server build-demo/cricket-client.so build-demo/libnvidia-ml.so.1 build-demo/libcuda-emu.so"
    (tmp_path / "cpu" / "Makefile").write_text(
        f"{goals}:\n\t@echo \"  CC    chan.c\"; echo \"undefined reference to 'inflate'\" >&2; false\n")
    result = run([tmp_path / "tools" / "demo.sh"], clean_env())
    assert result.status != 0
    assert "make demo: failed" in result.err and "undefined reference to 'inflate'" in result.err
    assert "CC    chan.c" not in result.err


def test_a_demo_whose_server_ends_gives_its_last_words(tmp_path):
    for name in ("tools", "cpu/build-demo", "tests/test_apps/bin"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy2(ROOT / "tools" / "demo.sh", tmp_path / "tools")
    scripts = {"tools/deps.sh": "", "cpu/build-demo/cricket-rpc-server": "echo 'ERROR: no port is free'; exit 1"}
    for name, words in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{words}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("cricket-client.so", "libnvidia-ml.so.1", "libcuda-emu.so"):
        (tmp_path / "cpu" / "build-demo" / name).touch()
    (tmp_path / "tests" / "test_apps" / "bin" / "vector_add").touch()
    for folder in ("cpu", "tests/test_apps"):
        (tmp_path / folder / "Makefile").write_text("%:\n\t@:\n")
    result = run([tmp_path / "tools" / "demo.sh"], clean_env())
    assert result.status != 0 and "ERROR: no port is free" in result.err, result.out


def test_make_names_the_libraries_that_are_missing_before_it_compiles(tmp_path):
    """With a pkg-config that knows one library only."""
    (tmp_path / "openssl.pc").write_text("Name: openssl\nDescription: one\nVersion: 3\n")
    result = run(["make", "cpu"], clean_env(PKG_CONFIG_LIBDIR=str(tmp_path), PKG_CONFIG_PATH=""))
    assert result.status != 0 and "CC " not in result.out
    assert re.search(r"missing: libtirpc .*libmicrohttpd; 'make deps' installs", result.err), result.err
    assert "openssl" not in result.err


def test_no_test_runs_twice_to_pass(tmp_path):
    """A unit test that would pass the second time has failed; nor does make repeat the others."""
    program = tmp_path / "test_once"
    program.write_text(f"#!/bin/sh\necho run >>{tmp_path}/runs\necho '[       OK ] one'\n[ $(wc -l <{tmp_path}/runs) -gt 1 ]\n")
    program.chmod(0o755)
    result = run([ROOT / "tests" / "run-units", "10", "1", program], clean_env())
    assert result.status == 1 and "FAILED  test_once" in result.out and "1 failed" in result.out, result.out
    assert (tmp_path / "runs").read_text() == "run\n"
    assert not re.search("last-failed|--lf|--reruns", (ROOT / "Makefile").read_text())


def test_check_installs_what_is_missing_before_it_compiles():
    goals = re.search(r"^check:(.*?)##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M).group(1).split()
    assert goals[0] == "deps" and "\n.NOTPARALLEL:\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [["--demo"], []], ids=" ".join)
def test_without_dpkg_libraries_are_looked_for(tmp_path, options):
    """The programs of this system, less Debian's own."""
    for program in ("bash", "sed", "grep", "env", "dirname", "gcc", "g++", "make", "python3", "rpcgen"):
        (tmp_path / program).symlink_to(shutil.which(program, path="/usr/bin:/bin"))
    (tmp_path / "pkg-config").write_text(f"#!/bin/sh\n[ $2 != cmocka ] && exec {shutil.which('pkg-config')} \"$@\"\n")
    (tmp_path / "pkg-config").chmod(0o755)
    result = run([ROOT / "tools" / "deps.sh", "--no-cuda", *options], clean_env(PATH=str(tmp_path)))
    if options:
        assert result.status == 0 and "all commands and libraries are there" in result.out, result.err
    else:
        assert result.status != 0 and "missing: cmocka; this is neither Debian nor Ubuntu" in result.err
        assert "libcmocka-dev" in result.err
