"""tests/e2e/test_launcher_daemon.py - gpu_launcher over many launches: batch, daemon, frames, the Python client."""
import array
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest

from conftest import HANG, ROOT, SLOW, children_of, clean_env, ended, is_alive, listens, run, start, wait_until
from test_launcher import EXAMPLE, KERNELS, LAUNCHER, SAXPY, WAY, Answer

sys.path.insert(0, str(ROOT / "python"))
from gpu_launcher import LaunchError, Launcher, Typed, encode  # noqa: E402

LAUNCH = {"module": str(KERNELS), "kernel": "saxpyKernel", "grid": [1], "block": [32]}
ADD = {"module": str(KERNELS), "kernel": "increment", "grid": [1], "block": [2]}
ENDLESS = {"module": str(KERNELS), "kernel": "endless", "grid": [1], "block": [1],
           "arrays": {"a": {"type": "i32", "data": [0]}}}
FAULT = {**ENDLESS, "kernel": "fault"}


def array_of(*values):
    return {"type": "i32", "name": "a", "data": list(values)}


def batch(lines, *options, raw=False):
    """Runs a batch; returns its exit code and the replies."""
    text = lines if raw else "\n".join(json.dumps(line) for line in lines).encode()
    done = subprocess.run([str(LAUNCHER), *WAY, *map(str, options), "--batch"], input=text,
                          env=clean_env(), capture_output=True, timeout=60 * SLOW, check=False)
    assert "Sanitizer" not in done.stderr.decode(), done.stderr.decode()
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


class Daemon:
    """A gpu_launcher --daemon of this test's own."""

    def __init__(self, folder, *options):
        self.path = folder / "gpu.sock"
        self.process = start([LAUNCHER, *WAY, *options, "--daemon", self.path], clean_env())
        wait_until(lambda: listens(self.path), 10, "the daemon listens")

    def client(self):
        return Launcher(connect=self.path)

    def launch(self, document=None, *options, kernel="saxpyKernel"):
        command = [LAUNCHER, "--connect", self.path, *options, KERNELS, kernel, *"1 1 1 32 1 1".split()]
        text = json.dumps(document or EXAMPLE).encode()
        return Answer(subprocess.run([str(c) for c in command], input=text, env=clean_env(),
                                     capture_output=True, timeout=60 * SLOW, check=False))

    def descendants(self):
        direct = children_of(self.process.pid)
        return direct + [p for d in direct for p in children_of(d)]

    def spare(self, *others):
        """The worker that the next client gets, when it is there: the one that is none of OTHERS."""
        def workers():
            return [p for p in children_of(self.process.pid) if name_of(p) == "gpu_worker" and p not in others]

        wait_until(workers, 20, "a worker is there")
        return workers()[0]

    def stop(self):
        """SIGTERM ends it, and all that it started."""
        if self.process.poll() is not None:
            return
        left = self.descendants()
        self.process.terminate()
        result = ended(self.process, 40)
        assert result.status == 0, result.err
        assert "Sanitizer" not in result.err, result.err
        assert not self.path.exists()
        wait_until(lambda: not any(map(is_alive, left)), 5, "its processes are gone")


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
            return f.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


@pytest.fixture
def daemon(tmp_path):
    d = Daemon(tmp_path)
    yield d
    d.stop()


# --- batch

def test_a_batch_keeps_arrays_on_the_gpu():
    status, replies = batch([
        {**ADD, "args": [{**array_of(1, 2), "keep": True}, 10]},
        {**ADD, "args": [{"ref": "a"}, 100]},
        {**ADD, "args": [{"ref": "a", "mode": "inout", "name": "seen"}, 1000]},
        {"cmd": "read", "arrays": ["a"]},
        {**ADD, "args": [{**array_of(7, 8), "keep": True}, 0]},
        {"cmd": "read", "arrays": ["a"]},
        {"cmd": "free", "arrays": ["a"]}])
    assert status == 0
    assert replies == [{"results": {}}, {"results": {}}, {"results": {"seen": [1111, 1112]}},
                       {"results": {"a": [1111, 1112]}}, {"results": {}}, {"results": {"a": [7, 8]}},
                       {"results": {}}]


