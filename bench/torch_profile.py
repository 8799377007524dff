#!/usr/bin/env python3
"""bench/torch_profile.py [FOLDER] - what torch.profiler says of training steps, as JSON on the last line.

Run it natively and through Cricket and compare: numbers of kernels and their names must be the same, their times nearly so.
`step` and `step_profiled` are medians of a step without and with the profiler. Chrome traces go to FOLDER.
"""
import collections
import json
import os
import pathlib
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

import torch_models

STEPS = 10


def steps_ms(step):
    """The median of STEPS synchronised steps."""
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times)[STEPS // 2]


def gpu_events(trace, category):
    return [e for e in trace["traceEvents"] if e.get("cat") == category and e.get("ph") == "X"]


def tied(trace, kernels):
    """How many of KERNELS have the correlation id of a call."""
    calls = {e["args"].get("correlation") for e in trace["traceEvents"]
             if e.get("cat") in ("cuda_runtime", "cuda_driver") and e.get("ph") == "X"}
    return sum(k["args"].get("correlation") in calls for k in kernels)


def profiled(name, step, folder):
    """The rows of one model."""
    for _ in range(5):
        step()
    plain = steps_ms(step)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        with_it = steps_ms(step)
    path = folder / f"{name}.json"
    p.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    kernels = gpu_events(trace, "kernel")
    names = collections.Counter(k["name"] for k in kernels)
    span = max(k["ts"] + k["dur"] for k in kernels) - min(k["ts"] for k in kernels) if kernels else 0
    return {
        f"{name}_step": {"ms": plain},
        f"{name}_step_profiled": {"ms": with_it},
        f"{name}_kernels": {"value": len(kernels), "unit": "kernels", "check": sorted(names.items())},
        f"{name}_tied_to_calls": {"value": tied(trace, kernels), "unit": "kernels"},
        f"{name}_kernel_time": {"value": sum(k["dur"] for k in kernels) / 1e3, "unit": "ms"},
        f"{name}_first_to_last": {"value": span / 1e3, "unit": "ms"},
        f"{name}_copies": {"value": len(gpu_events(trace, "gpu_memcpy")), "unit": "copies"},
        f"{name}_fills": {"value": len(gpu_events(trace, "gpu_memset")), "unit": "fills"},
    }


def with_options(step):
    """Memory and stacks; how many events have GPU time."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True, with_stack=True,
                 record_shapes=True) as p:
        step()
    table = p.key_averages(group_by_stack_n=3)
    return {"options_events_with_gpu_time": {"value": sum(e.device_time_total > 0 for e in table), "unit": "events"}}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    os.makedirs(folder, exist_ok=True)
    results = {}
    for name, make in (("resnet50", torch_models.resnet50_steps), ("gpt2", torch_models.gpt2_steps)):
        step, _ = make()
        results.update(profiled(name, step, folder))
    results.update(with_options(step))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
