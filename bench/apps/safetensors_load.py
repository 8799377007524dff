"""bench/apps/safetensors_load.py - safetensors: weights of 256 MiB are written, loaded with device="cuda", and summed."""
import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from common import DEVICE, report, version_of

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "weights.safetensors")
    torch.manual_seed(1)
    save_file({f"layer.{i}": torch.randn(4 << 20).bfloat16() for i in range(32)}, path)

    def work():
        weights = load_file(path, device=DEVICE)
        sums = [w.double().sum().item() for w in weights.values()]
        with safe_open(path, framework="pt", device=DEVICE) as f:
            return sums + [f.get_slice("layer.3")[1000:2000].double().sum().item(), len(list(f.keys()))]
    report(version_of("safetensors"), work)
