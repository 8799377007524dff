"""tests/e2e/test_launcher.py - gpu_launcher: the contract of one launch, and its errors.

The kernels are those of tests/data/launcher, as PTX, so that no compiler is needed; what compiles is
in test_launcher_cache.py, what lasts longer than one launch in test_launcher_daemon.py.
"""
import base64
import json
import math
import mmap
import os
import shutil
import struct
import subprocess
import uuid

import pytest

from conftest import CLIENT, DRIVER, EMULATED, HANG, KIND, PRODUCTS, ROOT, SLOW, clean_env, client_env

LAUNCHER = PRODUCTS / "gpu_launcher"
# By which driver, or by which server: CRICKET_TEST_LAUNCHER="--connect HOST".
WAY = os.environ.get("CRICKET_TEST_LAUNCHER", f"--driver {DRIVER}").split()
KERNELS = ROOT / "tests" / "data" / "launcher" / "kernels.ptx"
ELF = ROOT / "tests" / "data" / "elf"
EXAMPLE = {"scalars": [8.0, 2.5],
           "arrays": {"X": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "Y": [1.0] * 8, "R": [0.0] * 8}}
# NVIDIA's driver says of an instruction it does not know that the PTX is wrong, ours that it lacks it.
WRONG_PTX = "CUDA_ERROR_NOT_SUPPORTED" if DRIVER == "emu" else "CUDA_ERROR_INVALID_PTX"
SAXPY = [3.5, 6.0, 8.5, 11.0, 13.5, 16.0, 18.5, 21.0]


@pytest.fixture(scope="session")
def launch_env(tmp_path_factory):
    """An environment with a kernel cache of its own."""
    return clean_env(XDG_CACHE_HOME=str(tmp_path_factory.mktemp("cache")))


class Answer:
    """What came of a launch."""

    def __init__(self, done):
        self.status, self.raw, self.err = done.returncode, done.stdout, done.stderr.decode()
        assert "Sanitizer" not in self.err and "runtime error" not in self.err, self.err

    @property
    def json(self):
        return json.loads(self.raw)

    @property
    def results(self):
        assert self.status == 0, (self.raw[:500], self.err)
        return self.json["results"]

    def error(self, status, code, words=""):
        """The error object, after a look at exit code, code and message."""
        error = self.json["error"]
        assert (self.status, error["exit"], error["code"]) == (status, status, code), error
        assert words in error["message"]
        return error


@pytest.fixture
def launch(launch_env):
    """launch(DOCUMENT, KERNEL, grid, block, options): a launch of its own process."""
    def go(document, kernel="saxpyKernel", grid=(1, 1, 1), block=(256, 1, 1), options=(),
           file=KERNELS, env=None, driver=WAY):
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        command = [LAUNCHER, *driver, *options, file, kernel, *grid, *block]
        return Answer(subprocess.run([str(c) for c in command], input=text, env=env or launch_env,
                                     capture_output=True, timeout=60 * SLOW, check=False))
    return go


def test_the_seeds_example_gives_the_seeds_result(launch):
    answer = launch(EXAMPLE)
    assert list(answer.json) == ["results"]
    assert list(answer.results) == ["X", "Y", "R"]
    assert answer.results == {**EXAMPLE["arrays"], "R": SAXPY}
    assert answer.err == ""


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_the_same_through_a_server(launch, server, launch_env, transport):
    env = {**client_env(server.address(transport)), "XDG_CACHE_HOME": launch_env["XDG_CACHE_HOME"]}
    assert launch(EXAMPLE, env=env, driver=()).results["R"] == SAXPY


@pytest.mark.skipif(bool(KIND), reason="sanitizers do not find XDR in a library that is opened by name")
def test_the_same_with_connect_and_no_preload(launch, server):
    assert launch(EXAMPLE, driver=("--connect", server.address("tcp"))).results["R"] == SAXPY


