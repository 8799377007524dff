#!/usr/bin/env python3
"""bench/weights.py [--gb N] [--put] | --goals - loading a model of random weights: natively, and first and later starts over a network.

Needs root, transformers and what `make -C tests far` builds. Times are from the first use of CUDA to the first token, with the file in
the page cache, by three loaders: transformers' from_pretrained, safetensors' load_file and a sum, and the driver's copies alone of 16 MiB
each. --put: the file is sent by `cricket put` over a link without limits, and only the start after it is measured. --goals: 2 GB
at 1 Gbit/s, 16 GB at 100 Mbit/s and 40 ms, and no limit, against what is promised; less than five minutes after --make, which makes the models. The client looks at the bytes of a file that is younger
than a minute, so this waits until the files are older. OUT/weights.json has the rows, too. DRIVER=emu: the driver's copies only.
"""
import argparse
import ctypes
import hashlib
import json
import mmap
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
    if networks.DRIVER == "emu":
        with open(folder / "model.safetensors", "wb") as file:
            for _ in range(gb * 64):
                file.write(os.urandom(1 << 24))
        return
    import torch
    from transformers import LlamaForCausalLM
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config(gb))
    model.save_pretrained(folder, max_shard_size="40GB")


def load_torch(way, folder):
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
    return began, check


