"""tests/e2e/test_launcher_cache.py - gpu_launcher's kernel cache: what is a hit, what is not, who compiles."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import HANG, ROOT, SLOW, clean_env, is_alive, wait_until
from test_launcher import LAUNCHER, WAY, Answer

SOURCE = """#include "by.h"
extern "C" __global__ void add(int *a) { a[threadIdx.x] += BY; }
"""
# A compiler that counts its runs, is as slow as the real one and as fussy, and gives PTX.
FAKE = r"""#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; [ "$1" = -DSLOW ] && sleep 0.3; shift; done
echo run >> "$COUNT"
grep -q wrong "$1" && { echo "$(basename "$1")(2): error: this is wrong" >&2; exit 1; }
grep -q killed "$1" && { echo half > "$out"; kill -9 $$; }
sed "s/, 5;/, $(sed -n 's/^.*BY //p' "$BY");/" "$PTX" > "$out"
"""
PTX = """.version 8.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 a) {
  .reg .b64 %rd<3>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2]; add.s32 %r2, %r1, 5; st.global.u32 [%rd2], %r2;
  ret; }
"""


class Kitchen:
    """A source, a header, a compiler that counts, and a cache."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        self.source, self.header = folder / "add.cu", folder / "by.h"
        self.source.write_text(SOURCE)
        self.header.write_text("#define BY 5\n")
        (folder / "ptx").write_text(PTX)
        self.compiler = folder / "nvcc"
        self.compiler.write_text(FAKE)
        self.compiler.chmod(0o755)
        self.env = clean_env(COUNT=str(folder / "count"), PTX=str(folder / "ptx"), BY=str(self.header))

    def command(self, *options):
        return [str(c) for c in (LAUNCHER, *WAY, "--cache-dir", self.cache, "--compiler",
                                 self.compiler, *options, self.source, "add", *"1 1 1 1 1 1".split())]

    def launch(self, *options):
        text = b'{"arrays": {"a": {"type": "i32", "data": [1]}}}'
        return Answer(subprocess.run(self.command(*options), input=text, env=self.env, capture_output=True,
                                     timeout=60 * SLOW, check=False))

    def runs(self):
        count = self.folder / "count"
        return len(count.read_text().split()) if count.exists() else 0

    def tool(self, *arguments):
        return subprocess.run([str(LAUNCHER), "--cache-dir", str(self.cache), *map(str, arguments)],
                              env=self.env, capture_output=True, text=True, timeout=HANG, check=False)

    def entries(self):
        return sorted(self.cache.glob("kernel_*"))


@pytest.fixture
def kitchen(tmp_path):
    return Kitchen(tmp_path)


def test_what_was_compiled_once_is_not_again(kitchen):
    for _ in range(3):
        assert kitchen.launch().results == {"a": [6]}
    assert kitchen.runs() == 1
    entry = [e for e in kitchen.entries() if (e / "add.cu").exists()][0]
    assert (entry / "add.cu").read_text() == SOURCE
    assert sorted(p.name for p in entry.iterdir()) == ["add.cu", "add.ptx", "meta.json"]
    assert entry.stat().st_mode & 0o777 == 0o700


def test_source_header_option_and_compiler_make_another_entry(kitchen):
    assert kitchen.launch().results == {"a": [6]}
    kitchen.header.write_text("#define BY 7\n")
    assert kitchen.launch().results == {"a": [8]}
    assert kitchen.runs() == 2
    kitchen.launch("--option=-DX")
    assert kitchen.runs() == 3
    kitchen.source.write_text(SOURCE + "// more\n")
    kitchen.launch()
    assert kitchen.runs() == 4
    kitchen.compiler.write_text(FAKE + "# a new release\n")
    kitchen.launch()
    assert kitchen.runs() == 5
    kitchen.header.write_text("#define BY 5\n")
    kitchen.source.write_text(SOURCE)
    kitchen.compiler.write_text(FAKE)
    kitchen.launch()
    assert kitchen.runs() == 6      # the compiler's file is another one


