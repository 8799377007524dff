"""tests/e2e/test_launcher_edges.py - gpu_launcher where its surroundings fail it: no standard files, full disks,
no descriptors, sizes beyond any machine."""
import os
import resource
import subprocess

import pytest

from conftest import SLOW, clean_env
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


@pytest.mark.parametrize("arguments", [["--max-input", "16777216T"], ["--cache-size", "99999999999999999"],
                                       ["--batch", b"\xff"]])
def test_wrong_usage_has_an_error_object_whatever_its_bytes(arguments):
    done = subprocess.run([str(LAUNCHER), *arguments], stdin=subprocess.DEVNULL, env=clean_env(),
                          capture_output=True, timeout=20 * SLOW, check=False)
    done.stderr = done.stderr.decode(errors="replace").encode()
    Answer(done).error(1, "USAGE")