def test_a_driver_can_be_named_by_its_file(launch):
    assert launch(EXAMPLE, driver=("--driver", EMULATED)).results["R"] == SAXPY


@pytest.mark.skipif(bool(KIND), reason="as above")
def test_a_server_that_is_not_there_is_an_error(launch):
    answer = launch(EXAMPLE, driver=("--connect", "127.0.0.1:1"))
    answer.error(8, "CUDA_ERROR_NO_DEVICE")


def test_numbers_become_what_the_kernel_takes(launch):
    """8.0 for an int is 8, not the bits of a float."""
    for number in (b"8.0", b"8", b"0.8e1", b"80E-1"):
        text = b'{"scalars": [' + number + b'], "arrays": {"out": {"type": "i32", "data": [0]}}}'
        assert launch(text, "count").results == {"out": [8]}
    for number, seen in ((-2147483648, -2147483648), (4294967295, -1), (2147483647, 2147483647)):
        out = {"out": {"type": "i32", "data": [0]}}
        assert launch({"scalars": [number], "arrays": out}, "count").results == {"out": [seen]}


@pytest.mark.parametrize("number", ["8.5", "4294967296", "-2147483649", "1e300", '"NaN"', "null",
                                    '"x"', "[1]", "01", "+1"])
def test_a_number_that_does_not_fit_is_refused(launch, number):
    text = '{"scalars": [%s], "arrays": {"out": {"type": "i32", "data": [0]}}}' % number
    launch(text.encode(), "count").error(2, "BAD_INPUT")


def test_arguments_in_any_order_and_of_every_type(launch):
    args = [{"name": "out", "type": "f64", "n": 8}, -5, 65535, True, -(2 ** 53), {"data": [0.25], "type": "f64"},
            1.5, 0.1, 4000000000]
    answer = launch({"args": args}, "mixed")
    assert answer.results["out"] == [-5, 65535, 1, -(2.0 ** 53), 1.5, 0.1, 4e9, 0.25]
    assert list(answer.results) == ["out", "arg5"]


def test_explicit_types_win_and_must_fit(launch):
    args = [{"type": "int", "value": 7}, {"type": "i32", "data": [0], "name": "out"}]
    assert launch({"args": args}, "count").results == {"out": [7]}
    args[0] = {"type": "float", "value": 1}
    assert launch({"args": args}, "count").results == {"out": [0x3F800000]}
    args[0] = {"type": "f64", "value": 1}
    launch({"args": args}, "count").error(2, "BAD_INPUT", "4 bytes")


def test_a_vector_is_passed_by_value(launch):
    args = [{"type": "f32", "value": [1, 2.5, -3, 4]}, {"name": "out", "n": 4}]
    assert launch({"args": args}, "vector").results == {"out": [1, 2.5, -3, 4]}
    args[0]["value"] = [1, 2, 3]
    launch({"args": args}, "vector").error(2, "BAD_INPUT", "16 bytes")
    launch({"args": [1, args[1]]}, "vector").error(2, "BAD_INPUT", "type")


TYPES = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}


@pytest.mark.parametrize("name", TYPES)
def test_integers_come_back_exactly(launch, name):
    bits = 8 * struct.calcsize(TYPES[name])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "i" else (0, (1 << bits) - 1)
    array = {"type": name, "data": [low, high, 0, 1]}
    answer = launch({"arrays": {"a": array}}, "nothing")
    assert answer.results == {"a": [low, high, 0, 1]}
    assert str(high).encode() in answer.raw
    for wrong in (low - 1, high + 1, 0.5):
        array["data"] = [1, wrong]
        launch({"arrays": {"a": array}}, "nothing").error(2, "BAD_INPUT", "element 1")


