"""tests/gpu/runner.py - runs cases natively and remotely, in processes that may die or hang.

A side is "native" or "remote". Cases of one file share a process; when it dies, or a case takes longer
than it may, that case is reported and the rest gets a new process.
"""
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
START_SECONDS = 120         # until a process has imported what it needs and begins its first case
OUT_OF_TIME = "not run", "the battery's time was over"
EXIT_SECONDS = 30           # for a process to end after its last case
DRIVER = os.environ.get("CRICKET_TEST_DRIVER", "cuda")
# The driver, and the management library beside it.
CLIENTS = [p for p in (ROOT / "cpu" / "cricket-client.so", ROOT / "cpu" / "libnvidia-ml.so.1") if p.exists()]


def wheel_folders():
    """Where Python's packages keep NVIDIA's libraries, for programs built with a toolkit's."""
    homes = [pathlib.Path(p) / "nvidia" for p in sys.path if p]
    return [str(f) for home in homes if home.is_dir() for f in sorted(home.glob("*/lib"))]


def base_env(scratch):
    """The environment of both sides: caches of their own, so that each compiles for itself."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("CRICKET_", "CUDA_", "REMOTE_GPU", "LD_PRELOAD"))}
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR",
                 "NUMBA_CACHE_DIR", "TMPDIR", "CUDA_CACHE_PATH"):
        env[name] = str(scratch / name.lower())
        pathlib.Path(env[name]).mkdir(parents=True, exist_ok=True)
    env["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"      # without it cuBLAS may choose by what is free
    env["LD_LIBRARY_PATH"] = ":".join(filter(None, [env.get("LD_LIBRARY_PATH"), *wheel_folders()]))
    env["HF_HUB_OFFLINE"] = env["TRANSFORMERS_OFFLINE"] = "1"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    return env


class Sides:
    """How to run a command on each side. With CRICKET_TEST_DRIVER=emu both sides are remote, with the
    emulated GPU: that tests the battery itself where there is no GPU."""

    def __init__(self, address, log_folder, gpus, seconds):
        self.address, self.log_folder = address, pathlib.Path(log_folder)
        self.gpus, self.deadline = gpus, time.monotonic() + seconds
        self.scratch = tempfile.TemporaryDirectory(prefix="battery-", ignore_cleanup_errors=True)

    def start(self, side, command, log, more_env):
        """Starts COMMAND in a process group of its own, stdout piped, stderr to LOG."""
        scratch = pathlib.Path(self.scratch.name) / side
        env = dict(base_env(scratch), BATTERY_GPUS=str(self.gpus), **more_env)
        if side == "remote" or DRIVER == "emu":
            env["REMOTE_GPU_ADDRESS"] = self.address
            # For the command alone: what makes the devices vanish runs without the client.
            command = ["env", "LD_PRELOAD=" + ":".join(str(c) for c in CLIENTS), *command]
        if side == "remote" and DRIVER != "emu":
            command = [str(ROOT / "bench" / "no-gpu.sh"), *command]
        return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=log, start_new_session=True)

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def close(self):
        self.scratch.cleanup()


def kill(process):
    """Ends a process and all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def read_lines(process, lines):
    for line in process.stdout:
        lines.put(line)


def how_it_ended(process):
    status = process.poll()
    return f"signal {-status}" if status is not None and status < 0 else f"status {status}"