def load_copies(folder, tensor=16 << 20):
    """The file as it is, each tensor followed by a wait, as PyTorch does. The check is of bytes at many places."""
    cuda = ctypes.CDLL(None)
    if not hasattr(cuda, "cuInit"):
        cuda = ctypes.CDLL("libcuda.so.1")
    began = time.perf_counter()
    path = os.path.join(folder, "model.safetensors")
    size, context, device = os.path.getsize(path), ctypes.c_void_p(), ctypes.c_uint64()
    with open(path, "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    host = ctypes.addressof((ctypes.c_char * size).from_buffer(mapping))
    calls = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
             cuda.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(size))]
    for at in range(0, size, tensor):
        part = ctypes.c_size_t(min(tensor, size - at))
        calls += [cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(device.value + at), ctypes.c_void_p(host + at), part, None),
                  cuda.cuStreamSynchronize(None)]
    back, check = ctypes.create_string_buffer(4096), hashlib.sha256()
    for at in range(0, size - len(back), max(size // 64, 1)):
        calls.append(cuda.cuMemcpyDtoH_v2(back, ctypes.c_uint64(device.value + at), ctypes.c_size_t(len(back))))
        check.update(back.raw)
    return began, [check.hexdigest(), [error for error in calls if error]]


def load(way, folder):
    began, check = load_copies(folder) if way == "copies" else load_torch(way, folder)
    print(json.dumps({"s": time.perf_counter() - began, "check": check}))


def program(way, folder):
    return [sys.executable, __file__, "load", way, folder]


def natively(command):
    env = {**os.environ, **({"LD_LIBRARY_PATH": str(ROOT / "cpu" / "emu")} if networks.DRIVER == "emu" else {})}
    return networks.last_json(subprocess.run([str(w) for w in command], stdout=subprocess.PIPE, text=True, check=False, env=env).stdout)


class Starts:
    """Starts of one program over one network, with a native one before."""

    rows = []

    def __init__(self, bench, folder, way, network, name):
        self.bench, self.folder, self.way, self.network, self.name = bench, pathlib.Path(folder), way, network, name
        self.file = self.folder / "model.safetensors"
        self.want = natively(program(way, folder))
        self.native = self.want.get("s", float("nan"))
        self.empty()

    def empty(self):
        """Nothing is kept, and the client's index is empty."""
        subprocess.run(["rm", "-rf", self.bench.folder / "cache", self.bench.folder / "client"], check=True)

    def run(self, title, limit=None, words=()):
        """One start; LIMIT: the seconds that it may take."""
        said = self.bench.rows(self.network, "plain", [*words, *program(self.way, self.folder)], 400)
        seconds = said.get("s", float("nan"))
        row = {"what": f"{self.name}, {self.way}, {title}", "network": self.network.name, "native": self.native, "remote": seconds,
               "limit": limit, "equal": bool(self.want) and said.get("check") == self.want.get("check")}
        self.rows.append(row)
        goal = "" if limit is None else f"{limit:.2f}{'' if seconds <= limit else ': MISSED'}"
        print(f"| {row['what']} | {row['network']} | {self.native:.2f} | {seconds:.2f} | {goal} | {'equal' if row['equal'] else 'DIFFERS'} |",
              flush=True)
        time.sleep(1)
        return seconds

    def put(self):
        near, began = Network("far"), time.monotonic()
        said = near.run(self.bench.server(near, "plain"),
                        self.bench.client(near, "plain", [ROOT / "cpu" / "cricket", "put", f"tcp://{near.host}:{networks.PORT}", self.file]), 400)
        print(f"put: {time.monotonic() - began:.1f} s {said.strip()}", flush=True)


def measure_goals(bench, models, ways):
    """A second start is to take no second more than natively, a first one what it takes without the store, and 16 GB 15 s."""
    for way in ways:
        one = Starts(bench, models / "2", way, Network("far", 1, 1000), "2 GB")
        usual = one.run("nothing kept", words=["env", "CRICKET_WEIGHTS=off"])
        one.run("first start", limit=usual * 1.03)
        one.run("second start", limit=one.native + 1)
        far = Starts(bench, models / "16", "copies" if way == "copies" else "transformers", Network("far", 40, 100), "16 GB")
        far.put()
        far.run("after put", limit=15)
        far.run("second start", limit=15)
        fast = Starts(bench, models / "2", way, Network("tcp"), "2 GB")
        usual = min(fast.run("nothing kept", words=["env", "CRICKET_WEIGHTS=off"]) for _ in range(2))
        for title in "first start", "second start":
            fast.run(title, limit=usual * 1.05)


def await_age(file):
    """Until the client need not look at the file's bytes."""
    state = file.stat()
    time.sleep(max(0, 62 - (time.time() - max(state.st_mtime, state.st_ctime))))


def measure_one(bench, folder, options):
    network = Network("far", *(int(n) for n in options.network.split("/")))
    for way in options.ways.split():
        starts = Starts(bench, folder, way, network, f"{options.gb} GB")
        if options.put:
            starts.put()
            starts.run("after put")
        for i in range(0 if options.put else 3):
            starts.run(f"start {i + 1}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=int, default=2)
    parser.add_argument("--put", action="store_true")
    parser.add_argument("--goals", action="store_true")
    parser.add_argument("--network", default="1/1000", help="round trip in ms and Mbit/s")
    parser.add_argument("--models", default="build/models")
    parser.add_argument("--make", action="store_true", help="make the models that are missing, and end")
    parser.add_argument("--ways", default="copies" if networks.DRIVER == "emu" else "safetensors")
    options = parser.parse_args()
    models = pathlib.Path(options.models)
    sizes = [2, 16] if options.goals else [options.gb]
    for gb in sizes:
        if not (models / str(gb) / "model.safetensors").exists():
            (models / str(gb)).mkdir(parents=True, exist_ok=True)
            make(models / str(gb), gb)
    if options.make:
        return
    for gb in sizes:
        await_age(models / str(gb) / "model.safetensors")
    kind = subprocess.run(["stat", "-f", "-c", "%T", models], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    print(f"models on {kind}; {os.cpu_count()} processors\n\n| what | network | native, s | remote, s | at most | result |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=models) as place:
        bench = networks.Bench(place, [])
        if options.goals:
            measure_goals(bench, models, options.ways.split())
        else:
            measure_one(bench, models / str(options.gb), options)
    networks.OUT.mkdir(parents=True, exist_ok=True)
    (networks.OUT / "weights.json").write_text(json.dumps(Starts.rows, indent=1), encoding="utf-8")


if sys.argv[1:2] == ["load"]:
    load(*sys.argv[2:])
elif __name__ == "__main__":
    main()