def test_what_is_wrong_with_one_request_leaves_the_others():
    good = {**ADD, "args": [array_of(1, 2), 1]}
    status, replies = batch([good, {"cmd": "read", "arrays": ["a"]}, {"cmd": "dance"}, FAULT, good,
                             {"cmd": "free", "arrays": ["a"]}, {**good, "kernel": "x"}, good])
    assert [r["error"]["exit"] if "error" in r else 0 for r in replies] == [0, 2, 2, 6, 0, 2, 4, 0]
    assert status == 2
    assert replies[-1] == {"results": {"a": [2, 3]}}


def test_brackets_that_do_not_match_end_a_batch():
    status, replies = batch(b'{"cmd": "ping"} {"a": ]} {"cmd": "ping"}', raw=True)
    assert status == 2 and replies[0] == {"status": "ready"}
    assert len(replies) == 2 and replies[1]["error"]["code"] == "BAD_INPUT"
    status, replies = batch(b'{"cmd": "ping"}{"cmd": "pi', raw=True)
    assert status == 2 and "cut off" in replies[1]["error"]["message"]


def test_defaults_of_the_command_line_and_of_the_connection():
    lines = [{"args": [array_of(1, 2), 1]}]
    status, replies = batch([{"cmd": "defaults", **ADD}] + lines)
    assert (status, replies) == (0, [{"results": {"a": [2, 3]}}])
    status, replies = batch([{**ENDLESS}, {"cmd": "ping"}], "--timeout-ms", "200")
    assert replies[0]["error"]["code"] == "TIMEOUT" and replies[1] == {"status": "ready"}


def test_after_a_timeout_a_new_worker_goes_on_without_what_was_kept():
    status, replies = batch([{**ADD, "args": [{**array_of(1, 2), "keep": True}, 0]},
                             {**ENDLESS, "timeout_ms": 200},
                             {"cmd": "read", "arrays": ["a"]},
                             {**ADD, "args": [array_of(1, 2), 1]}])
    assert status == 7
    assert replies[1]["error"]["exit"] == 7 and replies[2]["error"]["exit"] == 2
    assert replies[3] == {"results": {"a": [2, 3]}}


def test_asynchronous_launches():
    job = {**ADD, "args": [array_of(1, 2), 1], "async": True}
    status, replies = batch([job, job, {"cmd": "wait", "id": 2}, {"cmd": "wait", "id": 1},
                             {"cmd": "poll", "id": 1}, {**job, "kernel": "x"}, {"cmd": "wait", "id": 3}])
    done = {"status": "done", "results": {"a": [2, 3]}}
    assert replies[:4] == [{"id": 1, "status": "queued"}, {"id": 2, "status": "queued"},
                           {"id": 2, **done}, {"id": 1, **done}]
    assert replies[4]["error"]["exit"] == 2
    assert (replies[6]["id"], replies[6]["status"], replies[6]["error"]["exit"]) == (3, "done", 4)
    assert status == 2


@pytest.mark.threads
def test_a_poll_is_answered_while_a_kernel_runs_and_it_can_be_cancelled():
    status, replies = batch([{**ENDLESS, "async": True}, {**ADD, "args": [array_of(1, 2), 1], "async": True},
                             {"cmd": "poll", "id": 2}, {"cmd": "cancel", "id": 1}, {"cmd": "wait", "id": 2}])
    assert status == 0
    assert replies[2:] == [{"id": 2, "status": "queued"}, {"id": 1, "status": "cancelled"},
                           {"id": 2, "status": "done", "results": {"a": [2, 3]}}]


def test_at_the_end_of_a_batch_all_results_are_there():
    job = {**ADD, "args": [array_of(1, 2), 1], "async": True}
    status, replies = batch([job] * 40)
    assert status == 0 and len(replies) == 80
    assert [r["id"] for r in replies[40:]] == list(range(1, 41))


def test_too_many_outstanding_launches_are_refused():
    job = {**ADD, "args": [array_of(1, 2), 1], "async": True}
    status, replies = batch([job] * 60)
    assert status == 5
    assert [r for r in replies if "error" in r][0]["error"]["code"] == "TOO_MANY_LAUNCHES"
    assert len([r for r in replies if "results" in r]) == 48