def test_headers_in_folders_of_options_count(kitchen):
    kitchen.header.rename(kitchen.folder / "inc.h")
    (kitchen.folder / "inc").mkdir()
    header = kitchen.folder / "inc" / "by.h"
    header.write_text("#define BY 5\n")
    kitchen.env["BY"] = str(header)
    option = f"--option=-I{kitchen.folder / 'inc'}"
    assert kitchen.launch(option).results == {"a": [6]}
    header.write_text('#include "../inc.h"\n// BY 9\n')
    kitchen.launch(option)
    (kitchen.folder / "inc.h").write_text("// changed\n")
    kitchen.launch(option)
    kitchen.launch(option)
    assert kitchen.runs() == 3


# How often the compiler runs for a source that is launched, launched again, and once more with another header.
SEEN, UNSEEN = 2, 3


@pytest.mark.parametrize("line, runs", [
    ('/* */ #include "by.h"', SEEN), ('/* a\n * b */ /**/#include "by.h"', SEEN), ('/* a */ #include BY_H', UNSEEN),
    ('# /* a\n */ include /**/ "by.h"', SEEN), ('\f\v#include "by.h"', SEEN), ('%:include "by.h"', SEEN),
    ('??=include "by.h"', SEEN), ('\ufeff#include "by.h"', SEEN), ('#inc\\\nlude "by.h"', UNSEEN),
    ('#include \\\n"by.h"', UNSEEN), ('#\\\ninclude "by.h"', UNSEEN),
    ('#include "by.h"\n// what #include does\nint n = 5 % 3 ? 1 : 0;', SEEN)])
def test_an_include_counts_however_it_is_written(kitchen, line, runs):
    kitchen.source.write_text(line + "\n")
    for by in (5, 5, 7):
        kitchen.header.write_text(f"#define BY {by}\n")
        assert kitchen.launch().results == {"a": [1 + by]}
    assert kitchen.runs() == runs


@pytest.mark.parametrize("variable, option, runs", [
    ("CPATH", None, SEEN), ("C_INCLUDE_PATH", None, SEEN), ("CPLUS_INCLUDE_PATH", None, SEEN), (None, "-isystem={}", SEEN),
    (None, "--system-include={}", SEEN), (None, "-I/none,{}", UNSEEN), (None, "-Xcompiler=-I{}", UNSEEN),
    (None, "-Xcompiler=-O2,-isystem,{}", UNSEEN)])
def test_a_header_in_another_folder_counts_however_that_is_named(kitchen, variable, option, runs):
    folder = kitchen.folder / "inc"
    folder.mkdir()
    kitchen.header.unlink()
    kitchen.env["BY"] = str(folder / "by.h")
    if variable:
        kitchen.env[variable] = f"/none:{folder}"
    kitchen.source.write_text("#include <by.h>\n")
    for by in (5, 5, 7):
        (folder / "by.h").write_text(f"#define BY {by}\n")
        assert kitchen.launch(*([f"--option={option.format(folder)}"] if option else [])).results == {"a": [1 + by]}
    assert kitchen.runs() == runs


def test_an_include_that_cannot_be_followed_is_not_cached(kitchen):
    kitchen.source.write_text("#define H \"by.h\"\n#include H\n")
    for _ in range(2):
        assert kitchen.launch().results == {"a": [6]}
    assert kitchen.runs() == 2


def test_a_compile_error_is_told_and_kept(kitchen):
    kitchen.source.write_text("wrong")
    for _ in range(2):
        error = kitchen.launch().error(3, "COMPILE_ERROR", "add.cu(2): error: this is wrong")
        assert error["stage"] == "compile" and "this is wrong" in error["log"]
    assert kitchen.runs() == 1
    assert "does not compile" in kitchen.tool("--cache", "ls").stdout


def test_a_compiler_that_is_killed_leaves_nothing(kitchen):
    kitchen.source.write_text("killed")
    for _ in range(2):
        kitchen.launch().error(3, "COMPILER_FAILED")
    assert kitchen.runs() == 2 and not kitchen.entries()


