"""bench/apps/jax_train.py - JAX: jit, grad and scan train a small recurrent network; vmap, a solver and an FFT beside it."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Choices by timing may differ from run to run, and results with them.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from common import DEVICE, missing, report, version_of  # noqa: E402

if DEVICE == "cuda" and jax.default_backend() != "gpu":
    missing("JAX without a GPU")


def loss(weights, x, y):
    def step(state, item):
        state = jnp.tanh(item @ weights["in"] + state @ weights["state"])
        return state, state @ weights["out"]
    _, out = jax.lax.scan(step, jnp.zeros((x.shape[1], 64)), x)
    return jnp.mean(jnp.square(out[..., 0] - y))


@jax.jit
def train(weights, x, y):
    def step(weights, _):
        value, slope = jax.value_and_grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 0.05 * g, weights, slope), value
    return jax.lax.scan(step, weights, None, 50)


def work():
    keys = jax.random.split(jax.random.key(1), 5)
    weights = {name: 0.2 * jax.random.normal(key, shape) for name, key, shape in
               (("in", keys[0], (8, 64)), ("state", keys[1], (64, 64)), ("out", keys[2], (64, 1)))}
    x = jax.random.normal(keys[3], (20, 32, 8))
    weights, losses = train(weights, x, jnp.sin(x.sum(-1)))
    a = jax.random.normal(keys[4], (100, 100))
    return [losses[::10].tolist(), float(weights["state"].sum()), float(jnp.linalg.solve(a, a[0]).sum()),
            float(jnp.abs(jnp.fft.rfft(a)).sum()), float(jax.vmap(jnp.sort)(a)[:, 3].sum())]


report(version_of("jax"), work)
