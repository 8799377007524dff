"""tests/e2e/test_launcher_pipe.py - gpu_launcher's FILE from a pipe, from standard input, from a descriptor."""
import json
import os
import subprocess
import threading

import pytest

from conftest import EMULATED, KIND, SLOW, ended, listens, start, wait_until
from test_launcher import ELF, EXAMPLE, KERNELS, LAUNCHER, SAXPY, WAY, Answer, launch_env  # noqa: F401
from test_launcher_cache import kitchen  # noqa: F401  (a fixture)

SIZES = "1 1 1 256 1 1".split()
REQUEST = json.dumps(EXAMPLE)


@pytest.fixture(name="shell")
def fixture_shell(launch_env):  # noqa: F811
    """shell(TEXT): what bash makes of it; $L is the launcher with its options, $K the kernels' file."""
    def go(text, stdin=REQUEST, **more):
        env = {**launch_env, "L": " ".join(map(str, (LAUNCHER, *WAY))), "K": str(KERNELS), "S": " ".join(SIZES), **more}
        return Answer(subprocess.run(["bash", "-c", text], input=stdin.encode(), env=env, capture_output=True,
                                     timeout=60 * SLOW, check=False))
    return go


@pytest.mark.parametrize("text", [
    '$L <(cat $K) saxpyKernel $S',
    '$L <(cat $K; printf "\\0") saxpyKernel $S',
    '$L /dev/fd/5 saxpyKernel $S 5<$K',
    'exec 6<&0; $L --request <(cat <&6) - saxpyKernel $S <$K',
    'cat >$R; cat $K | $L --request $R - saxpyKernel $S',
    'cat >$R; $L --request $R /dev/stdin saxpyKernel $S <$K',
    'cat >$R; $L --request $R $K saxpyKernel $S </dev/null',
    'cat >$R; $L --request <(cat $R) <(cat $K) saxpyKernel $S </dev/null',
])
def test_a_kernel_comes_through_a_pipe(shell, tmp_path, text):
    answer = shell(text, R=str(tmp_path / "request"))
    assert answer.results["R"] == SAXPY


@pytest.mark.parametrize("name", ["kernel", "kernel.cu"])
def test_a_kernel_comes_through_a_fifo(shell, tmp_path, name):
    """What it is shows in the text, not in the name."""
    os.mkfifo(tmp_path / name)
    writer = threading.Thread(target=lambda: (tmp_path / name).write_bytes(KERNELS.read_bytes()))
    writer.start()
    answer = shell("$L $F saxpyKernel $S", F=str(tmp_path / name))
    writer.join()
    assert answer.results["R"] == SAXPY


def test_a_fat_binary_comes_through_a_pipe(shell):
    answer = shell("$L <(cat $F) none $S", F=str(ELF / "compress_default.fatbin"))
    assert "the module has" in answer.error(4, "CUDA_ERROR_NOT_FOUND")["message"]
    assert answer.json == shell("$L $F none $S", F=str(ELF / "compress_default.fatbin")).json


def test_cuda_cxx_comes_through_a_pipe_and_is_cached(kitchen):  # noqa: F811
    kitchen.source.write_text(kitchen.source.read_text().replace('#include "by.h"\n', ""))
    *options, source, kernel = kitchen.command()[:-6]
    text = f"{' '.join(options)} <(cat {source}) {kernel} 1 1 1 1 1 1"
    for _ in range(2):
        answer = Answer(subprocess.run(["bash", "-c", text], input=b'{"arrays": {"a": {"type": "i32", "data": [1]}}}',
                                       env=kitchen.env, capture_output=True, timeout=60 * SLOW, check=False))
        assert answer.results == {"a": [6]}
    assert kitchen.runs() == 1
    compiled = subprocess.run(["bash", "-c", f"{' '.join(options)} --compile <(cat {source}) add"], env=kitchen.env,
                              capture_output=True, timeout=60 * SLOW, check=False)
    assert compiled.returncode == 0 and json.loads(compiled.stdout)["ptx"].endswith("/add.ptx"), compiled


@pytest.mark.skipif(not EMULATED or bool(KIND), reason="a daemon on the emulated GPU")
@pytest.mark.parametrize("file", [KERNELS, ELF / "compress_default.fatbin"], ids=["text", "binary"])
def test_a_daemon_gets_what_came_through_the_pipe(shell, launch_env, tmp_path, file):  # noqa: F811
    """It could not open the pipe itself."""
    path = tmp_path / "daemon"
    daemon = start([LAUNCHER, *WAY, "--daemon", path], launch_env)
    wait_until(lambda: listens(path), 20, "the daemon listens")
    answer = shell("$L --connect $D <(cat $F) absent $S", D=str(path), F=str(file))
    daemon.terminate()
    ended(daemon, 20)
    assert "the module has" in answer.error(4, "CUDA_ERROR_NOT_FOUND", "no kernel is named absent")["message"]


def test_what_cannot_be_read_says_why(shell, tmp_path):
    shell("$L - saxpyKernel $S").error(1, "USAGE", "--request")
    shell("$L /dev/null saxpyKernel $S").error(3, "NO_FILE", "/dev/null: it is empty")
    shell("$L <(head -c 300M /dev/zero) saxpyKernel $S").error(3, "NO_FILE", "256 MiB")
    shell("$L <(printf '\\377text') saxpyKernel $S").error(3, "NO_FILE", "not UTF-8")
    shell("$L /dev/fd/77 saxpyKernel $S").error(3, "NO_FILE", "/dev/fd/77: No such file")
    shell("$L --request $N $K saxpyKernel $S", N=str(tmp_path / "none")).error(3, "NO_FILE", "none: No such file")
    assert shell("$L --daemon $N --request $K", N=str(tmp_path / "none")).status == 1
    os.mkfifo(tmp_path / "fifo")
    request = {**EXAMPLE, "module": str(tmp_path / "fifo")}
    shell("$L $K saxpyKernel $S", json.dumps(request)).error(3, "NO_FILE", "no regular file")


def test_a_batch_reads_its_requests_from_a_file(shell, tmp_path):
    launch = {**EXAMPLE, "module": str(KERNELS), "kernel": "saxpyKernel", "grid": [1], "block": [256]}
    (tmp_path / "requests").write_text(json.dumps(launch) * 2, encoding="utf-8")
    answer = shell("$L --batch --request $R </dev/null", R=str(tmp_path / "requests"))
    assert [json.loads(line)["results"]["R"] for line in answer.raw.splitlines()] == [SAXPY, SAXPY]