def test_a_time_out_ends_a_compiler_with_its_children_and_leaves_no_file(kitchen):
    temporary, pid = kitchen.folder / "temporary", kitchen.folder / "pid"
    temporary.mkdir()
    kitchen.env["TMPDIR"] = str(temporary)
    kitchen.compiler.write_text(f'#!/bin/sh\necho > "$TMPDIR/own"\nsleep 1000 &\necho $! > {pid}.new\n'
                                f'mv {pid}.new {pid}\nwait\n')
    kitchen.launch("--timeout-ms", 1500 * SLOW).error(7, "TIMEOUT")
    assert pid.exists(), "the compiler had not begun"
    wait_until(lambda: not is_alive(int(pid.read_text())), 10, "its child has ended")
    wait_until(lambda: not list(temporary.iterdir()), 10, "its folder is gone")


def test_a_compiler_leaves_no_file(kitchen):
    kitchen.env["TMPDIR"] = str(kitchen.folder / "temporary")
    (kitchen.folder / "temporary").mkdir()
    kitchen.compiler.write_text(FAKE.replace("#!/bin/sh", '#!/bin/sh\necho > "$TMPDIR/own"'))
    assert kitchen.launch().results == {"a": [6]}
    kitchen.source.write_text("wrong")
    kitchen.launch().error(3, "COMPILE_ERROR")
    assert not list((kitchen.folder / "temporary").iterdir())


def test_one_of_many_processes_compiles(kitchen):
    text = b'{"arrays": {"a": {"type": "i32", "data": [1]}}}'
    many = [subprocess.Popen(kitchen.command("--option=-DSLOW"), stdin=subprocess.PIPE, env=kitchen.env,
                             stdout=subprocess.PIPE) for _ in range(6)]
    for process in many:
        process.stdin.write(text)
        process.stdin.close()
    for process in many:
        with process:
            assert json.loads(process.stdout.read()) == {"results": {"a": [6]}}
    assert kitchen.runs() == 1


@pytest.mark.parametrize("damage", ["content", "meta", "gone"])
def test_a_damaged_entry_is_compiled_anew(kitchen, damage):
    kitchen.launch()
    entry = [e for e in kitchen.entries() if (e / "add.cu").exists()][0]
    if damage == "content":
        (entry / "add.ptx").write_text(PTX.replace("5;", "6;"))
    elif damage == "meta":
        (entry / "meta.json").write_text("{")
    else:
        (entry / "add.ptx").unlink()
    assert kitchen.launch().results == {"a": [6]}
    assert kitchen.runs() == 2
    assert kitchen.launch().results == {"a": [6]}
    assert kitchen.runs() == 2


def test_list_verify_and_prune(kitchen):
    kitchen.launch()
    kitchen.launch("--option=-DX")
    listed = kitchen.tool("--cache", "ls").stdout
    assert listed.count(str(kitchen.source)) == 2 and listed.count("kernel_") == len(kitchen.entries())
    assert kitchen.tool("--cache", "verify").returncode == 0
    entry = [e for e in kitchen.entries() if (e / "add.cu").exists()][0]
    (entry / "add.ptx").write_text("x")
    bad = kitchen.tool("--cache", "verify")
    assert bad.returncode == 3 and entry.name in bad.stdout and not entry.exists()
    assert kitchen.tool("--cache", "verify").returncode == 0
    assert kitchen.tool("--cache-size", "0", "--cache", "prune").returncode == 0
    assert not kitchen.entries()


def test_the_longest_unused_goes_when_there_is_no_room(kitchen):
    for i in range(3):
        kitchen.launch(f"--option=-D{i}")
    # the first is used again, so the second is the oldest
    before = {e.name for e in kitchen.entries() if (e / "add.cu").exists()}
    kitchen.launch("--option=-D0")
    size = sum(f.stat().st_size for f in kitchen.cache.glob("kernel_*/*"))
    kitchen.launch("--cache-size", size, "--option=-D9")
    assert kitchen.runs() == 4
    after = {e.name for e in kitchen.entries() if (e / "add.cu").exists()}
    assert len(before - after) == 1
    kitchen.launch("--option=-D0")
    assert kitchen.runs() == 4
    kitchen.launch("--option=-D1")
    assert kitchen.runs() == 5


