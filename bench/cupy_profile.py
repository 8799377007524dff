#!/usr/bin/env python3
"""bench/cupy_profile.py - CuPy's ways to profile, as JSON on the last line: `cupyx.profiler.profile`, `time_range` and `benchmark`.

Run it natively and through Cricket and compare: the same kernels, and GPU times that are nearly the same. `profile` only switches a
profiler on that is attached; with CRICKET_PROFILE=FILE, the timeline has the ranges of `time_range` and the kernels inside.
"""
import json
import os
import time

import cupy as cp
import cupyx.profiler

REPEAT = int(os.environ.get("BENCH_REPEAT", "200"))
SIZE = int(os.environ.get("BENCH_SIZE", "4096"))


def work():
    """Two kernels of CuPy's own, and a reduction."""
    x = cp.arange(SIZE, dtype=cp.float32)
    return (cp.sin(x) * 2 + x).sum()


def main():
    expected = float(work())
    with cupyx.profiler.profile():
        began = time.perf_counter()
        for i in range(REPEAT):
            with cupyx.profiler.time_range(f"step {i % 2}", color_id=i % 2):
                result = work()
        cp.cuda.Device().synchronize()
        step = (time.perf_counter() - began) / REPEAT * 1e3
    timed = cupyx.profiler.benchmark(work, n_repeat=REPEAT, n_warmup=2)
    print(json.dumps({
        "cupy_step_in_ranges": {"ms": step},
        "cupy_benchmark_cpu": {"ms": float(timed.cpu_times.mean()) * 1e3},
        "cupy_benchmark_gpu": {"ms": float(timed.gpu_times.mean()) * 1e3},
        "cupy_result": {"value": int(float(result) == expected), "unit": "equal", "check": round(expected, 1)},
    }))


if __name__ == "__main__":
    main()
