"""tests/gpu/cases_torch.py - PyTorch, operation by operation."""
import threading

import torch
from torch import nn
from torch.nn import functional as F

from harness import case

HALF, BF16 = torch.float16, torch.bfloat16


def rand(*shape, dtype=torch.float32):
    """Numbers that are the same in every run: the seed is set anew by each case."""
    return torch.randn(*shape, device="cuda").to(dtype)


def seeded(function=None, **options):
    """A case that begins with the same seed."""
    def register(f):
        def run():
            torch.manual_seed(5)
            return f()
        run.__name__ = f.__name__
        case(**options)(run)
        return f
    return register(function) if function else register


# --- matrix products

@seeded
def matmul_fp64():
    return rand(300, 200, dtype=torch.float64) @ rand(200, 100, dtype=torch.float64)


@seeded
def matmul_fp32():
    return rand(512, 300) @ rand(300, 512)


@seeded
def matmul_tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return rand(512, 512) @ rand(512, 512)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


@seeded
def matmul_fp16():
    return rand(512, 512, dtype=HALF) @ rand(512, 512, dtype=HALF)


@seeded
def matmul_bf16():
    return rand(1024, 512, dtype=BF16) @ rand(512, 1024, dtype=BF16)


@seeded
def matmul_fp8():
    one = torch.ones((), device="cuda")
    a = rand(128, 256).to(torch.float8_e4m3fn)
    b = rand(64, 256).to(torch.float8_e4m3fn)
    return torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=BF16)


@seeded
def matmul_int8():
    a, b = (torch.randint(-100, 100, (64, 64), device="cuda").to(torch.int8) for _ in range(2))
    return torch._int_mm(a, b)


@seeded
def matmul_batched():
    return torch.bmm(rand(16, 64, 96), rand(16, 96, 32)), torch.baddbmm(
        rand(16, 64, 32, dtype=BF16), rand(16, 64, 96, dtype=BF16), rand(16, 96, 32, dtype=BF16))


@seeded
def matmul_split_k():
    return rand(16, 100000) @ rand(100000, 16), rand(16, 65536, dtype=HALF) @ rand(65536, 16, dtype=HALF)


@seeded
def linear_bias_gelu_bf16():
    x, w, b = rand(64, 512, dtype=BF16), rand(256, 512, dtype=BF16), rand(256, dtype=BF16)
    return F.gelu(F.linear(x, w, b))


@seeded
def quantised_int8_linear():
    """Weights per channel, activations per row, the product in int8."""
    x, w = rand(64, 256), rand(128, 256)
    x_scale = x.abs().amax(1, keepdim=True) / 127
    w_scale = w.abs().amax(1, keepdim=True) / 127
    product = torch._int_mm((x / x_scale).round().to(torch.int8), (w / w_scale).round().to(torch.int8).T)
    fake = torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)
    return product * x_scale * w_scale.T, fake, torch.quantize_per_tensor(x, 0.1, 3, torch.qint8).int_repr()


# --- layers

@seeded
def conv_fp32():
    return F.conv2d(rand(4, 16, 40, 40), rand(32, 16, 3, 3))


@seeded
def conv_1d_3d_transposed():
    return (F.conv1d(rand(2, 8, 100), rand(4, 8, 5)), F.conv3d(rand(1, 4, 12, 12, 12), rand(8, 4, 3, 3, 3)),
            F.conv_transpose2d(rand(2, 8, 10, 10), rand(8, 4, 3, 3), stride=2),
            F.conv2d(rand(2, 16, 20, 20), rand(16, 1, 3, 3), groups=16))


@seeded(tolerance=1e-2)
def conv_bf16_backward():
    w = rand(32, 16, 3, 3, dtype=BF16).requires_grad_()
    F.conv2d(rand(4, 16, 40, 40, dtype=BF16), w).sum().backward()
    return w.grad


@seeded
def conv_channels_last_fp16():
    x = rand(4, 16, 40, 40, dtype=HALF).to(memory_format=torch.channels_last)
    return F.conv2d(x, rand(32, 16, 3, 3, dtype=HALF).to(memory_format=torch.channels_last))


@seeded(tolerance=1e-4)
def lstm_and_gru():
    x = rand(20, 4, 32).requires_grad_()
    lstm, gru = nn.LSTM(32, 64, 2).cuda(), nn.GRU(64, 16, bidirectional=True).cuda()
    out = gru(lstm(x)[0])[0]
    out.sum().backward()
    return out, x.grad


@seeded(tolerance=1e-4)
def ctc_loss():
    log_probs = rand(50, 4, 20).log_softmax(2).requires_grad_()
    targets = torch.randint(1, 20, (4, 10), device="cuda")
    loss = F.ctc_loss(log_probs, targets, torch.full((4,), 50), torch.full((4,), 10))
    loss.backward()
    return loss, log_probs.grad


@seeded
def batch_layer_group_norm():
    return (nn.BatchNorm2d(16).cuda()(rand(8, 16, 10, 10)), F.layer_norm(rand(40, 100), (100,)),
            F.group_norm(rand(4, 16, 9, 9), 4), F.rms_norm(rand(40, 100), (100,)))