def test_the_folder_is_found_as_documented(kitchen, tmp_path):
    def where(**env):
        kitchen.env.update(env)
        command = kitchen.command()
        index = command.index("--cache-dir")
        del command[index:index + 2]
        (tmp_path / "cwd").mkdir(exist_ok=True)
        done = subprocess.run(command, input=b'{"arrays": {"a": {"type": "i32", "data": [1]}}}', env=kitchen.env,
                              capture_output=True, cwd=tmp_path / "cwd", timeout=60 * SLOW, check=False)
        assert Answer(done).results == {"a": [6]}

    home, xdg, own = tmp_path / "home", tmp_path / "xdg", tmp_path / "own"
    kitchen.env.pop("XDG_CACHE_HOME", None)
    where(HOME=str(home))
    assert list((home / ".cache" / "gpu_kernels").glob("kernel_*/add.ptx"))
    where(XDG_CACHE_HOME=str(xdg))
    assert list((xdg / "gpu_kernels").glob("kernel_*/add.ptx"))
    seed = tmp_path / "cwd" / ".cache" / "gpu_kernels"
    seed.mkdir(parents=True)
    where()
    assert list(seed.glob("kernel_*/add.ptx"))
    where(CRICKET_CACHE_DIR=str(own))
    assert list((own / "gpu_kernels").glob("kernel_*/add.ptx"))


def test_without_a_place_for_the_cache_everything_is_compiled(kitchen):
    kitchen.cache.write_text("a file, not a folder")
    assert kitchen.launch().results == {"a": [6]}
    assert kitchen.launch().results == {"a": [6]}
    assert kitchen.runs() == 2


def test_compiling_needs_no_gpu(kitchen):
    done = kitchen.tool("--compiler", kitchen.compiler, "--compile", kitchen.source)
    entry = json.loads(done.stdout)
    assert done.returncode == 0
    assert pathlib.Path(entry["source"]).read_text() == SOURCE
    assert "add.s32" in pathlib.Path(entry["ptx"]).read_text()
    assert entry["hash"] in entry["ptx"]
    kitchen.tool("--compiler", kitchen.compiler, "--compile", kitchen.source)
    assert kitchen.runs() == 1
    done = subprocess.run([str(c) for c in (LAUNCHER, "--cache-dir", kitchen.cache, "--compiler",
                                            kitchen.compiler, "--compile", "-", "my/kernel")],
                          input=b"// no include\n", env=kitchen.env, capture_output=True,
                          timeout=HANG, check=False)
    assert pathlib.Path(json.loads(done.stdout)["source"]).name == "my_kernel.cu"
    kitchen.source.write_text("wrong")
    done = kitchen.tool("--compiler", kitchen.compiler, "--compile", kitchen.source)
    assert done.returncode == 3 and json.loads(done.stdout)["error"]["code"] == "COMPILE_ERROR"


def nvcc():
    candidates = [os.environ.get("NVCC"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc",
                  ROOT / "build" / "cuda" / "bin" / "nvcc"]
    return next((str(c) for c in candidates if c and os.access(c, os.X_OK)), None)


@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_real_compilers(kitchen, compiler):
    """SAXPY's like by NVRTC and by nvcc, a header included; what does not compile says why."""
    if not nvcc():
        pytest.skip("no nvcc here")
    kitchen.env["NVCC"] = nvcc()
    kitchen.compiler = compiler
    answer = kitchen.launch()
    if compiler == "nvrtc" and answer.status == 3 and answer.json["error"]["code"] == "NO_COMPILER":
        pytest.skip("no NVRTC here")
    assert answer.results == {"a": [6]}
    kitchen.header.write_text("#define BY nonsense\n")
    error = kitchen.launch().error(3, "COMPILE_ERROR", "nonsense")
    assert "add.cu" in error["log"] or "by.h" in error["log"]
