"""bench/apps/liger_llama.py - Liger: Triton kernels in place of a Llama's norms, rotary positions, gates and loss; it is trained."""
import torch
from liger_kernel.transformers import apply_liger_kernel_to_llama
from transformers import LlamaConfig, LlamaForCausalLM

from common import report, version_of

apply_liger_kernel_to_llama()


def work():
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=1024, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
                                         num_attention_heads=4, num_key_value_heads=2)).cuda().train()
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    words = torch.randint(1024, (4, 64)).cuda()
    for _ in range(15):
        optimizer.zero_grad()
        loss = model(input_ids=words, labels=words).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


report(version_of("liger-kernel"), work)
