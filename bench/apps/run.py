#!/usr/bin/env python3
"""bench/apps/run.py - applications that people use, natively, over shm and over tcp; their numbers are compared.

    bench/apps/run.py                             all, as root on a machine with a GPU
    bench/apps/run.py -k 'llama|diffusion'        some, by a regular expression
    bench/apps/run.py --wheels DIR                with the wheels of DIR, which it installs for this run, without a network
    bench/apps/run.py --list

Prints a table last, writes it as OUT/applications.md and all results as OUT/results.json, and ends with status 1 when an
application does not do what it does natively. A missing package is a row that says so. CRICKET_TEST_DRIVER=emu
takes the emulated GPU on all sides.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "gpu"))
import judge  # noqa: E402
import runner  # noqa: E402

MISSING = 77                # as in common.py
SIDES = ("native", "shm", "tcp")
WITHOUT_NATIVE = {"missing": "not installed", "not run": "not run"}
NO_TOLERANCE = {"tolerance": 0, "limit": ""}


class App(typing.NamedTuple):
    title: str
    script: str
    arguments: tuple = ()
    seconds: int = 100      # that a run may take


APPS = (
    App("transformers: Llama generates", "llama_generate.py", ("eager",)),
    App("transformers: the same, compiled, CUDA graphs", "llama_generate.py", ("compile",), 200),
    App("transformers: GPT-2, AdamW, AMP", "gpt2_train.py"),
    App("transformers: Whisper", "whisper.py"),
    App("PEFT: LoRA of a Llama", "lora_peft.py"),
    App("diffusers: Stable Diffusion, DDIM", "diffusion.py"),
    App("several models in turn (ComfyUI's way)", "model_swap.py"),
    App("torchvision: Faster R-CNN", "detector.py"),
    App("torch.compile: MLP", "compile_mlp.py", (), 200),
    App("torch.compile: attention", "compile_attention.py", (), 200),
    App("torch.cuda.graph", "cuda_graphs.py"),
    App("DataLoader: workers, pinned memory", "data_loader.py"),
    App("torch.linalg, torch.fft", "linalg_fft.py"),
    App("DDP of one process, NCCL", "ddp_nccl.py"),
    App("torch.multiprocessing: a shared tensor", "shared_tensor.py"),
    App("safetensors to the GPU", "safetensors_load.py"),
    App("bitsandbytes: 4 and 8 bits", "bitsandbytes_layers.py"),
    App("Liger kernels in a Llama", "liger_llama.py"),
    App("flash-linear-attention", "linear_attention.py", (), 200),
    App("Triton by hand", "triton_kernels.py"),
    App("JAX: jit, grad, scan", "jax_train.py"),
    App("Flax, Optax", "flax_train.py"),
    App("CuPy: kernels", "cupy_kernels.py"),
    App("CuPy: sorting, cuFFT, cuBLAS, cuSPARSE", "cupy_kernels.py", ("libraries",)),
    App("Numba", "numba_kernels.py"),
    App("Taichi", "taichi_fields.py"),
    App("XGBoost", "xgboost_train.py"),
    App("ONNX Runtime: CUDA provider", "onnx_runtime.py"),
    App("CTranslate2: Whisper", "ctranslate2_whisper.py"),
    App("llama.cpp: server, GGUF of 8 bits", "llama_cpp.py"),
    App("C: cuBLAS, cuFFT", "cuda_c.py"),
)


def arguments():
    parser = argparse.ArgumentParser(description="applications, natively and remotely")
    parser.add_argument("-k", metavar="REGEX", default="", help="applications whose title or script contains it")
    parser.add_argument("-j", type=int, default=1, help="applications at once (default 1; more disturb the times)")
    parser.add_argument("--shm", help="shm: address of a server that runs; else one is started")
    parser.add_argument("--tcp", help="its tcp address")
    parser.add_argument("--wheels", type=pathlib.Path, help="folder of wheels to install for this run")
    parser.add_argument("--apps", type=pathlib.Path, help="other applications, as JSON: rows of title, script, arguments, seconds")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "gpu" / "applications")
    parser.add_argument("--seconds", type=float, default=540, help="for all of it (default 540)")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def install(wheels, site):
    """Puts WHEELS, with nothing that they ask for, into SITE. If pip fails, its message is printed, and the rest runs."""
    files = sorted(wheels.glob("*.whl"))
    if not files:
        print(f"no wheels in {wheels}")
        return
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile",
                           "--no-cache-dir", "--upgrade", "--target", site, *files], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"wheels: {done.stderr.strip()}")


def reason_of(log):
    """The line of a run's output that says best why it failed: the last exception, or the last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt|Exit)\b", line)]
    return (errors or lines or ["nothing said"])[-1]


