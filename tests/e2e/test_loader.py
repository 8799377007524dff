"""tests/e2e/test_loader.py - kernel-loader: several programs, each with its own libc, in one process.

tests/loader has the lower half "toy" with its stub, and checks.c, the application that looks at it
from all sides. The loader itself needs no server and no GPU.
"""
import os
import re
import resource
import shutil
import signal
import subprocess

import pytest

from conftest import ROOT, SAN, TSAN, clean_env, run

pytestmark = pytest.mark.skipif(SAN or TSAN, reason="the loader runs without a libc, so without a sanitizer")

LOADER = ROOT / "loader" / "kernel-loader"
BUILT = ROOT / "build" / "tests-loader"
TOY = f"toy={BUILT / 'toy_lh.exe'}"
OTHER = f"other={BUILT / 'other_lh.exe'}"
CHECKS = BUILT / "checks"
LDSO = "/lib64/ld-linux-x86-64.so.2"


def load(*command, halves=(TOY,), options=(), timeout=60, **env):
    """Runs COMMAND with these lower halves."""
    lower = [word for half in halves for word in ("--lh", half)]
    return run([LOADER, *lower, *options, "--", *command], clean_env(**env), timeout)


def maps(result):
    """The lines that --map printed: (half, start, end, name)."""
    found = re.findall(r"^(\w+)\t([0-9a-f]+)-([0-9a-f]+) [-rwxps]{4} (.*)$", result.err, re.M)
    return [(half, int(a, 16), int(b, 16), name) for half, a, b, name in found]


# --- what an application sees

CHECK_NAMES = [
    "calls", "each_its_own", "thread_block", "memory", "places", "reuse", "stacks", "vdso", "callbacks",
    "threads", "threads_are_given_back", "signals", "their_handler", "their_flags", "setuid_with_threads",
    "cancel", "libraries", "libc_again", "children", "thread_of_a_child", "busy", "reload", "upper_region"]


@pytest.mark.parametrize("program", ["checks", "checks_fixed"])
@pytest.mark.parametrize("check", CHECK_NAMES)
def test_check(check, program):
    result = load(BUILT / program, check)
    assert (result.status, result.out.splitlines()[-1]) == (0, f"{check} ok"), result.err


@pytest.mark.parametrize("check", ["calls", "each_its_own", "callbacks", "threads", "signals", "reload"])
def test_without_fsgsbase(check):
    result = load(CHECKS, check, CRICKET_LOADER_FSGSBASE="0")
    assert (result.status, result.out) == (0, f"{check} ok\n"), result.err


def test_all_checks_in_one_process_with_two_halves():
    result = load(CHECKS, "calls", "reload", "signals", "threads", "memory", "reload", "children",
                  halves=(TOY, OTHER))
    assert (result.status, result.out.count(" ok\n")) == (0, 7), (result.out, result.err)


def test_a_fault_of_a_halfs_own_thread_ends_a_program_whose_handler_takes_no_siginfo():
    result = load(CHECKS, "their_fault")
    assert result.status == 128 + signal.SIGSEGV, result.err


# --- the application is a program like any other

def test_a_status_is_the_applications():
    assert load(BUILT / "empty").status == 9
    assert load("bash", "-c", "exit 7").status == 7
    assert load("bash", "-c", "kill -9 $$").status == 128 + 9
    assert load("bash", "-c", "kill -TERM $$").status == 128 + 15


def test_arguments_and_input_are_the_applications():
    result = load("bash", "-c", 'printf "<%s>" "$0" "$@"', "name", "a b", "", "--map")
    assert result.out == "<name><a b><><--map>"
    got = subprocess.run([LOADER, "--lh", TOY, "--", "cat"], input="in\n", env=clean_env(), timeout=60,
                         capture_output=True, text=True, check=False)
    assert (got.returncode, got.stdout, got.stderr) == (0, "in\n", "")


def test_python_is_an_upper_half():
    code = ("import sys, threading, subprocess, ssl, sqlite3, ctypes; t = threading.Thread(target=print,"
            " args=('thread',)); t.start(); t.join(); print(sys.prefix, sys.argv[1:],"
            " subprocess.check_output(['echo', 'sub']))")
    result = load("/usr/bin/python3", "-c", code, "x")
    assert (result.status, result.out) == (0, "thread\n/usr ['x'] b'sub\\n'\n"), result.err