# --- frames and the Python client

@pytest.fixture
def gpu():
    with Launcher(LAUNCHER, WAY) as launcher:
        yield launcher


def test_the_python_client_finds_the_launcher(tmp_path, monkeypatch):
    (tmp_path / "gpu_launcher").symlink_to(LAUNCHER)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("GPU_LAUNCHER", raising=False)
    with Launcher(options=WAY) as launcher:
        assert launcher.ping() and launcher._process.args[0] == str(tmp_path / "gpu_launcher")
    monkeypatch.setenv("GPU_LAUNCHER", str(tmp_path / "none"))      # the user's word counts
    with pytest.raises(FileNotFoundError, match="none"):
        Launcher()
    monkeypatch.delenv("GPU_LAUNCHER")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpu_launcher.__file__", str(tmp_path / "a/b/c/gpu_launcher.py"))
    with Launcher(options=WAY) as launcher:
        assert launcher.ping()
    (tmp_path / "gpu_launcher").unlink()
    with pytest.raises(FileNotFoundError, match="set GPU_LAUNCHER"):
        Launcher()


@pytest.mark.parametrize("where", ["/no/such/socket", "gpuhost", ""])
def test_the_python_client_names_the_daemon_that_does_not_run(where):
    with pytest.raises(OSError, match=r"gpu_launcher --daemon running there\? A server is named with options") as problem:
        Launcher(connect=where)
    assert problem.value.filename == where


def test_the_python_client(gpu):
    assert gpu.ping()
    results = gpu.launch(**LAUNCH, **{**EXAMPLE, "scalars": [8, 2.5]})
    assert list(results["R"]) == SAXPY and list(results) == ["X", "Y", "R"]
    results = gpu.launch(module=KERNELS, kernel="mixed", grid=1, block=1, timing=True,
                         args=[{"name": "out", "type": "f64", "n": 8}, -5, 7, True, 2 ** 62,
                               array.array("d", [0.25]), 1.5, 0.1, {"type": "u32", "value": 9}])
    assert list(results["out"]) == [-5, 7, 1, 2.0 ** 62, 1.5, 0.1, 9, 0.25]


def test_large_results_one_after_the_other_are_each_its_own(gpu):
    for value in range(4):  # the second and later ones take the place of the first in memory that was lent
        data = array.array("i", [value]) * 1_000_001
        assert gpu.launch(module=KERNELS, kernel="none", grid=1, block=1, args=[]) == {}
        result = gpu.launch(module=KERNELS, kernel="nothing", grid=1, block=1, args=[data])
        assert bytes(result["arg0"]) == bytes(data)


def test_the_python_client_keeps_submits_and_cancels(gpu):
    gpu.defaults(**ADD)
    a = array.array("i", [1, 2])
    assert gpu.launch(args=[{"data": a, "name": "a", "keep": True}, 1]) == {}
    number = gpu.submit(args=[{"ref": "a"}, 1])
    assert gpu.wait(number) == {}
    assert list(gpu.read("a")["a"]) == [3, 4]
    number = gpu.submit(**ENDLESS)
    assert gpu.poll(number) is None
    gpu.cancel(number)
    with pytest.raises(LaunchError) as told:
        gpu.read("a")
    assert told.value.exit == 2
    results = gpu.launch(args=[{"data": a, "name": "a"}, 1], returns=["a"])
    assert list(results["a"]) == [2, 3]


def test_types_travel_in_frames_as_they_lie_in_memory(gpu):
    nothing = {"module": KERNELS, "kernel": "nothing", "grid": 1, "block": 1}
    for code in "bBhHiIqQfd":
        given = array.array(code, [0, 1, 100])
        back = gpu.launch(**nothing, arrays={"a": given})["a"]
        assert bytes(memoryview(back)) == given.tobytes()
    back = gpu.launch(**nothing, arrays={"a": Typed("bf16", b"\x80\x3f\x00\x40")})["a"]
    assert bytes(getattr(back, "data", b"")) in (b"\x80\x3f\x00\x40",) or list(back) == [1.0, 2.0]
    assert len(gpu.launch(**nothing, arrays={"a": []})["a"]) == 0