class Sides:
    """How an application runs natively and remotely, each with caches of its own."""

    def __init__(self, options, addresses, scratch):
        self.out, self.addresses, self.scratch = options.out.resolve(), addresses, scratch
        self.deadline = time.monotonic() + options.seconds

    def environment(self, side):
        env = runner.base_env(self.scratch / side)
        paths = [str(self.scratch / "site"), str(HERE), os.environ.get("PYTHONPATH")]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        env["APPS_BUILD"] = str(self.scratch)
        if runner.DRIVER == "emu":
            env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(self.scratch / "driver"), env["LD_LIBRARY_PATH"]]))
        if side != "native":
            env["REMOTE_GPU_ADDRESS"] = self.addresses[side]
        return env

    def command(self, side, app):
        command = [sys.executable, str(HERE / app.script), *app.arguments]
        preloads = [runner.CLIENTS[0]] if side != "native" else []
        if runner.DRIVER == "emu":      # which runs PTX only
            preloads.append(runner.CLIENTS[0].with_name("libcricket-ptx.so"))
        # For the program alone: what makes the devices vanish runs without the client.
        if preloads:
            command = ["env", "LD_PRELOAD=" + ":".join(map(str, preloads)), *command]
        if side == "native":
            return command
        return command if runner.DRIVER == "emu" else [str(ROOT / "bench" / "no-gpu.sh"), *command]

    def run(self, side, app):
        """One run: its status (ok, missing, error, hangs, not run), and its numbers and times, or why there are none."""
        left = min(app.seconds, self.deadline - time.monotonic())
        if left < 1:
            return {"status": "not run", "error": "no time was left"}
        name = re.sub(r"\W+", "_", f"{app.script} {' '.join(app.arguments)} {side}")
        with open(self.out / f"{name}.out", "w", encoding="utf-8") as out, \
                open(self.out / f"{name}.err", "w", encoding="utf-8") as err:
            began = time.monotonic()
            process = subprocess.Popen(self.command(side, app), env=self.environment(side), cwd=self.out, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err, start_new_session=True)
            try:
                status = process.wait(left)
            except subprocess.TimeoutExpired:
                status = None
            runner.kill(process)
        return dict(self.result(status, left, out.name, err.name), wall_s=round(time.monotonic() - began, 2))

    def result(self, status, seconds, out, err):
        said = pathlib.Path(err).read_text(encoding="utf-8", errors="replace")
        if status is None:
            return {"status": "hangs", "error": f"no result in {seconds:.0f} s; {reason_of(said)}"}
        if status == MISSING or (status == 1 and reason_of(said).startswith("ModuleNotFoundError")):
            return {"status": "missing", "error": reason_of(said)}
        if status != 0:
            return {"status": "error", "error": f"{reason_of(said)} ({'status' if status > 0 else 'signal'} {abs(status)})"}
        found = {}
        for line in pathlib.Path(out).read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("{"):
                found.update(json.loads(line))
        if not {"numbers", "seconds", "version"} <= found.keys():
            return {"status": "error", "error": f"no numbers; {reason_of(said)}"}
        return dict(found, status="ok", value=found["numbers"])


def run_app(sides, app):
    """All runs of an application; natively once more where a remote one differs. Prints how they went."""
    results = {"native": sides.run("native", app)}
    if results["native"]["status"] == "ok":
        results.update({side: sides.run(side, app) for side in SIDES[1:]})
    if any(judge.verdict(NO_TOLERANCE, results["native"], results[side])[0] == "differs" for side in SIDES[1:] if side in results):
        results["again"] = sides.run("native", app)
    print(row_of(app, results), flush=True)
    return results