def test_bash_is_an_upper_half():
    result = load("bash", "-c", "trap 'echo trapped' USR1; kill -USR1 $$; (echo sub); echo $(echo $((6*7))) | cat")
    assert (result.status, result.out) == (0, "trapped\nsub\n42\n"), result.err


def test_there_may_be_no_lower_half():
    result = load("bash", "-c", "echo $LHINFO_PTR", halves=())
    assert result.status == 0 and re.fullmatch(r"0x[0-9a-f]{16}\n", result.out)


def test_a_child_is_not_taken_for_loaded():
    result = load("bash", "-c", f"{CHECKS}; exit $?", LD_LIBRARY_PATH=str(BUILT / "stubs" / "toy"))
    assert (result.status, result.out) == (3, "no loader\n")
    unset = run([CHECKS], clean_env(LHINFO_PTR="0xffffffffffffffff",
                                    LD_LIBRARY_PATH=str(BUILT / "stubs" / "toy")))
    assert unset.status == 3


def test_constructors_and_exit_handlers_run_in_order():
    for program in (BUILT / "empty", "bash"):
        args = ("-c", "echo body; exit 9") if program == "bash" else ()
        result = load(program, *args, halves=(TOY, OTHER), TOY_TALK="1")
        assert result.status == 9
        begun = [f"{n}: {w}" for n in ("toy", "other") for w in ("constructor", "main")]
        lines = [line for line in result.out.splitlines() if line != "body"]
        # A half's output waits in its own buffer until its end: the last half ends first.
        assert lines == begun[2:] + ["other: destructor"] + begun[:2] + ["toy: destructor"]


def test_options_for_the_applications_ldso_do_not_reach_children():
    result = run(["env", "-u", "LD_LIBRARY_PATH", LOADER, "--lh", TOY, "--", "bash", "-c", "env"], clean_env())
    assert not re.search(r"^(LD_PRELOAD|LD_LIBRARY_PATH|GLIBC_TUNABLES)=", result.out, re.M)


@pytest.mark.slow
def test_it_starts_a_hundred_times():
    loop = 'for i in $(seq 100); do "$@"; [ $? = 9 ] || exit 1; done'
    result = run(["bash", "-c", loop, "bash", LOADER, "--lh", TOY, "--lh", OTHER, "--", BUILT / "empty"],
                 clean_env())
    assert (result.status, result.err) == (0, "")


# --- who lies where

def test_every_mapping_lies_in_its_window():
    result = load(BUILT / "empty", halves=(TOY, OTHER), options=["--map"])
    lines = maps(result)
    assert {half for half, *_ in lines} == {"toy", "other", "upper", "loader", "kernel"}
    kernels = {name for half, _, _, name in lines if half == "kernel"}
    assert kernels <= {"[stack]", "[vvar]", "[vvar_vclock]", "[vdso]", "[vsyscall]", "[heap]"}
    files = {half: {os.path.basename(n) for h, _, _, n in lines if h == half} for half, *_ in lines}
    for half in ("toy", "other", "upper"):
        assert "libc.so.6" in files[half] and "ld-linux-x86-64.so.2" in files[half]


def test_a_base_can_be_chosen():
    bases = {"toy": 0x100000000000, "other": 0x200000000000}
    halves = [f"{TOY}@{bases['toy']:#x}", f"{OTHER}@{bases['other']:#x}"]
    result = load(CHECKS, "calls", halves=halves, options=["--map"])
    assert result.status == 0, result.err
    for half, base in bases.items():
        starts = [a for h, a, _, _ in maps(result) if h == half]
        assert min(starts) == base and max(starts) < base + (1 << 40)


def test_the_layout_is_the_same_each_time():
    layouts = set()
    for _ in range(6):
        result = load(BUILT / "empty", halves=(TOY, OTHER), options=["--map"])
        layouts.add(tuple(m for m in maps(result) if m[3] not in ("[stack]", "[heap]")))
    assert len(layouts) == 1