def test_the_python_client_sends_what_json_has_no_number_for(gpu):
    inf = float("inf")
    args = [{"name": "out", "type": "f64", "n": 8}, -5, 7, True, 2 ** 62, array.array("d", [0.25]), inf, -inf,
            {"type": "u32", "value": 9}]
    assert list(gpu.launch(module=KERNELS, kernel="mixed", grid=1, block=1, args=args)["out"])[4:6] == [inf, -inf]
    document, _ = Launcher._launch({"args": [2 ** 64 - 1, float("nan"), {"type": "f32", "value": [1.5, -inf]}]})
    assert document["args"] == [str(2 ** 64 - 1), "NaN", {"type": "f32", "value": [1.5, "-Infinity"]}]


def test_a_memoryview_is_its_bytes(gpu):
    given = memoryview(array.array("i", range(100)))
    back = gpu.launch(module=KERNELS, kernel="nothing", grid=1, block=1, arrays={"a": given})["a"]
    assert bytes(memoryview(back)) == bytes(given)


def test_a_large_array_in_a_frame(gpu):
    data = os.urandom(40_000_000)
    back = gpu.launch(module=KERNELS, kernel="nothing", grid=1, block=1, arrays={"a": data})["a"]
    same = bytes(back) == data
    assert same


def test_an_error_in_a_frame(gpu):
    for wrong, exit_code in (({"kernel": "x"}, 4), ({"grid": 0}, 6), ({"arrays": {"a": {"n": 1}}}, 2)):
        with pytest.raises(LaunchError) as told:
            gpu.launch(**{**LAUNCH, **EXAMPLE, **wrong})
        assert told.value.exit == exit_code
    assert list(gpu.launch(**LAUNCH, **EXAMPLE)["R"]) == SAXPY


def frame_of(text, data=b"", size=None, length=None, magic=0xCDA0CAFE, version=1):
    body = struct.pack("<I", len(text) if length is None else length) + text
    body += bytes(-(16 + len(body)) % 64) + data
    return struct.pack("<IIQ", magic, version, len(body) if size is None else size) + body


@pytest.mark.parametrize("message, words", [
    (frame_of(b"{}", version=2), "version"), (frame_of(b"{}", length=1000), "lengths"),
    (frame_of(b"{"), "cut off"), (frame_of(b"{}")[:10], "cut off"),
    (frame_of(b'{"cmd": "ping"}', size=1 << 40), "allowed"), (frame_of(b"[]"), "not a JSON"),
    (frame_of(b"{}", magic=0xCDA0CAFF - 1 + 256), "frame"),
    (frame_of(json.dumps({**LAUNCH, "args": [{"at": 4, "n": 1}]}).encode(), b"1234567"), "beyond"),
    (frame_of(json.dumps({**LAUNCH, "args": [{"at": 1 << 62, "n": 1 << 60}]}).encode()), "beyond")],
    ids=["version", "lengths", "text", "head", "huge", "list", "magic", "offset", "overflow"])
def test_frames_that_make_no_sense(message, words):
    done = subprocess.run([str(LAUNCHER), *WAY, "--batch"], input=message, env=clean_env(),
                          capture_output=True, timeout=HANG, check=False)
    assert done.returncode in (2, 5)
    assert done.stdout.startswith(b"\xfe\xca\xa0\xcd")
    length, = struct.unpack_from("<I", done.stdout, 16)
    assert words in json.loads(done.stdout[20:20 + length])["error"]["message"]


def test_one_launch_by_a_frame():
    document = {"scalars": [2, 3], "arrays": {"X": {"at": 0, "n": 2}, "Y": {"at": 64, "n": 2}, "R": {"n": 2}}}
    message = b"".join(encode(document, [struct.pack("<2f", 1, 2), struct.pack("<2f", 10, 20)]))
    done = subprocess.run([str(LAUNCHER), *WAY, "--format", "bin", str(KERNELS), "saxpyKernel",
                           *"1 1 1 32 1 1".split()], input=message, env=clean_env(), capture_output=True,
                          timeout=HANG, check=False)
    length, = struct.unpack_from("<I", done.stdout, 16)
    where = json.loads(done.stdout[20:20 + length])["results"]["R"]
    start = 20 + length
    at = start + -start % 64 + where["at"]
    assert where["at"] % 64 == 0 and struct.unpack_from("<2f", done.stdout, at) == (13.0, 26.0)