@pytest.mark.parametrize("name, code", [("f32", "f"), ("f64", "d")])
def test_floats_come_back_to_the_bit(launch, name, code):
    bits = [0, 1, 0x80000000, 0x00800000, 0x7F7FFFFF, 0x3DCCCCCD, 0x322BCC77, 0x7F800000, 0xFF800000]
    if code == "d":
        bits = [0, 1, 1 << 63, 0x7FEFFFFFFFFFFFFF, 0x3FB999999999999A, 0x3E45798EE2308C3A]
    size, integer = (4, "I") if code == "f" else (8, "Q")
    given = base64.b64encode(struct.pack(f"<{len(bits)}{integer}", *bits)).decode()
    printed = launch({"arrays": {"a": {"type": name, "b64": given}}, "return": ["a"]}, "nothing")
    assert printed.results["a"] == {"type": name, "n": len(bits), "b64": given}
    values = list(struct.unpack(f"<{len(bits)}{code}", base64.b64decode(given)))
    words = {math.inf: "Infinity", -math.inf: "-Infinity"}
    listed = [words.get(v, v) for v in values]
    answer = launch({"arrays": {"a": {"type": name, "data": listed}}}, "nothing")
    back = [float(v.replace("Infinity", "inf")) if isinstance(v, str) else v for v in answer.results["a"]]
    assert struct.pack(f"<{len(back)}{code}", *back) == struct.pack(f"<{len(bits)}{integer}", *bits)
    assert len(bits) * size == len(base64.b64decode(given))


def test_what_is_not_finite_is_a_string_and_the_output_is_json(launch):
    arrays = {"X": ["NaN", "Infinity", "-Infinity"], "Y": [0, 0, 0], "R": [0, 0, 0]}
    answer = launch({"scalars": [3, 1], "arrays": arrays})
    assert answer.results["R"] == ["NaN", "Infinity", "-Infinity"]
    assert b"nan" not in answer.raw and b"inf" not in answer.raw


def test_small_numbers_are_not_rounded_away(launch):
    arrays = {"X": [1e-8, 123456789], "Y": [0, 0], "R": [0, 0]}
    assert launch({"scalars": [2, 1], "arrays": arrays}).results["R"] == [1e-8, 123456792.0]


def test_halves_are_rounded_as_the_gpu_does(launch):
    data = [1, 0.1, 65504, 6e-8, "NaN", "-Infinity", 2049, 2051]
    listed = launch({"arrays": {"a": {"type": "f16", "data": data}}}, "nothing").results["a"]
    expected = [struct.unpack("<e", struct.pack("<e", v))[0] for v in (1, 0.1, 65504, 6e-8)]
    assert [struct.pack("<e", v) for v in listed[:4]] == [struct.pack("<e", v) for v in expected]
    assert listed[4:] == ["NaN", "-Infinity", 2048.0, 2052.0]
    doubled = launch({"arrays": {"a": {"type": "f16", "data": [1, 0.5]}}}, "halves", block=(2, 1, 1))
    assert doubled.results["a"] == [2.0, 1.0]
    launch({"arrays": {"a": {"type": "f16", "data": [65520]}}}, "nothing").error(2, "BAD_INPUT")
    brain = launch({"arrays": {"a": {"type": "bf16", "data": [1, 3.140625, 1e38]}}}, "nothing")
    assert brain.results["a"][:2] == [1.0, 3.140625] and abs(brain.results["a"][2] / 1e38 - 1) < 0.01


def test_booleans(launch):
    array = {"type": "bool", "data": [True, False, 1, 0]}
    assert launch({"arrays": {"a": array}}, "nothing").results == {"a": [True, False, True, False]}
    array["data"] = [2]
    launch({"arrays": {"a": array}}, "nothing").error(2, "BAD_INPUT")


def test_matmul(launch):
    n = 9
    a, b = ([float((i * k) % 7) for i in range(n * n)] for k in (3, 5))
    args = [{"name": "a", "data": a, "mode": "in"}, {"name": "b", "data": b, "mode": "in"},
            {"name": "c", "n": n * n, "mode": "out"}, n]
    c = launch({"args": args}, "matmul", (2, 2, 1), (8, 8, 1)).results
    assert c == {"c": [sum(a[i * n + k] * b[k * n + j] for k in range(n))
                       for i in range(n) for j in range(n)]}


