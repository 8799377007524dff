"""bench/apps/flax_train.py - Flax and Optax: a small convolutional network is trained by Adam."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from flax import linen as nn  # noqa: E402

from common import DEVICE, missing, report, version_of  # noqa: E402

if DEVICE == "cuda" and jax.default_backend() != "gpu":
    missing("JAX without a GPU")


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(16, (3, 3))(x))
        x = nn.avg_pool(x, (2, 2), (2, 2)).reshape((x.shape[0], -1))
        return nn.Dense(10)(nn.LayerNorm()(nn.relu(nn.Dense(64)(x))))


NET, ADAM = Net(), optax.adamw(1e-3)


@jax.jit
def step(weights, state, x, y):
    def loss(w):
        return optax.softmax_cross_entropy_with_integer_labels(NET.apply(w, x), y).mean()
    value, slope = jax.value_and_grad(loss)(weights)
    change, state = ADAM.update(slope, state, weights)
    return optax.apply_updates(weights, change), state, value


def work():
    x, y = jax.random.normal(jax.random.key(1), (64, 16, 16, 3)), jnp.arange(64) % 10
    weights = NET.init(jax.random.key(2), x)
    state, losses = ADAM.init(weights), []
    for _ in range(30):
        weights, state, value = step(weights, state, x, y)
        losses.append(float(value))
    return losses


report(version_of("flax"), work)