@pytest.mark.skipif(not shutil.which("gdb"), reason="no gdb")
def test_gdb_sees_through_the_halves(tmp_path):
    script = tmp_path / "symbols"
    assert load(BUILT / "empty", options=["--gdb", script]).status == 9
    commands = ["handle SIGALRM nostop", f"source {script}", "hbreak toy_lh.c:toy_add", "continue", "backtrace"]
    # The layout is that of the last time: the commands hold for every later run.
    load(CHECKS, "calls", options=["--gdb", script])
    result = run(["gdb", "-q", "-batch", "-ex", "starti",
                  *[word for c in commands for word in ("-ex", c)],
                  "--args", LOADER, "--lh", TOY, "--", CHECKS, "calls"], clean_env())
    assert re.search(r"#0 .*toy_add .*toy_lh\.c", result.out), result.out
    assert re.search(r"#\d+ .* main .*checks\.c", result.out), result.out


# --- what is refused: one line, status 2, and nothing of the application has run

def refused(result, *words):
    assert (result.status, result.out) == (2, ""), (result.out, result.err)
    lines = result.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("kernel-loader: "), result.err
    assert all(word in lines[0] for word in words), lines[0]


def doctored(path, tmp_path, change):
    """A copy of a file with other bytes in it."""
    copy = tmp_path / os.path.basename(path)
    with open(path, "rb") as f:
        copy.write_bytes(change(f.read()))
    copy.chmod(0o755)
    return copy


def test_a_missing_file_is_refused(tmp_path):
    refused(load("true", halves=(f"toy={tmp_path}/none",)), "toy", f"{tmp_path}/none", "no such file")
    refused(load(tmp_path / "none"), "none", "no such file")
    refused(load("no-such-program"), "no-such-program", "PATH")


def test_another_architecture_is_refused(tmp_path):
    arm = doctored(BUILT / "empty", tmp_path, lambda b: b[:18] + b"\xb7\x00" + b[20:])
    refused(load(arm), "empty", "architecture")
    refused(load("true", halves=(f"toy={arm}",)), "toy", "architecture")


@pytest.mark.parametrize("program,reason", [
    (BUILT / "static", "statically linked"), (ROOT / ".ci" / "run", "script"),
    (ROOT / "README.md", "not an ELF file"), (ROOT, "directory")])
def test_what_is_no_dynamic_program_is_refused(program, reason):
    refused(load(program), str(program), reason)
    refused(load("true", halves=(f"toy={program}",)), "toy", reason)


@pytest.mark.parametrize("cut", [4, 64, 100])
def test_a_damaged_program_is_refused(tmp_path, cut):
    refused(load(doctored(BUILT / "empty", tmp_path, lambda b: b[:cut])), "empty")


def test_a_pipe_is_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused(load(pipe), "pipe", "no file")
    refused(run([LOADER, "--check", pipe], clean_env()), "pipe", "no file")


def test_an_ldso_that_ends_too_early_is_refused(tmp_path):
    name = b"/lib64/ld-linux-x86-64.so.2\0"
    short = doctored("/lib64/ld-linux-x86-64.so.2", tmp_path, lambda b: b[:0x30000])
    os.symlink(short, f"/tmp/ck{os.getpid()}")
    try:
        other = f"/tmp/ck{os.getpid()}".encode().ljust(len(name), b"\0")
        refused(load(doctored(BUILT / "empty", tmp_path, lambda b: b.replace(name, other))), "it ends before")
    finally:
        os.unlink(f"/tmp/ck{os.getpid()}")


def test_a_long_library_path_arrives_whole(tmp_path):
    """Its last folder has a libc, which a program finds there only when nothing of the path is missing."""
    shutil.copy(libc_of(BUILT / "empty"), tmp_path / "libc.so.6")
    path = ":".join(f"{tmp_path}/{i:04}" for i in range(1500))
    result = load(BUILT / "empty", options=["--map"], LD_LIBRARY_PATH=f"{path}:{tmp_path}")
    assert str(tmp_path / "libc.so.6") in {name for half, _, _, name in maps(result) if half == "upper"}