def words_of(results):
    """(word, detail) in the words of docs/compatibility.md: one for both remote sides, or one for each that is not equal."""
    native = results["native"]
    if native["status"] != "ok":
        return [(WITHOUT_NATIVE.get(native["status"], "native fails"), native["error"])]
    verdicts = {s: judge.verdict(NO_TOLERANCE, native, results[s], results.get("again")) for s in SIDES[1:]}
    if len({word for word, _ in verdicts.values()}) == 1:
        return [verdicts["shm"]]
    return [(f"{side}: {word}", detail) for side, (word, detail) in verdicts.items() if word != "equal"]


def row_of(app, results):
    """A row of the table: title, version, native seconds, ratios, whether the numbers are the same or why not."""
    native = results["native"]
    cells = [app.title, native.get("version", ""), f"{native['seconds']:.3f}" if "seconds" in native else ""]
    for side in SIDES[1:]:
        seconds = results.get(side, {}).get("seconds")
        cells.append(f"{seconds / native['seconds']:.2f}" if seconds and native.get("seconds") else "")
    cells.append("; ".join(f"{word} ({detail})" if detail else word for word, detail in words_of(results)).replace("|", "/")[:200])
    return f"| {' | '.join(cells)} |"


def is_good(results):
    return all(word.rpartition(": ")[2] in judge.GOOD for word, _ in words_of(results))


def prepare(options, scratch):
    """The folders of the runs, the wheels, and a server if none is given; (its process, its addresses)."""
    options.out.mkdir(parents=True, exist_ok=True)
    for old in [*options.out.glob("*.err"), *options.out.glob("*.out")]:
        old.unlink()
    if runner.DRIVER == "emu":
        (scratch / "driver").mkdir()
        for name in ("libcuda.so", "libcuda.so.1"):
            (scratch / "driver" / name).symlink_to(ROOT / "cpu" / "libcuda-emu.so")
    if options.wheels:
        install(options.wheels, scratch / "site")
    if options.shm and options.tcp:
        return None, {"shm": options.shm, "tcp": options.tcp}
    server, tcp = runner.start_server(options.out.resolve(), "tcp")
    return server, {"shm": f"shm:{options.out.resolve()}/battery.sock", "tcp": tcp}


def run_all(options, apps, scratch):
    """The results of each application, in their order."""
    server, addresses = prepare(options, scratch)
    sides = Sides(options, addresses, scratch)
    try:
        with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
            return list(pool.map(lambda app: run_app(sides, app), apps))
    finally:
        if server:
            server.terminate()
            server.wait()


def main():
    options = arguments()
    apps = APPS if not options.apps else \
        [App(title, script, tuple(words), seconds) for title, script, words, seconds in json.loads(options.apps.read_text())]
    apps = [a for a in apps if re.search(options.k, f"{a.title} {a.script} {' '.join(a.arguments)}", re.I)]
    if options.list:
        print("\n".join(f"{a.title}: {a.script} {' '.join(a.arguments)}" for a in apps))
        return 0
    with tempfile.TemporaryDirectory(prefix="applications-", ignore_cleanup_errors=True) as scratch:
        results = run_all(options, apps, pathlib.Path(scratch))
    head = ["| application | version | native, s | shm | tcp | numbers |", "|---|---|---|---|---|---|"]
    table = head + [row_of(app, r) for app, r in zip(apps, results)]
    (options.out / "applications.md").write_text(f"{datetime.date.today()}\n\n" + "\n".join(table) + "\n", encoding="utf-8")
    (options.out / "results.json").write_text(json.dumps({a.title: r for a, r in zip(apps, results)}, indent=1), encoding="utf-8")
    bad = sum(not is_good(r) for r in results)
    print("\n".join(["---", *table, f"applications: {len(apps) - bad} as natively or not installed, {bad} not"]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