# --- the daemon

def test_a_daemon_does_what_the_launcher_does(daemon):
    for _ in range(2):
        assert daemon.launch().results["R"] == SAXPY
    daemon.launch({"scalars": [1]}).error(2, "BAD_INPUT")
    daemon.launch(EXAMPLE, "--shared", "100000000").error(6, "CUDA_ERROR_INVALID_VALUE")
    daemon.launch(kernel="x").error(4, "CUDA_ERROR_NOT_FOUND")
    daemon.launch({"arrays": {"a": [0]}}, "--timeout-ms", "200", kernel="endless").error(7, "TIMEOUT")


def test_paths_are_the_clients(daemon, tmp_path):
    (tmp_path / "here.ptx").write_text(KERNELS.read_text())
    text = json.dumps({**ADD, "module": "here.ptx", "args": [array_of(1, 2), 1]}).encode()
    done = subprocess.run([str(LAUNCHER), "--connect", str(daemon.path), "--batch"], input=text, cwd=tmp_path,
                          env=clean_env(), capture_output=True, timeout=HANG, check=False)
    assert json.loads(done.stdout) == {"results": {"a": [2, 3]}} and done.returncode == 0


def test_a_batch_through_a_daemon(daemon):
    text = b"\n".join(json.dumps(line).encode() for line in
                      [{**ADD, "args": [{**array_of(1, 2), "keep": True}, 10]}, {"cmd": "read", "arrays": ["a"]},
                       {**ADD, "kernel": "x", "args": []}] * 50)
    done = subprocess.run([str(LAUNCHER), "--connect", str(daemon.path), "--batch"], input=text,
                          env=clean_env(), capture_output=True, timeout=HANG, check=False)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 4 and len(replies) == 150
    assert replies[1] == {"results": {"a": [11, 12]}}


def test_clients_are_apart_from_each_other(daemon):
    with daemon.client() as one, daemon.client() as two:
        one.defaults(**ADD)
        one.launch(args=[{"data": array.array("i", [1, 2]), "name": "a", "keep": True}, 1])
        with pytest.raises(LaunchError):
            two.read("a")
        with pytest.raises(LaunchError) as told:
            two.launch(**FAULT)
        assert told.value.code == "CUDA_ERROR_ILLEGAL_ADDRESS"
        with pytest.raises(LaunchError) as told:
            two.launch(**{**ENDLESS, "timeout_ms": 200})
        assert told.value.exit == 7
        assert list(one.read("a")["a"]) == [2, 3]
        assert list(two.launch(**LAUNCH, **EXAMPLE)["R"]) == SAXPY


def test_a_worker_that_is_killed_is_replaced(daemon):
    first = daemon.spare()
    with daemon.client() as other:
        other.defaults(**ADD)
        other.launch(args=[{"data": array.array("i", [1, 2]), "name": "a", "keep": True}, 1])
        worker = daemon.spare(first)
        with daemon.client() as one:
            number = one.submit(**ENDLESS)
            wait_until(lambda: is_running(one, number), 20, "the launch runs")
            os.kill(worker, signal.SIGKILL)
            with pytest.raises(LaunchError) as told:
                one.wait(number)
            assert (told.value.code, told.value.exit) == ("WORKER_LOST", 6)
            assert list(one.launch(**LAUNCH, **EXAMPLE)["R"]) == SAXPY
            assert list(other.read("a")["a"]) == [2, 3]


def is_running(gpu, number):
    return gpu._ask({"cmd": "poll", "id": number}, [])[0]["status"] == "running"


def test_a_client_that_goes_takes_its_kernel_along(daemon):
    worker = daemon.spare()
    client = daemon.client()
    number = client.submit(**ENDLESS)
    wait_until(lambda: is_running(client, number), 20, "the launch runs")
    client.close()
    wait_until(lambda: not is_alive(worker), 10, "the worker is gone")