def test_no_window_holds_the_vdso():
    base = f"{TOY}@0x118000000000"
    result = load(CHECKS, "reload", "vdso", halves=(base,), options=["--map"])
    assert result.status == 0 and "vdso ok" in result.out, result.err
    assert {half for half, _, _, name in maps(result) if name in ("[vdso]", "[vvar]")} == {"kernel"}


def test_bases_that_collide_are_refused():
    exe = BUILT / "toy_lh.exe"
    refused(load("true", halves=(f"{TOY}@0x200000000000", f"{OTHER}@0x200000000000")), "collides")
    refused(load("true", halves=(f"{TOY}@0x200000000000", f"{OTHER}@0x200000001000")), "collides")
    refused(load("true", halves=(f"toy={exe}@0xe0000000000",)), "collides with the loader")
    refused(load(BUILT / "checks_fixed", "calls", halves=(f"{TOY}@0x1000",)), "collides")
    refused(load("true", halves=(f"{TOY}@0x7fff00000000",)), "a half cannot be at")
    refused(load("true", halves=(f"{TOY}@0x200000000123",)), "a half cannot be at")


@pytest.mark.parametrize("option,reason", [
    ("toy", "NAME=FILE"), ("=x", "NAME=FILE"), ("toy=", "NAME=FILE"), (f"{TOY}@0xzz", "not an address"),
    ("a/b=x", "no /"), ("averyveryverylongname=x", "too long"), ("upper=x", "two halves")])
def test_a_wrong_half_is_refused(option, reason):
    refused(load("true", halves=(option,)), reason)


def test_wrong_options_are_refused():
    refused(run([LOADER, "--no-such"], clean_env()), "--no-such")
    refused(run([LOADER, "--lh"], clean_env()), "--lh", "missing")
    refused(run([LOADER], clean_env()), "no program")
    refused(load("true", halves=(TOY, TOY)), "two halves of that name")
    refused(load("true", halves=[f"h{i}={BUILT}/toy_lh.exe" for i in range(8)]), "more than 7")


def test_too_little_address_space_is_refused():
    for limit in (32 << 20, 100 << 20, 200 << 20):
        process = subprocess.run(
            [LOADER, "--lh", TOY, "--", BUILT / "empty"], env=clean_env(), timeout=60, check=False,
            capture_output=True, text=True,
            preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_AS, (n, n)))
        if process.returncode == 9:
            break
        assert process.returncode == 2 and "RLIMIT_AS" in process.stderr, process
        assert len(process.stderr.splitlines()) == 1 and not process.stdout


# --- which libc is known

def munmap(push=False):
    """The code of a system call: a constant in eax, or a form that no compiler writes."""
    return b"\x6a\x0b\x58\x0f\x05\x90\x90" if push else b"\xb8\x0b\x00\x00\x00\x0f\x05"


def in_padding(code, site):
    """Writes a site where it is never run: over the padding between two functions."""
    padding = b"\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"
    at = code.index(padding, code.index(munmap()))
    return code[:at] + site + code[at + len(site):]


def libc_of(program):
    return re.search(r"\s(/\S*/libc\.so\.6)", run(["ldd", program], clean_env()).out).group(1)


@pytest.mark.parametrize("change,reason", [
    (lambda b: b.replace(munmap(), munmap(push=True)), "no call of munmap"),
    (lambda b: in_padding(b, munmap()).replace(munmap(), munmap(push=True), 1), "munmap was found in its function munmap")])
def test_an_unknown_libc_is_refused(tmp_path, change, reason):
    copy = doctored(libc_of(BUILT / "empty"), tmp_path, change)
    refused(load(BUILT / "empty", halves=(), LD_LIBRARY_PATH=str(tmp_path)), "libc.so.6", "does not know", reason)
    refused(run([LOADER, "--check", copy], clean_env()), "libc.so.6", "not known", "GLIBC", "; found: mmap ")


