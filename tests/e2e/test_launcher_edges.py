"""tests/e2e/test_launcher_edges.py - gpu_launcher where its surroundings fail it: no standard files, full disks,
no descriptors, sizes beyond any machine."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import time

import pytest

from conftest import EMULATED, HANG, KIND, SLOW, clean_env, ended, listens, start, wait_until
from test_launcher import KERNELS, LAUNCHER, WAY, Answer
from test_launcher_cache import kitchen  # noqa: F401  (a fixture)

LAUNCH = [str(c) for c in (LAUNCHER, *WAY, KERNELS, "saxpyKernel", *"1 1 1 256 1 1".split())]


def without(*fds, command=tuple(LAUNCH), text=b"{}"):
    """A launch with files closed as a shell's `<&- >&- 2>&-` does."""
    def close():
        for fd in fds:
            os.close(fd)
    return Answer(subprocess.run(command, input=text, env=clean_env(), capture_output=True, preexec_fn=close,
                                 timeout=60 * SLOW, check=False))


def test_a_standard_file_that_is_closed_is_no_workers_socket():
    text = b'{"scalars": [1, 2.5], "arrays": {"X": [1], "Y": [1], "R": [0]}}'
    assert without(0).error(2, "BAD_INPUT", "no request")
    assert without(1, text=text).status == 8
    assert without(0, 1).status == 2
    assert without(2, text=text).results["R"] == [3.5]


def test_output_that_finds_no_room_is_no_success(kitchen):  # noqa: F811
    commands = [["--version"], ["--help"], ["--cache-dir", kitchen.cache, "--cache", "verify"]]
    with open("/dev/full", "wb") as full:
        for command in [*commands, LAUNCH[1:]]:
            done = subprocess.run([str(LAUNCHER), *map(str, command)], stdout=full, stderr=subprocess.PIPE,
                                  input=b"{}", env=clean_env(), timeout=60 * SLOW, check=False)
            assert done.returncode == (2 if command == LAUNCH[1:] else 8), command


def test_a_process_without_descriptors_says_so():
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
    done = subprocess.run(LAUNCH, input=b"{}", env=clean_env(), capture_output=True, preexec_fn=limit,
                          timeout=60 * SLOW, check=False)
    Answer(done).error(8, "NO_WORKER", "Too many open files")


def test_a_batch_without_descriptors_for_more_says_so():
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
    one = {"module": str(KERNELS), "grid": [1], "block": [1], "async": True, "args": []}
    text = "".join(map(json.dumps, [{**one, "kernel": "none"}] * 20)).encode()
    done = subprocess.run([*map(str, (LAUNCHER, *WAY)), "--batch"], input=text, env=clean_env(), capture_output=True,
                          preexec_fn=limit, timeout=60 * SLOW, check=False)
    errors = [r["error"] for r in map(json.loads, done.stdout.splitlines()) if "error" in r and "id" not in r]
    assert [(e["code"], e["exit"]) for e in errors] == [("OUT_OF_DESCRIPTORS", 5)], done.stdout
    assert "Too many open files" in errors[0]["message"]


@pytest.mark.parametrize("arguments", [["--max-input", "16777216T"], ["--cache-size", "99999999999999999"],
                                       ["--batch", b"\xff"],
                                       ["--connect", "", "--batch"], ["--daemon", ""]])
def test_wrong_usage_has_an_error_object_whatever_its_bytes(arguments):
    done = subprocess.run([str(LAUNCHER), *arguments], stdin=subprocess.DEVNULL, env=clean_env(),
                          capture_output=True, timeout=HANG, check=False)
    done.stderr = done.stderr.decode(errors="replace").encode()
    Answer(done).error(1, "USAGE")


def test_no_folder_for_the_cache_is_an_error_object(kitchen):  # noqa: F811
    for command in (("--cache", "ls"), ("--compile", kitchen.source)):
        done = subprocess.run([str(LAUNCHER), "--cache-dir", "/proc/none", *map(str, command)], env=kitchen.env,
                              capture_output=True, timeout=HANG, check=False)
        Answer(done).error(3, "NO_CACHE")


def compiled(kitchen, *options, status=0, **env):  # noqa: F811
    """What --compile prints; its files must be there."""
    command = [LAUNCHER, "--cache-dir", kitchen.cache, "--compiler", kitchen.compiler, *options]
    answer = Answer(subprocess.run([str(c) for c in command], env={**kitchen.env, **env}, capture_output=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
                                   timeout=60 * SLOW, check=False))
    assert answer.status == status, (answer.raw, answer.err)
    if status == 0:
        assert pathlib.Path(answer.json["source"]).is_file() and pathlib.Path(answer.json["ptx"]).is_file()
    return answer


def test_a_list_of_the_cache_is_no_use_of_it(kitchen):  # noqa: F811
    kitchen.launch()
    meta = kitchen.entries()[0] / "meta.json"
    os.utime(meta, (1e9, 1e9))
    for command in ("ls", "verify"):
        assert kitchen.tool("--cache", command).returncode == 0
        assert meta.stat().st_mtime == 1e9
    kitchen.launch()
    assert meta.stat().st_mtime > 1e9 and kitchen.runs() == 1


def test_what_compile_prints_is_there(kitchen):  # noqa: F811
    twin = kitchen.folder / "twin.cu"
    twin.write_text(kitchen.source.read_text())
    first = compiled(kitchen, "--compile", kitchen.source).json
    assert compiled(kitchen, "--compile", twin).json == first
    compiled(kitchen, "--option=-DN", "--cache-size", 0, "--compile", twin, status=3).error(3, "NOT_CACHED")


