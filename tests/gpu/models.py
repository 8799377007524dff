"""tests/gpu/models.py - networks of well-known shapes, written out, so that nothing has to be downloaded."""
import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """ResNet-50's block."""

    def __init__(self, inside, width, stride):
        super().__init__()
        out = width * 4
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.short = nn.Identity() if inside == out and stride == 1 else nn.Sequential(
            nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def resnet50(classes=100):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = width * 4
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


class ViT(nn.Module):
    """A vision transformer: patches of 16, width 192, 6 layers."""

    def __init__(self, classes=100, width=192, size=96):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, (size // 16) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 3, width * 4, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 6, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.place
        return self.head(self.body(x)[:, 0])


class UNetBlock(nn.Module):
    """Convolutions with the time added, then attention over the text, as in Stable Diffusion."""

    def __init__(self, inside, out, text):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, inside), nn.SiLU(), nn.Conv2d(inside, out, 3, padding=1))
        self.time = nn.Linear(128, out)
        self.second = nn.Sequential(nn.GroupNorm(8, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1))
        self.short = nn.Conv2d(inside, out, 1)
        self.norm = nn.LayerNorm(out)
        self.cross = nn.MultiheadAttention(out, 4, kdim=text, vdim=text, batch_first=True)

    def forward(self, x, time, text):
        y = self.second(self.first(x) + self.time(time)[:, :, None, None]) + self.short(x)
        tokens = y.flatten(2).transpose(1, 2)
        tokens = tokens + self.cross(self.norm(tokens), text, text, need_weights=False)[0]
        return tokens.transpose(1, 2).reshape(y.shape)


class UNet(nn.Module):
    """A small UNet of Stable Diffusion's shape: latents of 4 channels, a text of 77 tokens."""

    def __init__(self, width=64, text=128):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 128))
        self.begin = nn.Conv2d(4, width, 3, padding=1)
        self.down = nn.ModuleList([UNetBlock(width, width, text), UNetBlock(width, width * 2, text)])
        self.middle = UNetBlock(width * 2, width * 2, text)
        self.up = nn.ModuleList([UNetBlock(width * 4, width, text), UNetBlock(width * 2, width, text)])
        self.end = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1))

    def forward(self, x, step, text):
        half = torch.exp(torch.arange(64, device=x.device) * -0.14)
        angle = step[:, None] * half
        time = self.time(torch.cat([angle.sin(), angle.cos()], 1).to(x.dtype))
        x, kept = self.begin(x), []
        for block in self.down:
            x = block(x, time, text)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, time, text)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, kept.pop()], 1), time, text)
        return self.end(x)


class LlamaLayer(nn.Module):
    """Llama's block: RMS norm, rotary positions, grouped queries, gated feed-forward."""

    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.before, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.lift = (nn.Linear(width, width * 8 // 3, bias=False) for _ in range(2))
        self.drop = nn.Linear(width * 8 // 3, width, bias=False)

    def rotate(self, x):
        place = torch.arange(x.shape[2], device=x.device)[:, None]
        rate = 10000.0 ** (-torch.arange(0, self.size, 2, device=x.device) / self.size)
        cos, sin = (place * rate).cos().to(x.dtype), (place * rate).sin().to(x.dtype)
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, x):
        batch, length, _ = x.shape
        y = self.before(x)
        q = self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(y).view(batch, length, 2, self.groups, self.size).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, -1))
        y = self.after(x)
        return x + self.drop(F.silu(self.gate(y)) * self.lift(y))


def llama(words=2000, width=512, layers=4):
    body = [LlamaLayer(width, 8, 2) for _ in range(layers)]
    return nn.Sequential(nn.Embedding(words, width), *body, nn.RMSNorm(width), nn.Linear(width, words, bias=False))
