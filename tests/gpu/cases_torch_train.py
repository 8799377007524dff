"""tests/gpu/cases_torch_train.py - whole models in PyTorch: training, generating, saving."""
import io

import torch
from torch import nn
from torch.nn import functional as F

import models
from harness import case

STEPS = 5
LOSSES = 1e-3       # backward passes add in no fixed order; the losses of a few steps differ by less


def train(model, step, opt=None, steps=STEPS):
    """The losses of some steps; STEP gives a loss."""
    opt = opt or torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        loss = step(model)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def images(size):
    torch.manual_seed(2)
    return torch.randn(16, 3, size, size).cuda(), torch.arange(16).cuda()


@case(tolerance=LOSSES, seconds=90)
def resnet50_train():
    x, y = images(224)
    torch.manual_seed(1)
    return train(models.resnet50().cuda(), lambda m: F.cross_entropy(m(x), y))


@case(tolerance=1e-2)
def resnet50_train_amp_channels_last():
    x, y = images(128)
    torch.manual_seed(1)
    model = models.resnet50().cuda().to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last)

    def step(m):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(m(x), y)
    return train(model, step)


@case(tolerance=1e-5)
def resnet50_infer():
    x, _ = images(224)
    torch.manual_seed(1)
    model = models.resnet50().cuda().eval()
    with torch.inference_mode():
        return model(x)


@case(tolerance=1e-5)
def torchvision_resnet18_infer():
    import torchvision
    torch.manual_seed(1)
    model = torchvision.models.resnet18().cuda().eval()
    boxes = torch.rand(50, 4, device="cuda").cumsum(1) * 100
    with torch.inference_mode():
        return model(images(64)[0]), torchvision.ops.nms(boxes, torch.rand(50, device="cuda"), 0.5)


@case(tolerance=LOSSES)
def vit_train():
    x, y = images(96)
    torch.manual_seed(1)
    model = models.ViT().cuda()
    return train(model, lambda m: F.cross_entropy(m(x), y), torch.optim.AdamW(model.parameters(), fused=True))


def gpt2(layers=4):
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(1)
    return GPT2LMHeadModel(GPT2Config(n_layer=layers, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).cuda()


@case(tolerance=LOSSES, seconds=120)
def gpt2_train():
    ids = (torch.arange(4 * 256).reshape(4, 256) * 7 % 50257).cuda()
    model = gpt2(12)
    return train(model, lambda m: m(ids, labels=ids).loss, torch.optim.AdamW(model.parameters(), lr=1e-4))


@case(seconds=120)
def gpt2_generate():
    ids = (torch.arange(16).reshape(1, 16) * 7 % 50257).cuda()
    model = gpt2(12).eval()
    with torch.no_grad():
        greedy = model.generate(ids, max_new_tokens=24, min_new_tokens=24, do_sample=False, pad_token_id=0)
        torch.manual_seed(3)
        sampled = model.generate(ids, max_new_tokens=24, min_new_tokens=24, do_sample=True, top_k=20,
                                 pad_token_id=0)
    return greedy[0].tolist(), sampled[0].tolist()


@case(tolerance=LOSSES, seconds=120)
def bert_train():
    from transformers import BertConfig, BertForSequenceClassification
    torch.manual_seed(1)
    model = BertForSequenceClassification(BertConfig(
        num_hidden_layers=4, hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=3)).cuda()
    ids, labels = (torch.arange(8 * 64).reshape(8, 64) % 30000).cuda(), (torch.arange(8) % 3).cuda()
    return train(model, lambda m: m(ids, labels=labels).loss, torch.optim.AdamW(model.parameters(), lr=1e-4))


@case(tolerance=2e-2)
def llama_bf16_train():
    torch.manual_seed(1)
    model = models.llama().cuda().to(torch.bfloat16)
    ids = (torch.arange(4 * 128).reshape(4, 128) * 7 % 2000).cuda()

    def step(m):
        out = m(ids[:, :-1]).float()
        return F.cross_entropy(out.reshape(-1, out.shape[-1]), ids[:, 1:].reshape(-1))
    return train(model, step)


@case(tolerance=2e-2, seconds=120)
def llama_of_transformers_generate():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=2000, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=2)).cuda().to(torch.bfloat16).eval()
    ids = (torch.arange(16).reshape(1, 16) * 7 % 2000).cuda()
    with torch.no_grad():
        return model.generate(ids, max_new_tokens=24, min_new_tokens=24, do_sample=False, pad_token_id=0)


@case(tolerance=LOSSES)
def stable_diffusion_unet_train():
    torch.manual_seed(1)
    model = models.UNet().cuda()
    x, text = torch.randn(4, 4, 32, 32).cuda(), torch.randn(4, 77, 128).cuda()
    noise, step = torch.randn(4, 4, 32, 32).cuda(), torch.tensor([1., 100., 500., 900.]).cuda()
    return train(model, lambda m: F.mse_loss(m(x + noise, step, text), noise))


@case(tolerance=1e-2)
def stable_diffusion_unet_denoise_fp16():
    torch.manual_seed(1)
    model = models.UNet().cuda().half().eval()
    x, text = torch.randn(1, 4, 64, 64).cuda().half(), torch.randn(1, 77, 128).cuda().half()
    with torch.inference_mode():
        for step in range(900, 0, -100):
            x = x - 0.1 * model(x, torch.full((1,), float(step), device="cuda"), text)
    return x


@case(tolerance=1e-2)
def amp_with_grad_scaler():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    opt, scaler, losses = torch.optim.Adam(model.parameters()), torch.amp.GradScaler(), []
    x = torch.randn(32, 64).cuda()
    for _ in range(10):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).float().square().mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
    return losses, scaler.get_scale()


@case(tolerance=1e-4)
def optimisers_foreach_and_fused():
    out = []
    for make in (lambda p: torch.optim.Adam(p, foreach=True), lambda p: torch.optim.AdamW(p, fused=True),
                 lambda p: torch.optim.RMSprop(p), lambda p: torch.optim.Adam(p, capturable=True),
                 lambda p: torch.optim.LBFGS(p, max_iter=3)):
        torch.manual_seed(1)
        model = nn.Linear(20, 3).cuda()
        opt, x = make(model.parameters()), torch.randn(10, 20).cuda()

        def closure():
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss
        for _ in range(3):
            opt.step(closure)
        out.append(model.weight.detach().clone())
    return out


@case(tolerance=1e-5)
def checkpoint_save_and_load():
    """Training that is saved, loaded into another model and continued goes on as if it had not been."""
    torch.manual_seed(1)
    x = torch.randn(32, 10).cuda()

    def fresh():
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 1)).cuda()
        return model, torch.optim.Adam(model.parameters())

    def go(model, opt):
        return train(model, lambda m: m(x).square().mean(), opt, 3)
    model, opt = fresh()
    go(model, opt)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
    straight = go(model, opt)
    other, other_opt = fresh()
    file.seek(0)
    saved = torch.load(file, map_location="cuda")
    other.load_state_dict(saved["model"])
    other_opt.load_state_dict(saved["opt"])
    return straight, go(other, other_opt) == straight


@case(tolerance=1e-5)
def activation_checkpointing():
    from torch.utils.checkpoint import checkpoint
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 64)).cuda()
    x = torch.randn(16, 64).cuda().requires_grad_()
    checkpoint(model, x, use_reentrant=False).square().sum().backward()
    return x.grad