def test_several_clients_at_once(daemon):
    def work(good):
        with daemon.client() as gpu:
            for _ in range(5):
                if list(gpu.launch(**LAUNCH, **EXAMPLE)["R"]) == SAXPY:
                    good.append(1)

    good = []
    threads = [threading.Thread(target=work, args=(good,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(good) == 40


def test_a_daemon_that_stops_finishes_what_it_has_begun(daemon):
    with daemon.client() as gpu:
        assert gpu.ping()
        number = gpu.submit(**{**ENDLESS, "timeout_ms": 1500})
        daemon.process.terminate()
        wait_until(lambda: not daemon.path.exists(), 10, "the daemon has heard it")
        with pytest.raises(LaunchError) as told:
            # it reads no more, and sends what is due
            gpu._ask({"cmd": "ping"}, [])
        assert told.value.exit == 7 and number == 1
    assert ended(daemon.process, 20).status == 0


def test_a_daemon_never_takes_the_place_of_a_file(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    done = ended(start([LAUNCHER, *WAY, "--daemon", file], clean_env()), 10)
    assert done.status == 8 and "notes.txt" in done.err
    assert file.read_text() == "mine"


def test_a_daemon_that_is_killed_is_told(tmp_path):
    daemon = Daemon(tmp_path)
    client = start([LAUNCHER, "--connect", daemon.path, KERNELS, "endless", *"1 1 1 1 1 1".split()], clean_env())
    client.kill()
    client.communicate()
    with daemon.client() as gpu:
        number = gpu.submit(**ENDLESS)
        wait_until(lambda: is_running(gpu, number), 20, "the launch runs")
        left = daemon.descendants()
        os.killpg(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait()
        with pytest.raises(LaunchError) as told:
            gpu.ping()
        assert told.value.exit == 8
    wait_until(lambda: not any(map(is_alive, left)), 10, "its processes are gone")
    # a worker that was just being forked may have held the socket a moment longer
    error = daemon.launch().json["error"]
    assert error["exit"] == 8 and error["code"] in ("NO_DAEMON", "DAEMON_LOST")
    again = Daemon(tmp_path)        # in the place of the dead one's socket
    assert again.launch().results["R"] == SAXPY
    with subprocess.Popen([str(LAUNCHER), *WAY, "--daemon", str(again.path)], env=clean_env(),
                          stderr=subprocess.PIPE) as second:
        assert second.wait(timeout=HANG) == 8 and b"in use" in second.stderr.read()
    again.stop()


PING, QUIT = {"cmd": "ping"}, {"cmd": "quit"}
LATER = {**ADD, "args": [array_of(1, 2), 1], "async": True}
READY = {"status": "ready"}
QUEUED, RUNNING, CANCELLED = ({"id": 1, "status": word} for word in ("queued", "running", "cancelled"))
DONE = {"id": 1, "status": "done", "results": {"a": [2, 3]}}


@pytest.mark.parametrize("requests, replies, status, missing", [
    ([PING] * 3, [READY], 8, 2), ([PING], [], 8, 1), ([], [], 0, None),
    ([{"cmd": "defaults", **ADD}, PING, QUIT, PING], [READY], 0, None),
    ([LATER], [QUEUED], 8, 1), ([LATER] * 2, [QUEUED] * 2 + [DONE], 8, 1),
    ([LATER] * 2, [QUEUED] * 2 + [DONE] * 2, 0, None),
    ([LATER, {"cmd": "poll", "id": 1}, {"cmd": "wait", "id": 1}], [QUEUED, RUNNING, DONE], 0, None),
    ([LATER, {"cmd": "poll", "id": 1}, {"cmd": "wait", "id": 1}, PING], [QUEUED, RUNNING, DONE], 8, 1),
    ([LATER, PING, PING], [QUEUED, READY, DONE], 8, 1),
    ([LATER, {"cmd": "cancel", "id": 1}], [QUEUED, CANCELLED], 0, None),
    ([PING] * 3, [{"error": {"stage": "memory", "code": "TOO_MANY_LAUNCHES", "exit": 5}}], 5, None),
    ([PING] * 3, [{"error": {"stage": "input", "code": "BAD_INPUT", "exit": 2}}], 2, 2)])
def test_a_batch_counts_the_replies_that_a_lost_daemon_owes(tmp_path, requests, replies, status, missing):
    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            while connection.recv(100000):
                pass
            connection.sendall("".join(json.dumps(r) + "\n" for r in replies).encode())

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "gpu.sock"))
        listener.listen()
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        done = subprocess.run([str(LAUNCHER), "--connect", str(tmp_path / "gpu.sock"), "--batch"], env=clean_env(),
                              input="".join(map(json.dumps, requests)).encode(), capture_output=True,
                              timeout=HANG, check=False)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[:len(replies)] == replies and done.returncode == status
    lost = [(r["error"]["code"], r["error"]["exit"]) for r in told[len(replies):]]
    assert lost == ([] if missing is None else [("DAEMON_LOST", 8)])
    assert missing is None or f"missing: {missing} " in told[-1]["error"]["message"]


@pytest.mark.parametrize("request_", [PING, {**ENDLESS, "async": True}], ids=["ping", "launch"])
def test_a_batch_is_told_of_a_daemon_that_is_killed_between_two_replies(tmp_path, request_):
    daemon = Daemon(tmp_path)
    with subprocess.Popen([str(LAUNCHER), "--connect", str(daemon.path), "--batch"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=clean_env()) as client:
        client.stdin.write(json.dumps(request_).encode())
        client.stdin.flush()
        assert json.loads(client.stdout.readline())["status"] in ("ready", "queued")
        os.killpg(daemon.process.pid, signal.SIGKILL)
        daemon.process.communicate()
        assert json.loads(client.stdout.readline())["error"]["code"] == "DAEMON_LOST"
        assert client.wait(timeout=HANG) == 8


@pytest.mark.parametrize("text", [
    json.dumps(LATER) * 40, json.dumps(LATER) * 60, '{"cmd": "ping"} {"a": ]} {"cmd": "ping"}', '{"cmd": "pi', "x", "",
    '{"cmd": "ping"}{"cmd": "quit"}{"cmd": "ping"}', '{"cmd": "defaults", "grid": "x"}{"cmd": "ping"}'])
def test_a_batch_through_a_daemon_ends_as_one_without(daemon, text):
    ways = [[str(LAUNCHER), *WAY, "--batch"], [str(LAUNCHER), "--connect", str(daemon.path), "--batch"]]
    here, there = (subprocess.run(way, input=text.encode(), env=clean_env(), capture_output=True,
                                  timeout=60 * SLOW, check=False) for way in ways)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout)


def test_connect_auto_uses_a_daemon_that_is_there(tmp_path):
    def launch():
        return Answer(subprocess.run([str(LAUNCHER), *WAY, "--connect", "auto", str(KERNELS), "saxpyKernel",
                                      *"1 1 1 32 1 1".split()], input=json.dumps(EXAMPLE).encode(),
                                     env=clean_env(XDG_RUNTIME_DIR=str(tmp_path)), capture_output=True,
                                     timeout=HANG, check=False)).results["R"]

    assert launch() == SAXPY
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "gpu_launcher.sock"))
        listener.listen()
        threading.Thread(target=answer_once, args=(listener,), daemon=True).start()
        assert launch() == "asked"


def answer_once(listener):
    """A daemon that says one thing."""
    connection, _ = listener.accept()
    with connection:
        connection.recv(100000)
        connection.sendall(b'{"results": {"R": "asked"}}\n')
        while connection.recv(100000):
            pass


def test_a_daemon_that_is_not_there_is_told_from_one_that_is_dead(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    for path, why in ((tmp_path / "none", "No such file or directory"), (tmp_path / "dead", "Connection refused")):
        done = run([LAUNCHER, "--connect", path, KERNELS, "saxpyKernel", *"1 1 1 32 1 1".split()], clean_env())
        assert done.status == 8 and f"{path}: {why}: is a gpu_launcher --daemon running there?" in done.out
