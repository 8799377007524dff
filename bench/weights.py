#!/usr/bin/env python3
"""bench/weights.py [--gb N] [--put] | --goals - loading a model of random weights: natively, and first and later starts over a network.

Needs root, transformers and what `make -C tests far` builds. Times are from the first use of CUDA to the first token, with the file in
the page cache, by three loaders: transformers' from_pretrained, safetensors' load_file and a sum, and the driver's copies alone of 16 MiB
each. --put: the file is sent by `cricket put` over a link without limits, and only the start after it is measured.

--goals: 2 GB at 1 Gbit/s, 16 GB at 100 Mbit/s and 40 ms, and 16 GB over loopback, against the goals. The second start of the 16 GB finds
the bytes that a first one over a link without limits has kept. It takes about five minutes on an H200, with the making of the models (--gb "0.1
0.2": smaller ones, for a trial).

The client looks at the bytes of a file that is younger than a minute, so starts with kept bytes are measured when the files are older. A table comes
last; OUT/weights.json has it, too. DRIVER=emu: the driver's copies only.
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
    "1": (2048, 5632, 8), "2": (2048, 8192, 16), "8": (4096, 14336, 16), "16": (4096, 14336, 34),
}
BEGAN = time.monotonic()


def config(gb):
    from transformers import LlamaConfig
    hidden, inner, layers = SIZES[gb]
    return LlamaConfig(vocab_size=32000, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
                       num_attention_heads=hidden // 64, num_key_value_heads=8, max_position_embeddings=512)


def make(folder, gb):
    """Writes the model, made on the GPU."""
    if networks.DRIVER == "emu":
        with open(folder / "model.safetensors", "wb") as file:
            for _ in range(int(float(gb) * 64)):
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
    for at in range(0, size - len(back), max(size // 16, 1)):
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


def await_age(file):
    """Until the client need not look at the file's bytes."""
    state = file.stat()
    time.sleep(max(0, 62 - (time.time() - max(state.st_mtime, state.st_ctime))))


class Starts:
    """Starts of one program, with a native one before."""

    rows = []

    def __init__(self, bench, models, gb, way):
        self.bench, self.way, self.gb = bench, way, gb
        self.folder = models / gb
        self.file = self.folder / "model.safetensors"
        self.want = natively(program(way, self.folder))
        self.native = self.want.get("s", float("nan"))

    def empty(self):
        """Nothing is kept, and the client's index is empty."""
        subprocess.run(["rm", "-rf", self.bench.folder / "cache", self.bench.folder / "client"], check=True)

    def run(self, network, title, limit=None, weights="auto"):
        """One start; LIMIT: the seconds that it may take."""
        if weights != "off":
            await_age(self.file)
        said = self.bench.rows(network, "plain", ["env", f"CRICKET_WEIGHTS={weights}", *program(self.way, self.folder)], 400)
        seconds = said.get("s", float("nan"))
        self.rows.append({"what": f"{self.gb} GB, {self.way}, {title}", "network": network.name, "native": self.native, "remote": seconds,
                          "limit": limit, "equal": bool(self.want) and said.get("check") == self.want.get("check")})
        print(f"{time.monotonic() - BEGAN:.0f} s:", line(self.rows[-1]), flush=True)
        time.sleep(1)
        return seconds

    def put(self):
        near, began = Network("far"), time.monotonic()
        said = near.run(self.bench.server(near, "plain"),
                        self.bench.client(near, "plain", [ROOT / "cpu" / "cricket", "put", f"tcp://{near.host}:{networks.PORT}", self.file]), 400)
        print(f"put: {time.monotonic() - began:.1f} s {said.strip()}", flush=True)


def line(row):
    limit, seconds = row["limit"], row["remote"]
    goal = "" if limit is None else f"{limit:.2f}{'' if seconds <= limit else ': MISSED'}"
    return f"| {row['what']} | {row['network']} | {row['native']:.2f} | {seconds:.2f} | {goal} | {'equal' if row['equal'] else 'DIFFERS'} |"


