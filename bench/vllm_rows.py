#!/usr/bin/env python3
"""bench/vllm_rows.py [--tiny] [MODE...] - vLLM: tokens a second with 1 and with 32 streams, as JSON.

A mode is `graphs` (a CUDA graph for each step of decoding) or `eager`; without one, both run, one after the other in this process, and
each has one start for both numbers of streams. `server` starts vLLM's server for OpenAI's API, with 128 requests at a time. The model
is a Llama of 1.1 billion random weights, which are made on the device; nothing is downloaded. Decoding is greedy, so that native and
remote answers must be equal: `check` has a hash of each stream's tokens in all repetitions, `alike` says whether the
repetitions are equal. --tiny takes a small model, to try the script. Run it by `python3 -P`, or modules beside it hide others' of the same name.
"""
import concurrent.futures
import faulthandler
import functools
import gc
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

# The engine is in this process, needs no network and compiles no sampler at its start.
for name, value in {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_NO_USAGE_STATS": "1",
                    "VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1",
                    "VLLM_LOGGING_LEVEL": "WARNING"}.items():
    os.environ.setdefault(name, value)
faulthandler.register(signal.SIGTERM, chain=True)       # says where a run was that takes too long
import torch  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402

STREAMS = (1, 32)
REPEATS = 3                     # after one that warms up
PROMPT, ANSWER = 32, 256        # tokens
SHAPE = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
         "num_key_value_heads": 4, "vocab_size": 32000}
TINY = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "vocab_size": 512}
MODES = {
    "graphs": {"compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": list(STREAMS)}},
    "eager": {"enforce_eager": True},
}
CLIENTS = 128
SERVER_START = 100              # seconds


def write_model(folder, shape):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "bos_token_id": 1,
              "eos_token_id": 2, "max_position_embeddings": 2048, "rope_theta": 10000.0, "tie_word_embeddings": False,
              "torch_dtype": "bfloat16", **shape}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)


def random_weights(model):
    """Weights with which each layer changes the answer. The engine's dummy ones are so small that only the last token would."""
    random = torch.Generator(next(model.parameters()).device).manual_seed(7)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.fill_(1)
            else:
                weight.normal_(0, weight.shape[-1] ** -0.5, generator=random)


def start(mode, folder):
    llm = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", seed=3, max_model_len=1024,
              max_num_seqs=max(STREAMS), max_num_batched_tokens=2048, kv_cache_memory_bytes=2 << 30, gpu_memory_utilization=0.3,
              enable_prefix_caching=False, **MODES[mode])
    llm.apply_model(random_weights)
    return llm


def prompt_of(stream, words):
    return [(stream * 977 + place * 131) % (words - 3) + 3 for place in range(PROMPT)]


def row_of(streams, answer_all):
    """The row of so many streams: the median of the repetitions' rates. ANSWER_ALL returns the tokens of each stream."""
    rates, answers = [], []
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        answers.append(answer_all())
        rates.append(streams * ANSWER / (time.perf_counter() - begin))
    if any(len(tokens) != ANSWER for answer in answers for tokens in answer):
        raise ValueError("an answer has not all of its tokens")
    return {"value": sorted(rates[1:])[REPEATS // 2], "unit": "tokens/s", "rates": [round(r, 1) for r in rates],
            "alike": all(answer == answers[0] for answer in answers),
            "distinct": len({token for tokens in answers[0] for token in tokens}),
            "check": [hashlib.sha256(json.dumps(stream).encode()).hexdigest()[:12] for stream in zip(*answers)]}


def generate(llm, prompts):
    params = SamplingParams(temperature=0, max_tokens=ANSWER, ignore_eos=True, detokenize=False)
    return [list(output.outputs[0].token_ids) for output in llm.generate(prompts, params, use_tqdm=False)]


def engine_rows(mode, folder, words):
    began = time.perf_counter()
    llm = start(mode, folder)
    print(f"{mode}: the engine started in {time.perf_counter() - began:.1f} s", flush=True)
    rows = {}
    for streams in STREAMS:
        prompts = [{"prompt_token_ids": prompt_of(stream, words)} for stream in range(streams)]
        rows[f"vllm_{mode}_{streams}"] = row_of(streams, functools.partial(generate, llm, prompts))
    return rows


def ask(url, prompt):
    """The tokens of an answer of the server."""
    words = {"model": "m", "prompt": prompt, "max_tokens": ANSWER, "temperature": 0, "ignore_eos": True, "detokenize": False,
             "return_token_ids": True}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(words).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["choices"][0]["token_ids"]


def wait_for(process, url):
    end = time.monotonic() + SERVER_START
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"the server did not start (status {process.poll()})")


def server_rows(folder, words):
    """With the engine's dummy weights: answers do not depend on which requests are in a batch."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    graphs = dict(MODES["graphs"]["compilation_config"], cudagraph_capture_sizes=[1, 32, 64, CLIENTS])
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-P", "-m", "vllm.entrypoints.openai.api_server",
               "--model", folder, "--served-model-name", "m",
               "--load-format", "dummy", "--skip-tokenizer-init", "--dtype", "bfloat16", "--max-model-len", "1024", "--max-num-seqs",
               str(CLIENTS), "--kv-cache-memory-bytes", str(4 << 30), "--gpu-memory-utilization", "0.3", "--no-enable-prefix-caching",
               "--compilation-config", json.dumps(graphs), "--host", "127.0.0.1", "--port", str(port), "--disable-uvicorn-access-log"]
    url = f"http://127.0.0.1:{port}"
    began = time.perf_counter()
    with subprocess.Popen(command, env=dict(os.environ, VLLM_ENABLE_V1_MULTIPROCESSING="1"), stdout=sys.stderr) as process, \
            concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        try:
            wait_for(process, url)
            print(f"server: the engine started in {time.perf_counter() - began:.1f} s", flush=True)
            prompts = [prompt_of(client, words) for client in range(CLIENTS)]
            return {f"vllm_server_{CLIENTS}": row_of(CLIENTS, lambda: list(pool.map(lambda prompt: ask(url, prompt), prompts)))}
        finally:
            process.terminate()


def main():
    options = sys.argv[1:]
    shape = TINY if "--tiny" in options else SHAPE
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, shape)
        for mode in [option for option in options if option != "--tiny"] or MODES:
            if mode == "server":
                rows.update(server_rows(folder, shape["vocab_size"]))
            else:
                rows.update(engine_rows(mode, folder, shape["vocab_size"]))
                gc.collect()    # the engine's memory
                torch.cuda.empty_cache()
            print(json.dumps(rows), flush=True)     # what there is, if the next mode fails
    print("all modes ran")


if __name__ == "__main__":
    main()
