#!/usr/bin/env python3
"""bench/torch_models.py [ROW...] - PyTorch rows of the bench, as JSON on the last line.

Run it natively and through Cricket and compare: `ms` are medians a step, `check` are numbers that
must be the same in both (losses, sums), because the same kernels run on the same GPU. BENCH_STEPS is a factor
for the number of steps.
"""
import functools
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what deterministic runs need
import torch  # noqa: E402

import llama_rows  # noqa: E402

ROWS = {}


def row(function):
    """Register a row under its name."""
    ROWS[function.__name__] = function
    return function


def median_ms(step, count, warm=3):
    """Median milliseconds of COUNT synchronised steps, or as many as BENCH_STEPS makes of them."""
    count = max(2, int(count * float(os.environ.get("BENCH_STEPS") or 1)))
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times)[len(times) // 2]


def matmul(dtype):
    torch.manual_seed(3)
    a = torch.randn(1024, 1024, device="cuda").to(dtype)
    b = torch.randn(1024, 1024, device="cuda").to(dtype)
    ms = median_ms(lambda: a @ b, 50)
    return {"ms": ms, "check": [(a @ b).double().sum().item()]}


@row
def matmul_fp32():
    return matmul(torch.float32)


@row
def matmul_fp16():
    return matmul(torch.float16)


@row
def matmul_bf16():
    return matmul(torch.bfloat16)


@row
def matmul_bf16_batched():
    torch.manual_seed(3)
    a = torch.randn(16, 512, 512, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(16, 512, 512, device="cuda", dtype=torch.bfloat16)
    ms = median_ms(lambda: torch.bmm(a, b), 50)
    return {"ms": ms, "check": [torch.bmm(a, b).double().sum().item()]}


@row
def item():
    x = torch.ones(1, device="cuda")
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        x.item()
        times.append((time.perf_counter() - begin) * 1e3)
    return {"ms": sorted(times)[150], "check": []}


@row
def add():
    x = torch.ones(1024, device="cuda")
    x += 1  # the kernel is loaded now, not in what is measured
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(3000):
        x += 1
    torch.cuda.synchronize()
    return {"ms": (time.perf_counter() - begin) / 3, "check": [x.sum().item()]}


def resnet50_steps():
    """A training step, and the list that its losses go to."""
    import torchvision
    torch.manual_seed(1)
    model = torchvision.models.resnet50().cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(32, 3, 224, 224).cuda(), torch.arange(32).cuda()
    losses = []

    def step():
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return step, losses


@row
def resnet50_train():
    step, losses = resnet50_steps()
    ms = median_ms(step, 10)
    return {"ms": ms, "check": [v.item() for v in losses]}


@row
def resnet50_infer_b1():
    import torchvision
    torch.manual_seed(1)
    model = torchvision.models.resnet50().cuda().eval()
    x = torch.randn(1, 3, 224, 224).cuda()
    with torch.no_grad():
        ms = median_ms(lambda: model(x), 30)
        return {"ms": ms, "check": [model(x).double().sum().item()]}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(1)
    return GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).cuda()


def gpt2_steps():
    """A training step, and the list that its losses go to."""
    model = gpt2()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = (torch.arange(8 * 512).reshape(8, 512) * 7 % 50257).cuda()
    losses = []

    def step():
        opt.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return step, losses


@row
def gpt2_train_8x512():
    step, _ = gpt2_steps()
    ms = median_ms(step, 10)
    # The backward pass of an embedding adds in no fixed order: losses are compared without that.
    torch.use_deterministic_algorithms(True)
    step, losses = gpt2_steps()
    for _ in range(10):
        step()
    torch.use_deterministic_algorithms(False)
    return {"ms": ms, "check": [v.item() for v in losses]}


@row
def gpt2_generate_32():
    model = gpt2().eval()
    ids = (torch.arange(16).reshape(1, 16) * 7 % 50257).cuda()
    out = []

    def step():
        out[:] = model.generate(ids, max_new_tokens=32, min_new_tokens=32, do_sample=False,
                                pad_token_id=0)[0].tolist()
    with torch.no_grad():
        ms = median_ms(step, 3, warm=1)
    return {"ms": ms, "check": out[:]}


@row
def llama_decode_32():
    return llama_rows.decode(median_ms, graphs=False)


@row
def llama_decode_32_graphs():
    return llama_rows.decode(median_ms, graphs=True)


@row
def pinned_loader():
    """A step with a batch from a DataLoader with pin_memory, and Adam, which PyTorch makes of few large kernels."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    data = torch.utils.data.TensorDataset(torch.randn(64 * 256, 512), torch.randn(64 * 256, 512))
    loader = torch.utils.data.DataLoader(data, batch_size=64, pin_memory=True)
    batches = iter([])
    losses = []

    def steps(count):
        nonlocal batches
        for _ in range(count):
            batch = next(batches, None)
            if batch is None:
                batches = iter(loader)
                batch = next(batches)
            x, y = (t.cuda(non_blocking=True) for t in batch)
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        torch.cuda.synchronize()
    steps(20)
    begin = time.perf_counter()
    steps(100)
    ms = (time.perf_counter() - begin) * 10
    return {"ms": ms, "check": [round(v.item(), 5) for v in losses[::10]]}


@functools.cache
def script():
    """The rows of torch_script.py, a process of its own."""
    path = pathlib.Path(__file__).with_name("torch_script.py")
    said = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(said.stdout)


@row
def script_first():
    return script()["script_first"]


@row
def script_steps():
    return script()["script_steps"]


def main():
    results = {}
    begin = time.perf_counter()
    torch.zeros(1, device="cuda")
    results["first_call"] = {"ms": (time.perf_counter() - begin) * 1e3, "check": []}
    for name in sys.argv[1:] or ROWS:
        try:
            results[name] = ROWS[name]()
        except Exception as e:  # pylint: disable=broad-except; one row must not stop the others
            results[name] = {"error": f"{type(e).__name__}: {e}"[:300]}
        print(name, {k: v for k, v in results[name].items() if k != "check"}, flush=True)
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