class Batch:
    """One process's worth of cases: NAMES is taken from the front as they end."""

    def __init__(self, process, names, cases, results, sides):
        self.process, self.names, self.cases, self.results = process, names, cases, results
        self.sides = sides
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=read_lines, args=(process, self.lines), daemon=True)

    def next_line(self, seconds):
        """The next line; "" when the process has ended, None when it takes longer."""
        deadline = min(time.monotonic() + seconds, self.sides.deadline)
        while time.monotonic() < deadline:
            try:
                return self.lines.get(timeout=0.05)
            except queue.Empty:
                if self.process.poll() is not None and self.lines.empty():
                    self.reader.join(0.5)   # a line may have come in between
                    return "" if self.lines.empty() else self.lines.get()
        return None

    def fail(self, status, error):
        """The first case that is left has failed."""
        self.results[self.names.pop(0)] = {"status": status, "error": error, "seconds": None}

    def run(self):
        """Reads what the process says until it ends or has to be ended; "" or how it ended."""
        self.reader.start()
        seconds, count = START_SECONDS, len(self.names)
        while self.names:
            line = self.next_line(seconds)
            if line is None:
                kill(self.process)
                self.fail(*(("hangs", f"no result in {seconds} s") if self.sides.seconds_left() > 0
                            else OUT_OF_TIME))
                return ""
            if line == "":
                ended = how_it_ended(self.process)
                if ended != "status 3" or len(self.names) == count:
                    self.fail("died", ended)
                return ""
            kind, name, *rest = line.split(" ", 2)
            seconds = self.cases[name.strip()]["seconds"] if kind == "BEGIN" else EXIT_SECONDS
            if kind == "RESULT":
                self.results[name] = json.loads(rest[0])
                self.names.remove(name)
        failed = self.results[name]["status"] == "error"
        try:
            self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "hangs"
        return "" if failed else how_it_ended(self.process)


def cases_of(module):
    """The cases of a file, as harness.py lists them: importing it needs no GPU. Or, as text, why there
    are none."""
    try:
        out = subprocess.run([sys.executable, HERE / "harness.py", module], capture_output=True,
                             timeout=START_SECONDS, check=False, text=True)
        return json.loads(out.stdout)
    except (subprocess.TimeoutExpired, ValueError) as e:
        said = out.stderr.strip().splitlines() if isinstance(e, ValueError) else [str(e)]
        return said[-1] if said else "nothing said"


def run_cases(sides, side, module, cases, names):
    """Runs the cases NAMES of one file on one side; {name: result}. An entry "ends" says how a
    process ended that had nothing more to do."""
    results = {}
    shared = [n for n in names if not cases[n]["alone"]]
    batches = [shared] + [[n] for n in names if cases[n]["alone"]]
    for batch in batches:
        names_left = list(batch)
        while names_left and sides.seconds_left() > 0:
            log_name = f"{module}.{batch[0] if len(batch) == 1 else 'shared'}.{side}.log"
            with open(sides.log_folder / log_name, "a", encoding="utf-8") as log:
                command = [sys.executable, str(HERE / "harness.py"), module, *names_left]
                env = cases[names_left[0]]["env"] if cases[names_left[0]]["alone"] else {}
                process = sides.start(side, command, log, env)
                ended = Batch(process, names_left, cases, results, sides).run()
                kill(process)
            if ended and batch is shared:
                results["ends"] = {"status": "ok", "value": ended, "seconds": 0}
    not_run = dict(zip(("status", "error", "seconds"), (*OUT_OF_TIME, None)))
    return {n: results.get(n, not_run) for n in [*names, *(n for n in results if n == "ends")]}


def start_server(folder, transport):
    """A server of our own with the real driver; (process, address)."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        tcp = f"127.0.0.1:{s.getsockname()[1]}"
    unix = f"{folder}/battery.sock"
    libraries = ":".join(filter(None, [os.environ.get("LIBS"), os.environ.get("LD_LIBRARY_PATH")]))
    env = dict(os.environ, CRICKET_CACHE_DIR=f"{folder}/cache", LD_LIBRARY_PATH=libraries)
    with open(f"{folder}/server.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([ROOT / "cpu" / "cricket-rpc-server", "--driver", DRIVER,
                                    "--listen", tcp, "--unix", unix], env=env, stdout=log,
                                   stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    for _ in range(200):
        if os.path.exists(unix) or process.poll() is not None:
            break
        time.sleep(0.05)
    if process.poll() is not None:
        raise SystemExit(f"the server did not come up: {folder}/server.log")
    return process, tcp if transport == "tcp" else f"unix:{unix}"
