"""bench/launcher.py FOLDER [OPTION]... - the measurements of bench/launcher.sh; a row each."""
import fcntl
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
from gpu_launcher import HEAD, encode  # noqa: E402

LAUNCHER = str(ROOT / "cpu" / "gpu_launcher")
KERNELS = str(ROOT / "tests" / "data" / "launcher" / "kernels.ptx")
F_SETPIPE_SZ = 1031
SAXPY = """extern "C" __global__ void saxpyKernel(int n, float a, const float *x, const float *y, float *r)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) r[i] = a * x[i] + y[i]; }
"""
SIZES = "1 1 1 256 1 1".split()
OPTIONS = []


def row(name, value, unit, goal=""):
    print(f"{name:46} {value:10.3f} {unit:5} {goal}".rstrip(), flush=True)


def seconds(work, times=5):
    """The median of TIMES runs, in seconds."""
    taken = []
    for _ in range(times):
        began = time.monotonic()
        work()
        taken.append(time.monotonic() - began)
    return statistics.median(taken)


def once(text, *arguments):
    done = subprocess.run([LAUNCHER, *OPTIONS, *arguments], input=text, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{arguments}: {done.stdout[:300]!r} {done.stderr[-300:]!r}")
    return done.stdout


def saxpy_json(n, **more):
    """SAXPY over n floats, as a program would write it: six digits."""
    random.seed(1)
    x = ",".join(f"{random.random():.6f}" for _ in range(n))
    text = f'{{"scalars":[{n},2.5],"arrays":{{"X":[{x}],"Y":[{x}],"R":{{"n":{n},"mode":"out"}}}}'
    for key, value in more.items():
        text += f',"{key}":{json.dumps(value)}'
    return (text + "}").encode()


def saxpy_frame(n, kept=False, **more):
    floats = bytes(4 * n)
    step = (4 * n + 63) // 64 * 64
    arrays = {"X": {"at": 0, "n": n, "mode": "in"}, "Y": {"at": step, "n": n, "mode": "in"}, "R": {"n": n, "mode": "out"}}
    if kept:
        arrays = {name: {"ref": name} for name in "XYR"}
    return b"".join(encode({"scalars": [n, 2.5], "arrays": arrays, **more}, [] if kept else [floats, floats]))


def launch(n):
    return {"module": KERNELS, "kernel": "saxpyKernel", "grid": [(n + 255) // 256], "block": [256]}


def one_shot():
    small, large = saxpy_json(8), saxpy_json(1_000_000)
    row("one launch, a process each, 8 floats", 1e3 * seconds(lambda: once(small, KERNELS, "saxpyKernel", *SIZES)), "ms",
        "goal: 50 ms")
    sizes = ["3907", *SIZES[1:]]
    row("one launch, a process each, 1 M floats, JSON",
        1e3 * seconds(lambda: once(large, KERNELS, "saxpyKernel", *sizes), 3), "ms")
    frame = saxpy_frame(1_000_000)
    row("one launch, a process each, 1 M floats, frame",
        1e3 * seconds(lambda: once(frame, KERNELS, "saxpyKernel", *sizes), 3), "ms")


def load_ms(folder, name):
    text = once(saxpy_json(8), "--timing", "--cache-dir", folder / name, folder / "saxpy.cu", "saxpyKernel", *SIZES)
    return json.loads(text)["timing"]["load_ms"]


def compiling(folder):
    (folder / "saxpy.cu").write_text(SAXPY)
    probe = subprocess.run([LAUNCHER, "--cache-dir", folder / "probe", "--compile", folder / "saxpy.cu"],
                           capture_output=True, check=False)
    if probe.returncode:
        print(f"no compiler here, no rows about it: {probe.stdout[:200]!r}")
        return
    row("cache miss: compile and load the module", statistics.median(load_ms(folder, f"miss{i}") for i in range(3)), "ms",
        "goal: 500 ms")
    row("cache hit: find, check and load the module", statistics.median(load_ms(folder, "miss0") for _ in range(5)), "ms",
        "goal: 1 ms")
    compile_ = [LAUNCHER, "--cache-dir", str(folder / "probe"), "--compile", str(folder / "saxpy.cu")]
    row("cache hit alone, a process each", 1e3 * seconds(
        lambda: subprocess.run(compile_, stdout=subprocess.DEVNULL, check=True), 20), "ms")


class Client:
    """A connection to the daemon that sends what is ready and reads replies whole."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.buffer = bytearray(1 << 20)

    def ask(self, message):
        thread = None
        if len(message) > 100_000:
            thread = threading.Thread(target=self.socket.sendall, args=(message,))
            thread.start()
        else:
            self.socket.sendall(message)
        n = self.socket.recv_into(self.buffer)
        if message[0] == 0xFE:
            while n < HEAD.size:
                n += self.socket.recv_into(memoryview(self.buffer)[n:])
            left = HEAD.unpack_from(self.buffer)[2] + HEAD.size - n
            head = bytes(self.buffer[:n])
        else:
            head, left = bytes(self.buffer[:n]), 1
            while not self.buffer[n - 1] == 10:
                n = self.socket.recv_into(self.buffer)
            left = 0
        while left > 0:
            left -= self.socket.recv_into(self.buffer)
        if thread:
            thread.join()
        if b'"error"' in head[:200]:
            sys.exit(head[:400])


def persistent(folder):
    path = str(folder / "gpu.sock")
    daemon = subprocess.Popen([LAUNCHER, *OPTIONS, "--daemon", path])
    while not os.path.exists(path):
        time.sleep(0.01)
    client = Client(path)
    small = saxpy_json(8, **launch(8))
    client.ask(small)
    row("daemon, 8 floats, JSON", 1e6 * seconds(lambda: client.ask(small), 1000), "us", "goal: 100 us and the copies")
    frame = saxpy_frame(8, **launch(8))
    row("daemon, 8 floats, frame", 1e6 * seconds(lambda: client.ask(frame), 1000), "us")
    n = 1_000_000
    frame, text = saxpy_frame(n, **launch(n)), saxpy_json(n, **launch(n))
    row("daemon, 1 M floats, JSON", 1e3 * seconds(lambda: client.ask(text), 5), "ms", "goal: 10 ms for the JSON")
    row("daemon, 1 M floats, frame", 1e3 * seconds(lambda: client.ask(frame), 20), "ms")
    arrays = {name: {"n": n, "keep": True, "mode": "in"} for name in "XYR"}
    client.ask(b"".join(encode({"scalars": [n, 2.5], "arrays": arrays, **launch(n)}, [])))
    kept = saxpy_frame(n, kept=True, **launch(n))
    row("daemon, 1 M floats that stay on the GPU", 1e6 * seconds(lambda: client.ask(kept), 200), "us")
    client.socket.close()
    daemon.terminate()
    daemon.wait()


def pipes(n, lend):
    """One array of n floats in and out again through pipes, in a process that has started; the results lent or copied."""
    message = b"".join(encode({"module": KERNELS, "kernel": "nothing", "grid": [1], "block": [1],
                               "args": [{"name": "a", "at": 0, "n": n}]}, [bytes(4 * n)]))
    process = subprocess.Popen([LAUNCHER, *OPTIONS, "--batch", *(["--lend"] if lend else [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    for pipe in (process.stdin, process.stdout):
        fcntl.fcntl(pipe, F_SETPIPE_SZ, 1 << 20)
    buffer = bytearray(1 << 20)

    def ask(data):
        thread = threading.Thread(target=send, args=(data,))
        thread.start()
        have = process.stdout.readinto(buffer)
        left = HEAD.unpack_from(buffer)[2] + HEAD.size - have
        while left > 0:
            left -= process.stdout.readinto(buffer)
        thread.join()

    def send(data):
        view = memoryview(data)
        while len(view):
            view = view[process.stdin.write(view[:1 << 20]):]

    ask(b"".join(encode({"cmd": "ping"}, [])))
    ask(b"".join(encode({"module": KERNELS, "kernel": "none", "grid": [1], "block": [1]}, [])))
    first = seconds(lambda: ask(message), 1)
    again = seconds(lambda: ask(message), 3)
    process.stdin.close()
    process.wait()
    how = ", lent" if lend else ""
    row(f"frame, {n // 1_000_000} M floats, in and out by pipes{how}, first", 8e-9 * n / first, "GB/s")
    row(f"frame, {n // 1_000_000} M floats, in and out by pipes{how}, again", 8e-9 * n / again, "GB/s", "goal: 2 GB/s")


def json_speed(folder):
    """Reading and printing: a document of 5 M numbers, with a kernel that does nothing."""
    random.seed(2)
    text = b'{"arrays":{"a":[' + b",".join(b"%.6f" % (100 * random.random()) for _ in range(5_000_000)) + b"]}}"
    (folder / "in.json").write_bytes(text)
    small = seconds(lambda: once(b'{"arrays":{"a":[1]}}', KERNELS, "nothing", *SIZES), 3)

    def run():
        with open(folder / "in.json", "rb") as source, open(folder / "out.json", "wb") as out:
            subprocess.run([LAUNCHER, *OPTIONS, KERNELS, "nothing", *SIZES], stdin=source, stdout=out, check=True)

    taken = seconds(run, 3) - small
    row("JSON, 5 M floats read and printed", 1e-6 * (len(text) + os.path.getsize(folder / "out.json")) / taken, "MB/s",
        "goal: 100 MB/s")


def h2d_ms(message, processors):
    """Until the array is on the device, on that many processors; the message has arrived and been scanned."""
    done = subprocess.run(["taskset", "-c", ",".join(map(str, processors)), LAUNCHER, *OPTIONS, "--timing", KERNELS, "nothing",
                           *SIZES], input=message, capture_output=True, check=True)
    reply = done.stdout[done.stdout.index(b'{"'):]  # behind a frame's head
    return json.JSONDecoder().raw_decode(reply.decode(errors="replace"))[0]["timing"]["h2d_ms"]


def json_parse():
    """Parsing alone, by processors: 1 M floats as JSON less the same as a frame, the best of seven each."""
    random.seed(3)
    n, all_ = 1_000_000, sorted(os.sched_getaffinity(0))
    text = ('{"arrays":{"a":{"mode":"in","data":[' + ",".join(f"{random.random():.6f}" for _ in range(n)) + "]}}}").encode()
    frame = b"".join(encode({"arrays": {"a": {"mode": "in", "at": 0, "n": n}}}, [bytes(4 * n)]))
    for count in (k for k in (1, 2, 4, 8, 16) if k <= len(all_)):
        took, copied = (min(h2d_ms(m, all_[:count]) for _ in range(7)) for m in (text, frame))
        parse = max(took - copied, 1e-3)
        row(f"JSON, 1 M floats parsed, processors: {count}", parse, "ms", "goal: 10 ms with 16")
        row(f"JSON, 1 M floats parsed, processors: {count}", 1e-3 * len(text) / parse, "MB/s")


def main():
    folder = pathlib.Path(sys.argv[1])
    OPTIONS[:] = sys.argv[2:]
    os.environ["XDG_CACHE_HOME"] = str(folder / "xdg")
    size = int(os.environ.get("SIZE", "10000000" if "emu" in OPTIONS else "100000000"))
    one_shot()
    compiling(folder)
    persistent(folder)
    pipes(size, False)
    pipes(size, True)
    json_speed(folder)
    json_parse()


if __name__ == "__main__":
    main()