@seeded
def pooling_and_interpolation():
    x = rand(2, 8, 33, 33)
    return (F.max_pool2d(x, 3), F.adaptive_avg_pool2d(x, 5), F.interpolate(x, scale_factor=1.7, mode="bilinear"),
            F.grid_sample(x, torch.rand(2, 20, 20, 2, device="cuda") * 2 - 1, align_corners=False))


@seeded(tolerance=1e-5)
def embedding_and_its_gradient():
    table = nn.Embedding(1000, 64).cuda()
    out = table(torch.randint(0, 1000, (64, 20), device="cuda"))
    out.square().mean().backward()
    bags = F.embedding_bag(torch.arange(100, device="cuda"), table.weight, torch.arange(0, 100, 10, device="cuda"))
    return out, table.weight.grad, bags


def attention(backend, dtype, **more):
    q, k, v = (rand(2, 8, 256, 64, dtype=dtype).requires_grad_() for _ in range(3))
    with nn.attention.sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(q, k, v, **more)
        out.float().square().mean().backward()
    return out, v.grad


@seeded(tolerance=1e-2)
def attention_flash():
    return attention(nn.attention.SDPBackend.FLASH_ATTENTION, BF16, is_causal=True)


@seeded(tolerance=1e-2)
def attention_efficient():
    return attention(nn.attention.SDPBackend.EFFICIENT_ATTENTION, HALF)


@seeded(tolerance=1e-2)
def attention_cudnn():
    return attention(nn.attention.SDPBackend.CUDNN_ATTENTION, BF16, is_causal=True)


@seeded
def attention_math():
    return attention(nn.attention.SDPBackend.MATH, torch.float32)


@seeded
def multi_head_attention():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).cuda().eval()
    with torch.no_grad():
        return layer(rand(3, 30, 64))


# --- transforms, linear algebra

@seeded
def fft():
    return (torch.fft.fft2(rand(3, 100, 120)), torch.fft.irfft(torch.fft.rfft(rand(7, 1009))),
            torch.fft.fftn(rand(8, 16, 17)))


@seeded
def stft():
    window = torch.hann_window(256, device="cuda")
    return torch.stft(rand(2, 4000), 256, window=window, return_complex=True)


@seeded(tolerance=1e-5)
def svd():
    a = rand(60, 40)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    return s, u @ torch.diag(s) @ vh, torch.linalg.svdvals(rand(10, 8, 8))


@seeded(tolerance=1e-5)
def eigh():
    a = rand(50, 50)
    return torch.linalg.eigh(a + a.T)[0], torch.linalg.eigvals(rand(20, 20)).abs().sort()[0]


@seeded
def lu_solve_cholesky_qr():
    a = rand(64, 64)
    lu, pivots = torch.linalg.lu_factor(a)
    positive = a @ a.T + 64 * torch.eye(64, device="cuda")
    return (lu, pivots, torch.linalg.solve(a, rand(64, 8)), torch.linalg.cholesky(positive),
            torch.linalg.qr(rand(40, 20))[1], torch.linalg.inv(rand(12, 16, 16)), torch.linalg.det(a))


# --- sorting, indices, sparse

@seeded
def sort():
    x = rand(100000)
    values, indices = x.sort()
    return values, indices, torch.randint(0, 99, (300, 300), device="cuda").sort(stable=True)[1]


@seeded
def topk_unique_histogram():
    ints = torch.randint(0, 1000, (50000,), device="cuda")
    return rand(1000, 50).topk(5)[0], torch.unique(ints, return_counts=True), torch.bincount(ints), \
        torch.histc(rand(10000), 20), torch.searchsorted(torch.arange(0., 9, device="cuda"), rand(100))


@seeded
def scans_and_reductions():
    x = rand(20, 5000)
    return x.cumsum(1), x.cumprod(1), x.logcumsumexp(1), x.var(1), x.norm(), x.argmax(1), x.median(1)[0]


@seeded
def index_scatter_gather():
    at = torch.randperm(100, device="cuda")
    x = rand(100, 30)
    return x[at], torch.zeros(100, 30, device="cuda").scatter_(0, at[:, None].expand(100, 30), x), \
        x.gather(1, torch.randint(0, 30, (100, 7), device="cuda")), x[x > 1], x.nonzero().sum(0)


@seeded
def sparse():
    dense = (torch.rand(200, 200, device="cuda") > 0.9) * rand(200, 200)
    csr, coo, x = dense.to_sparse_csr(), dense.to_sparse_coo(), rand(200, 30)
    return csr @ x, torch.sparse.mm(coo, x), (coo @ coo).to_dense()


# --- random numbers

@seeded
def random_numbers():
    return (torch.rand(1000, device="cuda"), torch.randn(1000, device="cuda"),
            torch.randint(0, 9, (1000,), device="cuda"), torch.randperm(1000, device="cuda"),
            torch.empty(1000, device="cuda").exponential_(), torch.bernoulli(torch.full((1000,), 0.3, device="cuda")),
            torch.multinomial(torch.rand(50, device="cuda"), 20), torch.poisson(torch.full((100,), 3., device="cuda")))


