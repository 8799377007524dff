"""bench/apps/llama_generate.py eager|compile - transformers: a small Llama generates; with compile, over a static
cache, for which transformers uses torch.compile with CUDA graphs."""
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
    OPTIONS["cache_implementation"] = "static"      # transformers compiles the steps by itself then
report(version_of("transformers"), work)
