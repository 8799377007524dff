"""bench/apps/gpt2_train.py - transformers: a small GPT-2 is trained with AdamW, float16 autocast and a scaler."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from common import DEVICE, report, version_of


def work():
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=1024, n_positions=128, n_embd=256, n_layer=4, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)
    model = GPT2LMHeadModel(config).to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=DEVICE == "cuda")
    scaler = torch.amp.GradScaler(DEVICE, enabled=DEVICE == "cuda")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    words = torch.randint(1024, (8, 128)).to(DEVICE)
    losses = []
    for _ in range(20):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.float16 if DEVICE == "cuda" else torch.bfloat16):
            loss = model(words, labels=words).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        losses.append(loss.item())
    return losses


report(version_of("transformers"), work)