def measure_1_gbit(bench, models, gb, way):
    """A second start is to take no second more than natively, and a first one what it takes without the store."""
    starts, network = Starts(bench, models, gb, way), Network("far", 1, 1000)
    starts.empty()
    starts.run(Network("far"), "nothing kept", weights="off")     # the server has the program's modules afterwards
    usual = starts.run(network, "nothing kept", weights="off")
    starts.run(network, "first start", limit=usual * 1.03)
    starts.run(network, "second start", limit=starts.native + 1)


def measure_100_mbit(bench, models, gb, way):
    """15 s to the first token. A first start at this rate would take 20 minutes."""
    starts, network = Starts(bench, models, gb, way), Network("far", 40, 100)
    starts.empty()
    starts.run(Network("far"), "first start", weights="on")
    for title in "second start", "third start":
        starts.run(network, title, limit=15)


def measure_loopback(bench, models, gb, times=4):
    """Faster than 25 Gbit/s: no change. The least of several starts, by turns."""
    starts, network, usual, now = Starts(bench, models, gb, "copies"), Network("tcp"), [], []
    starts.empty()
    for i in range(times):
        usual.append(starts.run(network, f"nothing kept, {i + 1}", weights="off"))
        now.append(starts.run(network, f"start {i + 1}"))
    starts.rows[-2 * times:] = [{**starts.rows[-1], "what": f"{gb} GB, copies, least of {times} starts", "remote": min(now),
                                 "limit": min(usual) * 1.01}]


def measure_goals(bench, models, small, large, ways):
    for way in ways:
        measure_1_gbit(bench, models, small, way)
        measure_100_mbit(bench, models, large, "copies" if way == "copies" else "transformers")
    measure_loopback(bench, models, large)


def measure_one(bench, models, options, gb):
    network = Network("far", *(int(n) for n in options.network.split("/")))
    for way in options.ways.split():
        starts = Starts(bench, models, gb, way)
        starts.empty()
        if options.put:
            await_age(starts.file)
            starts.put()
            starts.run(network, "after put")
        for i in range(0 if options.put else 3):
            starts.run(network, f"start {i + 1}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", help="size of the model, with --goals of both")
    parser.add_argument("--put", action="store_true")
    parser.add_argument("--goals", action="store_true")
    parser.add_argument("--network", default="1/1000", help="round trip in ms and Mbit/s")
    parser.add_argument("--models", default="build/models")
    parser.add_argument("--ways", default="copies" if networks.DRIVER == "emu" else "safetensors")
    options = parser.parse_args()
    models = pathlib.Path(options.models)
    sizes = (options.gb or ("2 16" if options.goals else "2")).split()
    for gb in sizes:
        if not (models / gb / "model.safetensors").exists():
            (models / gb).mkdir(parents=True, exist_ok=True)
            make(models / gb, gb)
            print(f"{time.monotonic() - BEGAN:.0f} s: a model of {gb} GB is made", flush=True)
    kind = subprocess.run(["stat", "-f", "-c", "%T", models], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory(dir=models) as place:
        bench = networks.Bench(place, [])
        if options.goals:
            measure_goals(bench, models, *sizes, options.ways.split())
        else:
            measure_one(bench, models, options, *sizes)
    networks.OUT.mkdir(parents=True, exist_ok=True)
    (networks.OUT / "weights.json").write_text(json.dumps(Starts.rows, indent=1), encoding="utf-8")
    print(f"\nmodels on {kind}; {os.cpu_count()} processors; {time.monotonic() - BEGAN:.0f} s in all\n\n"
          "| what | network | native, s | remote, s | at most | result |\n|---|---|---|---|---|---|")
    print("\n".join(map(line, Starts.rows)))


if sys.argv[1:2] == ["load"]:
    load(*sys.argv[2:])
elif __name__ == "__main__":
    main()