@seeded
def random_state_and_dropout():
    state = torch.cuda.get_rng_state()
    first = F.dropout(torch.ones(10000, device="cuda"), 0.3)
    torch.cuda.set_rng_state(state)
    again = F.dropout(torch.ones(10000, device="cuda"), 0.3)
    return first, torch.equal(first, again)


# --- copies, streams, events, threads

@seeded
def pinned_copies():
    host = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
    back = torch.empty_like(host).pin_memory()
    back.copy_(host.to("cuda", non_blocking=True) * 2, non_blocking=True)
    torch.cuda.synchronize()
    return back, back.is_pinned()


@seeded
def strided_copies():
    x = rand(64, 65, 66)
    y = torch.empty(66, 64, 65, device="cuda")
    y.copy_(x.permute(2, 0, 1))
    return y, x[:, 3:60:2].cpu(), x.to(torch.float64), x.cpu().numpy().transpose(1, 0, 2).copy()


@seeded
def streams():
    s, x = torch.cuda.Stream(priority=-1), rand(1000, 1000)
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        y = x @ x
        event = s.record_event()
    event.wait()
    return y, y.sum()


@seeded
def event_timing():
    """A kernel that spins for a known number of cycles takes time, and twice of it takes longer."""
    def spin(cycles):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.cuda._sleep(cycles)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)
    spin(1000)
    short, long = spin(10_000_000), spin(40_000_000)
    return 1 < short < 60, 2.5 < long / short < 6


@seeded
def autograd_from_threads():
    out = [None] * 4

    def work(i):
        x = torch.full((100, 100), float(i + 1), device="cuda", requires_grad=True)
        for _ in range(10):
            y = (x @ x).sin().sum()
            y.backward()
        out[i] = x.grad
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


@seeded
def higher_derivatives():
    x = rand(50).requires_grad_()
    first, = torch.autograd.grad(x.sin().square().sum(), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x)[0], torch.func.vmap(torch.func.hessian(torch.sin))(x)


# --- graphs

@seeded
def cuda_graph():
    x, w = rand(64, 64), rand(64, 64)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            y = (x @ w).relu() + 1
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x @ w).relu() + 1
    out = []
    for i in range(3):
        x.copy_(torch.full((64, 64), float(i)))
        graph.replay()
        out.append(y.clone())
    return out


@seeded
def cuda_graph_with_random_numbers():
    x = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    F.dropout(x + 1, 0.5)
    with torch.cuda.graph(graph):
        y = F.dropout(x + 1, 0.5)
    graph.replay()
    first = y.clone()
    graph.replay()
    return first, y, torch.equal(first, y)


@seeded(tolerance=1e-5)
def make_graphed_callables():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
    graphed = torch.cuda.make_graphed_callables(model, (rand(16, 32).requires_grad_(),))
    x = rand(16, 32).requires_grad_()
    graphed(x).square().sum().backward()
    return x.grad, model[0].weight.grad


# --- memory and what the device says

@seeded
def device_properties():
    p = torch.cuda.get_device_properties(0)
    return [p.name, p.total_memory, p.multi_processor_count, p.major, p.minor, p.L2_cache_size, str(p.uuid),
            p.regs_per_multiprocessor, p.warp_size, torch.cuda.device_count(), torch.cuda.get_device_capability(),
            torch.cuda.is_bf16_supported(), torch.version.cuda, torch.backends.cudnn.version()]


@seeded
def memory_statistics():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
    held = torch.cuda.memory_allocated() - before
    del x
    free, total = torch.cuda.mem_get_info()
    return [held, torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before,
            torch.cuda.memory_stats()["num_ooms"], 0 < free < total, total,
            len(torch.cuda.memory_snapshot()) > 0]


@seeded
def out_of_memory_and_recovery():
    torch.cuda.set_per_process_memory_fraction(0.02)
    kept, failed = [], 0
    try:
        for _ in range(200):
            kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        failed += 1
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    count = len(kept)
    kept.clear()
    torch.cuda.empty_cache()
    try:                                        # the driver's own refusal
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        failed += 1
    return failed, count, torch.ones(1000, device="cuda").sum()


@seeded
def wrong_device_and_bad_arguments():
    said = []
    for f in (lambda: torch.ones(1, device="cuda:99"), lambda: rand(3, 4) @ rand(5, 6),
              lambda: torch.cuda.set_device(77)):
        try:
            f()
        except (RuntimeError, AssertionError) as e:
            said.append(str(e).splitlines()[0])
    return said, rand(3).shape[0]


@seeded
def pluggable_profiler():
    """torch.profiler without CUPTI's activities: what the CPU side records."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        (rand(10, 10) @ rand(10, 10)).sum().item()
    return any("mm" in e.key for e in p.key_averages())


@seeded
def dlpack_and_array_interface():
    x = rand(10, 10)
    y = torch.from_dlpack(x)
    y[0] = 7
    return x, x.__cuda_array_interface__["shape"]
