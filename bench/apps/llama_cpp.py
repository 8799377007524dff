"""bench/apps/llama_cpp.py - llama.cpp's server: a small Llama of 8 bits, written as GGUF, answers one request and eight at a time.

Needs llama-server in PATH, built with GGML_CUDA, and the package gguf.
"""
import concurrent.futures
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

import gguf
import numpy as np

from common import missing, report

HIDDEN, INNER, LAYERS, HEADS, GROUPS, WORDS = 1024, 2816, 12, 16, 4, 4096
SERVER = shutil.which("llama-server") or missing("llama-server")


def write_model(path):
    random = np.random.default_rng(1)
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(2048)
    out.add_embedding_length(HIDDEN)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(GROUPS)
    out.add_rope_dimension_count(HIDDEN // HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(WORDS)
    out.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    special, numbers = ["<unk>", "<s>", "</s>"], [f"<0x{i:02X}>" for i in range(256)]
    out.add_tokenizer_model("llama")
    out.add_token_list(special + numbers + [f"w{i}" for i in range(WORDS - 259)])
    out.add_token_scores([0.0] * 259 + [-float(i) for i in range(WORDS - 259)])
    out.add_token_types([2, 3, 3] + [6] * 256 + [1] * (WORDS - 259))

    def add(name, *shape):
        values = random.standard_normal(shape, dtype=np.float32) * 1.5 * shape[-1] ** -0.5
        kind = gguf.GGMLQuantizationType.Q8_0
        out.add_tensor(name + ".weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    add("token_embd", WORDS, HIDDEN)
    add("output", WORDS, HIDDEN)
    out.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    for i in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{i}.{name}.weight", np.ones(HIDDEN, np.float32))
        add(f"blk.{i}.attn_q", HIDDEN, HIDDEN)
        add(f"blk.{i}.attn_k", HIDDEN // HEADS * GROUPS, HIDDEN)
        add(f"blk.{i}.attn_v", HIDDEN // HEADS * GROUPS, HIDDEN)
        add(f"blk.{i}.attn_output", HIDDEN, HIDDEN)
        add(f"blk.{i}.ffn_gate", INNER, HIDDEN)
        add(f"blk.{i}.ffn_up", INNER, HIDDEN)
        add(f"blk.{i}.ffn_down", HIDDEN, INNER)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, path, question=None):
    body = json.dumps(question).encode() if question else None
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def await_server(process, port):
    for _ in range(600):
        try:
            return ask(port, "/health")
        except OSError:
            if process.poll() is not None:
                raise SystemExit(f"llama-server ended with status {process.returncode}") from None
            time.sleep(0.1)
    raise SystemExit("llama-server does not answer")


def tokens(port, first):
    """64 tokens after a prompt that depends on FIRST."""
    prompt = [(first * 131 + i * 29) % (WORDS - 300) + 300 for i in range(48)]
    return ask(port, "/completion", {"prompt": prompt, "n_predict": 64, "temperature": 0, "ignore_eos": True, "return_tokens": True,
                                     "cache_prompt": False})["tokens"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path, port = os.path.join(folder, "model.gguf"), free_port()
        write_model(path)
        with open(os.path.join(folder, "log"), "wb") as log, \
                subprocess.Popen([SERVER, "-m", path, "-ngl", "99", "-c", "4096", "-np", "8", "--port", str(port)], stdout=log, stderr=log) as server:
            try:
                await_server(server, port)

                def work():
                    with concurrent.futures.ThreadPoolExecutor(8) as pool:
                        # batches of eight are put together by chance, and their sums with them: only the number of their tokens is compared
                        return [tokens(port, 0), [len(t) for t in pool.map(lambda i: tokens(port, i), range(8))]]
                report("llama.cpp " + ask(port, "/props").get("build_info", ""), work)
            finally:
                server.terminate()


main()