def test_grids_of_three_dimensions(launch):
    out = launch({"arrays": {"out": {"type": "u32", "n": 4 * 6 * 4}}}, "indices", (2, 3, 2), (2, 2, 2)).results
    assert out["out"] == [x + 100 * y + 10000 * z for z in range(4) for y in range(6) for x in range(4)]


def test_dynamic_shared_memory(launch):
    args = [{"name": "a", "type": "i32", "data": list(range(64))}, 64]
    answer = launch({"args": args}, "reverse", block=(64, 1, 1), options=("--shared", 256))
    assert answer.results["a"] == list(range(63, -1, -1))
    answer = launch({"args": args, "shared": 60000}, "reverse", block=(64, 1, 1))
    assert answer.results["a"] == list(range(63, -1, -1))
    launch({"args": args}, "reverse", options=("--shared", 100000000)).error(6, "CUDA_ERROR_INVALID_VALUE")


def test_arrays_without_elements_and_kernels_without_parameters(launch):
    arrays = {"X": [], "Y": [ ], "R": {"type": "f32", "n": 0}}
    assert launch({"scalars": [0, 1], "arrays": arrays}).results == {"X": [], "Y": [], "R": []}
    assert launch({}, "none").results == {}
    assert launch({"scalars": [], "arrays": {}}, "none").results == {}


def test_ten_million_elements(launch):
    """Printed and read, not run: the emulated GPU has only to hold them."""
    n = 10_000_000
    text = b'{"arrays": {"a": {"type": "u8", "data": [' + b",".join([b"7"] * n) + b"]}}}"
    answer = launch(text, "nothing", block=(1, 1, 1))
    same = answer.raw == b'{"results":{"a":[' + b",".join([b"7"] * n) + b"]}}\n"
    assert same and answer.status == 0


def test_modes_and_return_choose_what_comes_back(launch):
    arrays = {"X": {"data": [1], "mode": "in"}, "Y": [1], "R": {"data": [5], "mode": "out"}}
    assert launch({"scalars": [1, 2], "arrays": arrays}).results == {"Y": [1.0], "R": [3.0]}
    answer = launch({"scalars": [1, 2], "arrays": arrays, "return": ["X"]})
    assert answer.results == {"X": [1.0]}
    launch({"scalars": [1, 2], "arrays": arrays, "return": ["Z"]}).error(2, "BAD_INPUT", "Z")


def test_the_order_of_the_document_counts_and_can_be_said(launch):
    """Lean sorts the keys of an object; "order" says what they were."""
    arrays = {"R": [0.0], "X": [3.0], "Y": [1.0]}
    assert launch({"scalars": [1, 2], "arrays": arrays}).results["Y"] == [3.0]
    answer = launch({"scalars": [1, 2], "arrays": arrays, "order": ["X", "Y", "R"]})
    assert answer.results == {"X": [3.0], "Y": [1.0], "R": [7.0]}
    for order in (["X", "Y"], ["X", "Y", "Y"], ["X", "Y", "Q"]):
        launch({"scalars": [1, 2], "arrays": arrays, "order": order}).error(2, "BAD_INPUT")


def test_names_may_be_any_text(launch):
    name = 'a "quoted" \\ name\n with \u00fc and \U0001F600'
    assert launch({"arrays": {name: [1.0]}}, "nothing").results == {name: [1.0]}


def test_a_name_twice_is_refused(launch):
    text = b'{"scalars": [1, 2], "arrays": {"X": [1], "X": [2], "R": [0]}}'
    launch(text).error(2, "BAD_INPUT", "duplicate")
    args = [{"name": "a", "data": [1]}, {"name": "a", "data": [1]}]
    launch({"args": args}, "increment").error(2, "BAD_INPUT")


