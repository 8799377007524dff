"""bench/apps/model_swap.py - a flow of several models, as ComfyUI runs it: each moves to the GPU for its turn, from pinned memory
and without waiting, and back; memory is given back between them."""
import torch
from torch import nn

from common import DEVICE, report, version_of


def stages():
    """A text encoder, a denoiser and a decoder, on the host."""
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    denoiser = nn.Sequential(*(nn.Sequential(nn.Conv2d(4 if i == 0 else 128, 128, 3, padding=1), nn.GroupNorm(8, 128), nn.SiLU())
                               for i in range(4)), nn.Conv2d(128, 4, 3, padding=1))
    decoder = nn.Sequential(nn.ConvTranspose2d(4, 64, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1))
    models = [m.eval() for m in (encoder, denoiser, decoder)]
    if DEVICE == "cuda":
        for p in (p for m in models for p in m.parameters()):
            p.data = p.data.pin_memory()
    return models


MODELS = stages()


def on_gpu(model, function):
    """FUNCTION(model) with the model on the GPU; afterwards its weights are the host's again."""
    host = [p.data for p in model.parameters()]
    for p in model.parameters():
        p.data = p.data.to(DEVICE, non_blocking=True)
    out = function(model)
    for p, h in zip(model.parameters(), host):
        p.data = h
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
    return out


@torch.no_grad()
def work():
    encoder, denoiser, decoder = MODELS
    sums = []
    for turn in range(4):
        torch.manual_seed(turn)
        words, latent = torch.randn(1, 77, 256).to(DEVICE), torch.randn(1, 4, 32, 32).to(DEVICE)
        guide = on_gpu(encoder, lambda m, w=words: m(w)).abs().mean()

        def denoise(model, x=latent, by=guide):
            for _ in range(8):
                x = x - 0.1 * model(x) * (1 + by)
            return x
        picture = on_gpu(decoder, lambda m, x=on_gpu(denoiser, denoise): m(x)).cpu()
        sums += [guide.item(), picture.double().sum()]
    return sums


report(version_of("torch"), work)
