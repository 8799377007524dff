"""tests/gpu/cases_jax.py - JAX on one device."""
import os

from harness import Missing, case

# JAX takes most of the memory at its first call: a tenth of the device, as others run beside it.
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", ".10")


def modules():
    """jax and jax.numpy; missing where JAX has no GPU, too."""
    import jax
    import jax.numpy as jnp
    try:
        jax.devices("gpu")
    except RuntimeError as e:
        if "known backends" in str(e).lower() or "unknown backend" in str(e).lower():
            raise Missing(f"JAX without a GPU: {e}"[:100]) from e
        raise
    return jax, jnp


def numbers(*shape, seed=0):
    jax, _ = modules()
    return jax.random.normal(jax.random.key(seed), shape)


@case(seconds=120)
def jit():
    jax, jnp = modules()
    return jax.jit(lambda x: jnp.tanh(x) @ x.T + x.sum())(numbers(128, 128))


@case(tolerance=1e-5, seconds=120)
def grad():
    jax, jnp = modules()
    loss = lambda w, x: jnp.mean(jnp.square(jnp.tanh(x @ w)))  # noqa: E731
    w, x = numbers(32, 8), numbers(64, 32, seed=1)
    return jax.grad(loss)(w, x), jax.jit(jax.hessian(lambda v: jnp.sum(jnp.sin(v) ** 2)))(x[0])


@case(tolerance=1e-3, seconds=120)
def conv():
    jax, _ = modules()
    f = jax.jit(lambda x, k: jax.lax.conv_general_dilated(x, k, (1, 1), "SAME"))
    return f(numbers(4, 8, 32, 32), numbers(16, 8, 3, 3, seed=1))


@case(seconds=120)
def scan_and_loops():
    jax, jnp = modules()
    w = numbers(32, 32) * 0.1
    out, all_of_it = jax.lax.scan(lambda c, x: (jnp.tanh(c @ w + x), c.sum()), jnp.zeros(32), numbers(50, 32, seed=2))
    return out, all_of_it, jax.lax.fori_loop(0, 20, lambda i, v: v * 1.1 + i, jnp.ones(10)), jax.lax.while_loop(
        lambda v: v < 100, lambda v: v * 1.7, 1.0)


@case(tolerance=1e-4, seconds=120)
def svd_and_solve():
    jax, jnp = modules()
    a = numbers(60, 60)
    return (jnp.linalg.svd(a, compute_uv=False), jnp.linalg.solve(a, a[0]), jnp.linalg.eigh(a + a.T)[0],
            jnp.linalg.cholesky(a @ a.T + 60 * jnp.eye(60)), jnp.linalg.qr(a)[1])


@case(seconds=120)
def fft():
    _, jnp = modules()
    return jnp.fft.fft(numbers(64, 100)), jnp.fft.rfft2(numbers(32, 48))


@case(seconds=120)
def pmap_over_one_device():
    jax, jnp = modules()
    n = jax.local_device_count("gpu")
    out = jax.pmap(lambda x: jax.lax.psum(jnp.sin(x), "i"), axis_name="i")(jnp.arange(n * 8.0).reshape(n, 8))
    return out[0], len(out) == n


@case(seconds=120)
def vmap_sort_and_scatter():
    jax, jnp = modules()
    x = numbers(40, 100)
    return jax.vmap(jnp.sort)(x), jnp.argsort(x[0]), jnp.zeros(100).at[jnp.arange(0, 100, 3)].add(1.5), jnp.cumsum(x, 1)


@case(tolerance=1e-2, seconds=150)
def training_in_bf16():
    jax, jnp = modules()

    def loss(w, x):
        y = jax.nn.gelu(x.astype(jnp.bfloat16) @ w[0].astype(jnp.bfloat16)) @ w[1].astype(jnp.bfloat16)
        return jnp.mean(jnp.square(y.astype(jnp.float32) - 1))
    step = jax.jit(lambda w, x: jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w, x)))
    w, x = [numbers(64, 128) * 0.1, numbers(128, 4, seed=1) * 0.1], numbers(256, 64, seed=2)
    losses = []
    for _ in range(5):
        losses.append(loss(w, x))
        w = step(w, x)
    return losses


@case(tolerance=1e-2, seconds=150)
def attention():
    jax, _ = modules()
    q = numbers(2, 64, 4, 32)
    return jax.jit(jax.nn.dot_product_attention)(q, q, q)


@case(seconds=120)
def host_callback():
    jax, jnp = modules()
    double = lambda x: jax.pure_callback(lambda v: v * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)  # noqa: E731
    return jax.jit(double)(jnp.arange(10.0))


@case(seconds=120)
def memory_and_devices():
    jax, jnp = modules()
    device = jax.devices("gpu")[0]
    x = jax.device_put(jnp.ones((1000, 1000)), device)
    stats = device.memory_stats() or {}
    return device.device_kind, x.sum(), stats.get("bytes_limit", 1) > 0, device.id


@case(env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, seconds=120)
def memory_as_needed():
    _, jnp = modules()
    return jnp.ones((2000, 2000)).sum(), jnp.arange(1 << 20)[::999]


@case(env={"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}, seconds=120)
def memory_by_cuda_malloc_async():
    _, jnp = modules()
    return jnp.ones((2000, 2000)).sum(), jnp.arange(1 << 20)[::999]


@case(env={"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}, seconds=120)
def without_command_buffers():
    jax, jnp = modules()
    return jax.jit(lambda x: jnp.sin(x) @ x)(numbers(64, 64))