def test_shared_memory_takes_arrays_in_and_out(launch):
    names = [f"/gpu_launcher_{uuid.uuid4().hex}" for _ in range(2)]
    try:
        for name, values in zip(names, ([1.0, 2.0], [0.0, 0.0])):
            with open(f"/dev/shm{name}", "wb") as f:
                f.write(struct.pack("<2f", *values))
        arrays = {"X": {"shm": names[0], "n": 2, "mode": "in"}, "Y": [10.0, 20.0],
                  "R": {"shm": names[1], "n": 2, "type": "f32"}}
        answer = launch({"scalars": [2, 2], "arrays": arrays})
        assert answer.results["R"] == {"type": "f32", "n": 2, "shm": names[1]}
        with open(f"/dev/shm{names[1]}", "rb") as f, mmap.mmap(f.fileno(), 8, prot=mmap.PROT_READ) as m:
            assert struct.unpack("<2f", m) == (12.0, 24.0)
        arrays["R"]["n"] = 3
        launch({"scalars": [2, 2], "arrays": arrays}).error(2, "BAD_INPUT", "less than 12")
        arrays["R"]["shm"] = "/gpu_launcher_is_not_there"
        launch({"scalars": [2, 2], "arrays": arrays}).error(3, "NO_FILE")
    finally:
        for name in names:
            os.unlink(f"/dev/shm{name}")


def test_a_cxx_function_is_found_by_its_name(launch):
    args = [{"type": "i32", "name": "a", "data": [1, 2]}, 5]
    for name in ("increment", "_Z9incrementPii"):
        assert launch({"args": args}, name, block=(2, 1, 1)).results == {"a": [6, 7]}
    answer = launch({"args": args[:1]}, "overloaded")
    assert "_Z10overloadedPi" in answer.error(4, "CUDA_ERROR_NOT_FOUND", "more than one")["message"]


def test_fat_binaries_and_cubins(launch):
    """The types come from the PTX inside; machine code alone does not say them."""
    kernels = launch({}, "none", file=ELF / "compress_default.fatbin").error(4, "CUDA_ERROR_NOT_FOUND")
    assert "the module has" in kernels["message"]
    if DRIVER == "emu":
        launch({}, "none", file=ELF / "sm_90.cubin").error(4, "CUDA_ERROR_NO_BINARY_FOR_GPU")


def test_input_ends_with_its_brace(launch_env):
    """Neither a newline nor the end of stdin is waited for; what follows is not ours."""
    command = [LAUNCHER, *WAY, KERNELS, "saxpyKernel", *"1 1 1 256 1 1".split()]
    with subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=launch_env) as process:
        process.stdin.write(json.dumps(EXAMPLE).encode())
        process.stdin.flush()
        assert json.loads(process.stdout.read())["results"]["R"] == SAXPY
        process.stdin.close()
        assert process.wait(timeout=HANG) == 0


@pytest.mark.parametrize("text", ["", "{", '{"scalars": [1', '{"a": "', "[]", "x", "{]", '{"a" 1}',
                                  '{"arrays": []}', '{"scalars": 1}', '{"scalars": [1,]}',
                                  '{"arrays": {"a": 1}}', '{"arrays": {"a": [1,,2]}}',
                                  '{"arrays": {"a": {"data": [1], "b64": ""}}}',
                                  '{"arrays": {"a": {"type": "f31", "data": [1]}}}',
                                  '{"arrays": {"a": {"data": [[1]]}}}', '{"arrays": {"a": {"n": -1}}}',
                                  '{"arrays": {"a": {"n": 4611686018427387904, "type": "f64"}}}',
                                  '{"arrays": {"a": {"b64": "!!!!"}}}', '{"arrays": {"a": {"b64": "QQ"}}}',
                                  '{"arrays": {"a": {"data": [1], "n": 2}}}', '{"args": [], "scalars": []}',
                                  '{"arrays": {"a": {"data": [1], "mode": "up"}}}',
                                  '{"arrays": {"a": {"data": [1], "typ": "f32"}}}',
                                  '{"arrays": {"a": ["x"]}}', '{"arrays": {"a": [nan]}}',
                                  '{"arrays": {"a": {"at": 0, "n": 1}}}', '{"cmd": "dance"}',
                                  '{"arrays": {"a": {"data": [tru]}}}', "[" * 70 + "]" * 70,
                                  '{"a": ' + "[" * 70 + "]" * 70 + "}"])