def test_a_libc_may_make_a_call_in_two_places(tmp_path):
    copy = doctored(libc_of(BUILT / "empty"), tmp_path, lambda b: in_padding(b, munmap()))
    result = run([LOADER, "--check", copy], clean_env())
    assert result.status == 0 and re.search(r"munmap [0-9a-f]+ [0-9a-f]+,", result.out), result
    result = load(CHECKS, "calls", "memory", "reload", LD_LIBRARY_PATH=str(tmp_path))
    assert (result.status, result.out) == (0, "calls ok\nmemory ok\nreload ok\n"), result.err


def test_an_ldso_with_a_call_that_is_not_found_is_refused(tmp_path):
    """One place is of a known form, but not the one that is used: libraries come to lie elsewhere."""
    site, odd = b"\xb8\x09\x00\x00\x00\x0f\x05", b"\x6a\x09\x58\x0f\x05\x90\x90"
    ldso = doctored(os.path.realpath(LDSO), tmp_path, lambda b: in_padding(b.replace(site, odd), site))
    program = tmp_path / "program"
    source = tmp_path / "program.c"
    source.write_text("int main(void) { return 0; }\n", encoding="ascii")
    run(["gcc", "-o", program, f"-Wl,--dynamic-linker={ldso}", source], clean_env())
    assert run([program], clean_env()).status == 0
    refused(load(program, halves=()), "is not in its window")


def test_the_libc_of_this_machine_is_known():
    libc = run(["gcc", "-print-file-name=libc.so.6"], clean_env()).out.strip()
    result = run([LOADER, "--check", LDSO, libc], clean_env())
    assert result.status == 0, result.err
    for file, line in zip((LDSO, libc), result.out.splitlines()):
        assert re.fullmatch(re.escape(file) + r": known \(.*GLIBC 2\.\d+.*\): mmap [0-9a-f ]+, munmap .*", line), line


def test_a_file_that_is_no_libc_is_not_known(tmp_path):
    refused(run([LOADER, "--check", ROOT / "README.md"], clean_env()), "README.md", "not a library")
    refused(run([LOADER, "--check", BUILT / "empty"], clean_env()), "no call of mmap")
    refused(run([LOADER, "--check", tmp_path / "none"], clean_env()), "no such file")
    assert run([LOADER, "--check"], clean_env()).status == 2


def test_a_stub_of_another_build_does_not_call():
    result = load(CHECKS, "calls", halves=(f"toy={BUILT / 'older_lh.exe'}",),
                  LD_LIBRARY_PATH=str(BUILT / "stubs" / "toy"))
    assert result.status == 1 and "not of one build" in result.err


# --- ways that the loader does not go, and why: they need no change of code, but do not hold or do not cover all

def facts(*args):
    result = run([BUILT / "steering", *args], clean_env())
    return result, {name: int(value) for name, value in re.findall(r"^(.*) (\d+)$", result.out, re.M)}


def test_filled_gaps_place_all_and_pin_brk():
    result, found = facts("fill")
    assert result.status == 0 and 3 <= found.pop("holes") <= 30, result
    assert found == {"mapping": 1, "library": 1, "stack": 1, "brk": 0}


def test_filled_gaps_under_a_limit_are_refused_and_would_place_nothing():
    result, found = facts("fill", "1024")
    assert result.status == 2 and re.fullmatch(r"steering: \d+ of \d+ holes cannot be filled: .*\n", result.err), result
    assert (found["mapping"], found["library"], found["brk"]) == (0, 0, 1)


def test_dispatched_system_calls_do_not_cover_a_thread_made_afterwards():
    result, found = facts("dispatch")
    if result.status == 77:
        pytest.skip("the kernel has no Syscall User Dispatch")
    assert result.status == 0 and 5 < found.pop("traps") < 500, result
    assert found == {"mapping": 1, "library": 1, "of a thread": 0}


# --- the man page

def test_the_man_page_has_every_option_and_no_other():
    options = set(re.findall(r"--[a-z][a-z-]*", run([LOADER, "--help"], clean_env()).out))
    page = (ROOT / "man" / "kernel-loader.1").read_text(encoding="utf-8").replace("\\-", "-")
    assert {"--lh", "--map"} <= options
    assert set(re.findall(r"--[a-z][a-z-]*", page)) == options
