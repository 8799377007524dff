#!/usr/bin/env python3
"""bench/weights.py [--gb N] [--put] - loading a model of random weights: natively, and first and later starts over a network.

Needs root, transformers and what `make -C tests far` builds. Times are from the first use of CUDA to the first token, with the file in
the page cache, by two loaders: transformers' from_pretrained, and safetensors' load_file and a sum. --put: the file is sent by `cricket
put` over a link without limits, and only the start after it is measured. OUT/weights.json; a table comes last.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import networks
from networks import Network, ROOT

SIZES = {   # hidden size, inner size, layers: some GB of bfloat16
    1: (2048, 5632, 8), 2: (2048, 8192, 16), 8: (4096, 14336, 16), 16: (4096, 14336, 34),
}


def config(gb):
    from transformers import LlamaConfig
    hidden, inner, layers = SIZES[gb]
    return LlamaConfig(vocab_size=32000, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
                       num_attention_heads=hidden // 64, num_key_value_heads=8, max_position_embeddings=512)


def make(folder, gb):
    """Writes the model, made on the GPU."""
    import torch
    from transformers import LlamaForCausalLM
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config(gb))
    model.save_pretrained(folder, max_shard_size="40GB")


def load(way, folder):
    import torch
    import transformers
    from safetensors.torch import load_file
    transformers.utils.logging.set_verbosity_error()
    began = time.perf_counter()
    if way == "safetensors":
        weights = load_file(os.path.join(folder, "model.safetensors"), device="cuda")
        check = [int(sum(w.view(torch.int16).sum(dtype=torch.int64) for w in weights.values()).item())]
    else:
        model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map={"": "cuda"})
        tokens = torch.arange(16, device="cuda").reshape(1, 16) * 29 + 3
        check = model.generate(tokens, do_sample=False, max_new_tokens=1, pad_token_id=0, attention_mask=torch.ones_like(tokens)).tolist()
    print(json.dumps({"s": time.perf_counter() - began, "check": check}))


def program(way, folder):
    return [sys.executable, __file__, "load", way, folder]


def natively(command):
    return networks.last_json(subprocess.run([str(w) for w in command], stdout=subprocess.PIPE, text=True, check=False).stdout)


def row(name, network, said, want):
    same = "equal" if said.get("check") == want.get("check") and want else "DIFFERS"
    print(f"| {name} | {network} | {want.get('s', 0):.2f} | {said.get('s', float('nan')):.2f} | {same} |", flush=True)


def starts(bench, folder, way, network, name, count):
    """COUNT starts with a store that is empty before the first one."""
    want = natively(program(way, folder))
    subprocess.run(["rm", "-rf", bench.folder / "cache", bench.folder / "client"], check=True)
    for i in range(count):
        row(f"{name}, {way}, start {i + 1}", network.name, bench.rows(network, "plain", program(way, folder), 300), want)
        time.sleep(2)


def after_put(bench, folder, way, network, name):
    want = natively(program(way, folder))
    subprocess.run(["rm", "-rf", bench.folder / "cache", bench.folder / "client"], check=True)
    near, began = Network("far"), time.monotonic()
    file = pathlib.Path(folder) / "model.safetensors"
    said = near.run(bench.server(near, "plain"),
                    bench.client(near, "plain", [ROOT / "cpu" / "cricket", "put", f"tcp://{near.host}:{networks.PORT}", file]), 400)
    print(f"put: {time.monotonic() - began:.1f} s {said.strip()}", flush=True)
    row(f"{name}, {way}, after put", network.name, bench.rows(network, "plain", program(way, folder), 300), want)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=int, default=2)
    parser.add_argument("--put", action="store_true")
    parser.add_argument("--network", default="1/1000")
    parser.add_argument("--models", default="build/models")
    parser.add_argument("--make", action="store_true", help="make the models 1, 2, 16 and end")
    parser.add_argument("--ways", default="safetensors transformers")
    options = parser.parse_args()
    folder = pathlib.Path(options.models) / str(options.gb)
    if options.make or not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, options.gb)
        if options.make:
            return
    network = Network("far", *(int(n) for n in options.network.split("/")))
    with tempfile.TemporaryDirectory(dir=options.models) as place:
        bench = networks.Bench(place, [])
        for way in options.ways.split():
            (after_put if options.put else starts)(bench, folder, way, network, f"{options.gb} GB", *(() if options.put else (3,)))


if sys.argv[1:2] == ["load"]:
    load(*sys.argv[2:])
elif __name__ == "__main__":
    main()
