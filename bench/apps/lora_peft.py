"""bench/apps/lora_peft.py - PEFT: LoRA adapters of a small Llama in bfloat16 are trained, merged, and used."""
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from common import DEVICE, report, version_of


def work():
    torch.manual_seed(1)
    base = LlamaForCausalLM(LlamaConfig(vocab_size=1024, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                                        num_attention_heads=4, num_key_value_heads=2)).to(DEVICE, torch.bfloat16)
    model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, task_type="CAUSAL_LM",
                                            target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
    adapters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=1e-3)
    words, losses = torch.randint(1024, (4, 64)).to(DEVICE), []
    for _ in range(15):
        optimizer.zero_grad()
        loss = model(input_ids=words, labels=words).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    merged = model.merge_and_unload().eval()
    with torch.no_grad():
        return [losses, len(adapters), merged(words).logits.float().abs().sum()]


report(version_of("peft"), work)