def test_bad_input_is_refused_with_an_error_object(launch, text):
    answer = launch(text.encode(), "nothing")
    answer.error(2, "BAD_INPUT")
    assert answer.raw.count(b"\n") == 1


def test_a_wrong_count_of_arguments_is_refused(launch):
    launch({"scalars": [1], "arrays": EXAMPLE["arrays"]}).error(2, "BAD_INPUT", "takes 5 arguments, and 4")
    launch({"args": [{"data": [1]}] * 2 + [1, 2, 3]}).error(2, "BAD_INPUT")


def test_files_and_kernels_that_are_not_there(launch, tmp_path):
    launch({}, file=tmp_path / "no.ptx").error(3, "NO_FILE", "no.ptx")
    launch({}, file=tmp_path).error(3, "NO_FILE")
    error = launch({}, "saxpy").error(4, "CUDA_ERROR_NOT_FOUND", "no kernel is named saxpy")
    assert "saxpyKernel" in error["message"]
    (tmp_path / "bad.ptx").write_text("this is no module")
    assert launch({}, file=tmp_path / "bad.ptx").json["error"]["exit"] == 4
    text = KERNELS.read_text().replace("ret;", "dance;")
    (tmp_path / "wrong.ptx").write_text(text)
    assert "dance" in launch(EXAMPLE, file=tmp_path / "wrong.ptx").error(4, WRONG_PTX)["log"]


def test_a_launch_that_the_driver_refuses(launch):
    for grid, block in (((1, 1, 1), (2048, 1, 1)), ((1, 70000, 1), (1, 1, 1)), ((0, 1, 1), (1, 1, 1))):
        launch(EXAMPLE, grid=grid, block=block).error(6, "CUDA_ERROR_INVALID_VALUE", "grid")


def test_a_fault_is_an_error(launch):
    answer = launch({"arrays": {"a": {"type": "i32", "data": [1]}}}, "fault", block=(1, 1, 1))
    assert answer.error(6, "CUDA_ERROR_ILLEGAL_ADDRESS")["stage"] == "exec"


@pytest.mark.parametrize("array", [{"n": 1, "mode": "in"}, {"n": 0}])
def test_a_fault_is_an_error_where_nothing_comes_back(launch, array):
    answer = launch({"arrays": {"a": {"type": "i32", **array}}}, "fault", block=(1, 1, 1))
    assert answer.error(6, "CUDA_ERROR_ILLEGAL_ADDRESS")["stage"] == "exec"


def test_more_memory_than_the_gpu_has(launch):
    array = {"type": "u8", "n": 1 << 42}
    assert launch({"arrays": {"a": array}}, "nothing").error(5, "CUDA_ERROR_OUT_OF_MEMORY")["stage"] == "memory"


def test_a_kernel_that_never_ends_is_ended(launch):
    array = {"type": "i32", "data": [0]}
    answer = launch({"arrays": {"a": array}}, "endless", block=(1, 1, 1), options=("--timeout-ms", 300))
    answer.error(7, "TIMEOUT")


def test_a_message_can_be_too_large(launch):
    launch(EXAMPLE, options=("--max-input", 100)).error(5, "MESSAGE_TOO_LARGE")


@pytest.mark.parametrize("arguments", [[], ["x.ptx"], ["x.ptx", "k", "1", "1", "1", "1", "1"],
                                       ["x.ptx", "k", "1", "1", "1", "1", "1", "x"],
                                       ["x.ptx", "k", "1", "1", "1", "1", "1", "-1"],
                                       ["x.ptx", "k", "1", "1", "1", "1", "1", "1", "1"],
                                       ["--nonsense"], ["--shared"], ["--shared", "x"],
                                       ["--cache", "dance"], ["--format", "xml"]])