def test_flags_of_the_environment_make_another_entry(kitchen):  # noqa: F811
    for runs, value in (1, "-DN=1"), (2, "-DN=2"), (2, "-DN=1"):
        compiled(kitchen, "--compile", kitchen.source, NVCC_APPEND_FLAGS=value)
        assert kitchen.runs() == runs
    compiled(kitchen, "--compile", kitchen.source, NVCC_APPEND_FLAGS="-Ielsewhere", status=3)


def test_a_folder_for_temporaries_that_is_not_there(kitchen):  # noqa: F811
    answer = compiled(kitchen, "--compile", kitchen.source, TMPDIR="/nonexistent", status=3)
    assert answer.error(3, "COMPILER_FAILED", "No such file")


def test_headers_nested_deeper_than_a_stack(kitchen):  # noqa: F811
    for i in range(3000):
        (kitchen.folder / f"{i}.h").write_text(f'#include "{i + 1}.h"\n')
    kitchen.source.write_text('#include "0.h"\n')
    compiled(kitchen, "--compile", kitchen.source, status=3).error(3, "NOT_CACHED")


def test_a_header_that_cannot_be_followed_is_read_anew_by_a_batch(kitchen):  # noqa: F811
    kitchen.source.write_text("#define H \"by.h\"\n#include H\n")
    request = json.dumps({"module": str(kitchen.source), "kernel": "add", "grid": [1], "block": [1],
                          "arrays": {"a": {"type": "i32", "data": [1]}}}).encode()
    command = [*map(str, (LAUNCHER, *WAY, "--cache-dir", kitchen.cache, "--compiler", kitchen.compiler)), "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=kitchen.env) as process:
        for by in (5, 7):
            kitchen.header.write_text(f"#define BY {by}\n")
            process.stdin.write(request)
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"results": {"a": [1 + by]}}
        process.stdin.close()
        assert process.wait(60 * SLOW) == 0


@pytest.mark.parametrize("options", [("--batch",), LAUNCH[1 + len(WAY):]])
def test_input_that_nobody_waits_for_reaches_a_daemon(tmp_path, options):
    path = tmp_path / "gpu.sock"
    command = [str(c) for c in (LAUNCHER, "--connect", path, *options)]
    daemon = start([LAUNCHER, *WAY, "--daemon", path], clean_env())
    wait_until(lambda: listens(path), 10, "the daemon listens")
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    client = subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE, env=clean_env())
    os.close(reader)
    time.sleep(0.2)
    os.write(writer, b'{"cmd": "ping"}')
    os.close(writer)
    out, _ = client.communicate(timeout=60 * SLOW)
    daemon.terminate()
    assert ended(daemon, 20).status == 0
    assert json.loads(out) == {"status": "ready"} and client.returncode == 0


def test_reading_an_array_twice_is_refused():
    request = {"module": str(KERNELS), "kernel": "nothing", "grid": [1], "block": [1],
               "arrays": {"a": {"n": 1, "keep": True}}}
    text = json.dumps(request) + '{"cmd": "read", "arrays": ["a", "a"]}{"cmd": "free", "arrays": ["a"]}'
    done = subprocess.run([*map(str, (LAUNCHER, *WAY)), "--batch"], input=text.encode(), env=clean_env(),
                          capture_output=True, timeout=60 * SLOW, check=False)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(reply) for reply in replies] == [["results"], ["error"], ["results"]] and done.returncode == 2


@pytest.mark.skipif(bool(KIND), reason="a library without a sanitizer cannot bring one")
def test_each_kernel_of_a_module_that_only_the_driver_reads_is_found(tmp_path):
    source, library, module = tmp_path / "sealed.c", tmp_path / "sealed.so", tmp_path / "kernels.sealed"
    source.write_text("""int cuModuleLoadData(void **module, const void *image);
        int cuModuleLoadDataEx(void **m, const void *image, unsigned int n, void *options, void **values);
        int cuModuleLoadDataEx(void **m, const void *image, unsigned int n, void *options, void **values)
        { (void)n; (void)options; (void)values; return cuModuleLoadData(m, (const char *)image + 6); }""")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, EMULATED,
                    f"-Wl,-rpath,{EMULATED.parent}/emu"], check=True)
    module.write_text("sealed" + KERNELS.read_text())
    one = {"module": str(module), "grid": [1], "block": [1]}
    add = {**one, "kernel": "_Z9incrementPii",
           "args": [{"type": "i32", "name": "a", "data": [1]}, {"type": "i32", "value": 5}]}
    count = {**one, "kernel": "count", "args": [{"type": "i32", "value": 7},
                                                {"type": "i32", "name": "out", "data": [0]}]}
    text = "".join(map(json.dumps, (add, count, add, {**one, "kernel": "nowhere", "args": []}))).encode()
    done = subprocess.run([str(LAUNCHER), "--driver", str(library), "--batch"], input=text, env=clean_env(),
                          capture_output=True, timeout=60 * SLOW, check=False)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert replies[:3] == [{"results": {"a": [6]}}, {"results": {"out": [7]}}, {"results": {"a": [6]}}]
    assert replies[3]["error"]["code"] == "CUDA_ERROR_NOT_FOUND" and done.returncode == 4
