#!/usr/bin/env python3
"""bench/jax_profile.py [FOLDER] - what jax.profiler says of training steps, as JSON on the last line.

Run it natively and through Cricket and compare: kernels by name and number must be the same, their times nearly so. Traces go to FOLDER.
JAX looks for a GPU by its device files before it asks the driver; a client's machine has none.
"""
import collections
import glob
import gzip
import json
import os
import pathlib
import shutil
import sys
import time

STEPS = 10


def jax_with_gpu():
    """JAX, which takes only what it needs of the GPU's memory."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        from jax._src import hardware_utils
        hardware_utils.has_visible_nvidia_gpu = lambda: True
    except ImportError:
        pass    # of another version: it may look elsewhere
    import jax
    assert jax.devices()[0].platform in ("gpu", "cuda"), jax.devices()
    return jax


def steps(jax):
    """A training step of a small network, compiled."""
    import jax.numpy as jnp
    key = jax.random.PRNGKey(0)
    weights = [jax.random.normal(k, (512, 512)) * 0.05 for k in jax.random.split(key, 4)]
    x = jax.random.normal(key, (256, 512))

    def loss(w):
        h = x
        for m in w:
            h = jnp.tanh(h @ m)
        return jnp.mean(h * h)

    @jax.jit
    def step(w):
        return [m - 0.1 * g for m, g in zip(w, jax.grad(loss)(w))]
    return step, weights


def copies(jax):
    """No kernel: for a GPU that runs no machine code (BENCH_COPIES=1)."""
    import numpy as np
    data = np.arange(1 << 20, dtype=np.float32)

    def step(w):
        return [np.asarray(jax.device_put(data + w[0].sum() * 0))]
    return step, [data]


def run(step, state, count):
    import jax
    began = time.perf_counter()
    for _ in range(count):
        state = step(state)
    jax.block_until_ready(state)
    return state, (time.perf_counter() - began) / count * 1e3


def gpu_events(folder):
    """Complete events of the devices in the trace that is in FOLDER."""
    (path,) = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
    with gzip.open(path) as f:
        events = json.load(f)["traceEvents"]
    devices = {e["pid"] for e in events if e.get("name") == "process_name" and "/device:GPU" in e["args"].get("name", "")}
    # rows of operators repeat the kernels below them: rows of streams have these
    streams = {(e["pid"], e["tid"]) for e in events if e.get("name") == "thread_name" and e["pid"] in devices
               and e["args"].get("name", "").startswith("Stream")}
    return [e for e in events if e.get("ph") == "X" and (e["pid"], e.get("tid")) in streams]


def profiled(jax, step, state, folder):
    """The rows of a profile."""
    shutil.rmtree(folder, ignore_errors=True)
    _, plain = run(step, state, STEPS)
    with jax.profiler.trace(str(folder)):
        state, with_it = run(step, state, STEPS)
    events = gpu_events(folder)
    kernels = [e for e in events if not e["name"].startswith(("Memcpy", "Memset"))]
    return {
        "jax_step": {"ms": plain},
        "jax_step_profiled": {"ms": with_it},
        "jax_kernels": {"value": len(kernels), "unit": "kernels",
                        "check": sorted(collections.Counter(k["name"] for k in kernels).items())},
        "jax_kernel_time": {"value": sum(k["dur"] for k in kernels) / 1e3, "unit": "ms"},
        "jax_copies": {"value": len(events) - len(kernels), "unit": "copies and fills"},
    }


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    jax = jax_with_gpu()
    step, state = (copies if os.environ.get("BENCH_COPIES") == "1" else steps)(jax)
    state, _ = run(step, state, 3)
    print(json.dumps(profiled(jax, step, state, folder / "jax")))


if __name__ == "__main__":
    main()