def test_wrong_usage_is_said_as_the_seed_did(arguments):
    done = subprocess.run([str(LAUNCHER), *arguments], stdin=subprocess.DEVNULL, env=clean_env(),
                          capture_output=True, timeout=HANG, check=False)
    assert "Usage: gpu_launcher" in done.stderr.decode()
    Answer(done).error(1, "USAGE")


def test_without_a_gpu_the_emulated_one_is_taken(launch, launch_env):
    """The log says it at the level info: a program that starts the launcher often prints nothing."""
    if DRIVER != "emu":
        pytest.skip("this machine has a GPU")
    answer = launch(EXAMPLE, driver=())
    assert answer.results["R"] == SAXPY and answer.err == ""
    assert "emulated" in launch(EXAMPLE, driver=(), env={**launch_env, "CRICKET_LOG": "info"}).err


def test_the_reply_says_why_a_server_cannot_be_used(launch):
    answer = launch(EXAMPLE, driver=("--connect", "nohost.invalid"))
    message = answer.error(8, "CUDA_ERROR_NO_DEVICE")["message"]
    assert message.startswith("cuInit: ") and "nohost.invalid: no host has this name" in message
    assert answer.err.count("no host has this name") == 1


@pytest.mark.parametrize("grid, block, options, limit", [
    ((1, 1, 1), (4096, 1, 1), (), "a block has at most 1024 threads in x"),
    ((1, 1, 1), (32, 64, 1), (), "a block has at most 1024 threads"),
    ((1, 1, 1), (1, 1, 65), (), "a block has at most 64 threads in z"),
    ((1, 65536, 1), (1, 1, 1), (), "a grid has at most 65535 blocks in y"),
    ((1, 0, 1), (1, 1, 1), (), "each size of a grid and of a block is at least 1"),
    ((1, 1, 1), (1, 1, 1), ("--shared", 100000000), "bytes of dynamic shared memory")])
def test_a_launch_that_exceeds_a_limit_names_it(launch, grid, block, options, limit):
    error = launch(EXAMPLE, grid=grid, block=block, options=options).error(6, "CUDA_ERROR_INVALID_VALUE", limit)
    assert error["message"].endswith(limit)


def test_no_driver_and_no_device(launch, tmp_path):
    launch(EXAMPLE, driver=("--driver", tmp_path / "none.so")).error(8, "NO_DRIVER")
    launch(EXAMPLE, driver=("--driver", shutil.which("true"))).error(8, "NO_DRIVER")
    launch(EXAMPLE, options=("--device", 99)).error(8, "CUDA_ERROR_INVALID_DEVICE")
    assert CLIENT.exists()


def test_what_a_kernel_prints_is_not_in_the_output(launch, tmp_path):
    text = (KERNELS.read_text() + """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[6] = {104, 101, 108, 108, 111, 0};
.visible .entry speak() {
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  mov.u64 %rd1, text; cvta.global.u64 %rd2, %rd1;
  { .param .b64 f; st.param.b64 [f], %rd2; .param .b64 a; st.param.b64 [a], 0; .param .b32 r;
    call.uni (r), vprintf, (f, a); ld.param.b32 %r1, [r]; }
  ret; }
""")
    (tmp_path / "speak.ptx").write_text(text)
    answer = launch({}, "speak", block=(1, 1, 1), file=tmp_path / "speak.ptx")
    assert answer.results == {} and answer.raw == b'{"results":{}}\n'
    assert "hello" in answer.err


def test_timing_is_said_when_asked_for(launch):
    timing = launch(EXAMPLE, options=("--timing",)).json["timing"]
    assert sorted(timing) == ["d2h_ms", "h2d_ms", "kernel_ms", "load_ms"]
    assert all(value >= 0 for value in timing.values())
