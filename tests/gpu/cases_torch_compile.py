"""tests/gpu/cases_torch_compile.py - torch.compile: Inductor, Triton, CUDA graphs; TorchScript."""
import torch
from torch import nn
from torch.nn import functional as F

from harness import case


def seeded(*shape):
    torch.manual_seed(5)
    return torch.randn(*shape, device="cuda")


@case(tolerance=1e-6, seconds=150)
def compile_pointwise_and_reduction():
    return torch.compile(lambda v: (v.sin() * 2 + 1).sum(1))(seeded(256, 256))


@case(tolerance=1e-4, seconds=180)
def compile_training_step():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10)).cuda()
    step, opt = torch.compile(model), torch.optim.Adam(model.parameters())
    x, y, losses = seeded(32, 64), torch.arange(32, device="cuda") % 10, []
    for _ in range(4):
        opt.zero_grad()
        loss = F.cross_entropy(step(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


@case(tolerance=1e-4, seconds=180)
def compile_reduce_overhead():
    """CUDA graphs by Inductor's own means."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).cuda().eval()
    fast, out = torch.compile(model, mode="reduce-overhead"), []
    with torch.no_grad():
        for i in range(5):
            torch.compiler.cudagraph_mark_step_begin()
            out.append(fast(seeded(16, 64) + i).clone())
    return out


@case(tolerance=1e-3, seconds=240)
def compile_max_autotune_matmul():
    """Triton's matrix products, chosen by timing them; the choice may differ, the product may not."""
    fast = torch.compile(lambda a, b: (a @ b).relu(), mode="max-autotune-no-cudagraphs")
    return fast(seeded(256, 256), seeded(256, 256))


@case(tolerance=1e-2, seconds=180)
def compile_flex_attention():
    from torch.nn.attention.flex_attention import flex_attention
    q = seeded(1, 2, 256, 64).half()
    return torch.compile(flex_attention)(q, q.flip(2), q + 1, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.01)


@case(seconds=150)
def compile_dynamic_shapes():
    double = torch.compile(lambda v: v * 2 + v.shape[0], dynamic=True)
    return [double(seeded(n, 8)) for n in (4, 9, 33)]


@case()
def jit_script_and_fusion():
    @torch.jit.script
    def f(x, n: int):
        for _ in range(n):
            x = x * 1.5 + 0.25
        return x
    return [f(seeded(1000), 3) for _ in range(4)]


@case(seconds=120)
def extension_by_nvrtc():
    """torch.cuda._compile_kernel: a kernel from a string."""
    kernel = torch.cuda._compile_kernel(
        "extern \"C\" __global__ void twice(float *x, int n)"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }", "twice")
    x = seeded(1000)
    kernel((4, 1, 1), (256, 1, 1), (x, 1000))
    return x
