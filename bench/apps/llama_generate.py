"""bench/apps/llama_generate.py eager|compile - transformers: a small Llama generates; with compile, by torch.compile
with CUDA graphs over a static cache."""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from common import DEVICE, report, version_of

torch.manual_seed(1)
MODEL = LlamaForCausalLM(LlamaConfig(vocab_size=2048, hidden_size=512, intermediate_size=1024, num_hidden_layers=6,
                                     num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=512,
                                     initializer_range=0.1)).to(DEVICE).eval()
PROMPT = (torch.arange(64).reshape(4, 16) * 29 % 2000 + 3).to(DEVICE)
OPTIONS = {"do_sample": False, "max_new_tokens": 48, "min_new_tokens": 48, "pad_token_id": 0, "attention_mask": torch.ones_like(PROMPT)}


def work():
    tokens = MODEL.generate(PROMPT, **OPTIONS)
    sampled = dict(OPTIONS, do_sample=True, top_k=20)
    torch.manual_seed(2)
    return [tokens[:, 16:].tolist(), MODEL.generate(PROMPT, **sampled)[0, 16:].tolist()]


if sys.argv[1] == "compile":
    OPTIONS["cache_implementation"] = "static"
    MODEL.forward = torch.compile(MODEL.forward, mode="reduce-overhead", fullgraph=True)
report(version_of("transformers"), work)
