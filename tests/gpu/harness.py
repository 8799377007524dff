"""tests/gpu/harness.py - what a file of cases needs: @case, and a loop that runs some by name.

    python3 tests/gpu/harness.py cases_torch NAME...

runs the cases in this order in one process, and writes two lines for each to the stdout that it was
started with: `BEGIN name`, and `RESULT name json` when it has ended. Everything else that is printed goes
to stderr. After a case that fails the process ends with status 3, because a failed case may leave CUDA
unusable; the runner (runner.py) starts another for the rest.
"""
import hashlib
import importlib
import json
import os
import sys
import time
from dataclasses import dataclass, field

SAMPLES = 64        # values of an array that are kept for a comparison within a tolerance


class Missing(Exception):
    """The machine has not got what the case needs."""


@dataclass
class Case:
    """One test: FUNCTION returns what has to be the same natively and remotely."""
    function: object
    tolerance: float = 0.0      # relative to the largest value; 0: bit for bit
    seconds: int = 60           # it may take
    alone: bool = False         # in a process of its own
    env: dict = field(default_factory=dict)     # of that process
    limit: str = ""             # the limit of docs/compatibility.md that refuses it, if any
    gpus: int = 1


CASES = {}


def case(**options):
    """Registers a function as a case under its name; options as in Case."""
    def register(function):
        options["alone"] = bool(options.get("alone") or options.get("env"))
        CASES[function.__name__] = Case(function, **options)
        return function
    return register


def is_gpu_count(least):
    """Whether the machine has that many GPUs (the runner counts them)."""
    return int(os.environ.get("BATTERY_GPUS", "1")) >= least


def as_numpy(value):
    """An array of any framework as NumPy's; bfloat16 and fp8 as float32, which holds them."""
    import numpy            # programs in C are cases, too, and need none
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype).startswith(("torch.bfloat16", "torch.float8")):
            value = value.float()
        return value.resolve_conj().resolve_neg().numpy()
    if hasattr(value, "get") and hasattr(value, "__cuda_array_interface__"):
        return value.get()
    array = numpy.asarray(value)
    return array.astype(numpy.float32) if array.dtype.kind == "V" else array


def digest_array(array):
    """Shape, type, hash of the bytes, and samples of the values."""
    import numpy
    array = numpy.ascontiguousarray(array)
    flat = array.reshape(-1)
    step = max(1, flat.size // SAMPLES)
    numbers = numpy.abs(flat[::step]) if array.dtype.kind == "c" else flat[::step]
    largest = float(numpy.abs(flat).max()) if flat.size and array.dtype.kind in "fciub" else 0.0
    return {"shape": list(array.shape), "type": str(array.dtype), "largest": largest,
            "hash": hashlib.sha256(array.tobytes()).hexdigest()[:16],
            "samples": [float(n) for n in numbers[:SAMPLES]]}


def digest(value):
    """VALUE as JSON holds it."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {str(k): digest(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [digest(v) for v in value]
    return digest_array(as_numpy(value))


def run(name):
    """What to report of one case."""
    the_case = CASES[name]
    begin = time.perf_counter()
    result = {}
    try:
        if not is_gpu_count(the_case.gpus):
            raise Missing(f"needs {the_case.gpus} GPUs")
        result = {"status": "ok", "value": digest(the_case.function())}
    except (Missing, ModuleNotFoundError) as e:
        result = {"status": "missing", "error": str(e)}
    except Exception as e:  # pylint: disable=broad-except; one case must not stop the others
        text = " ".join(str(e).split())
        result = {"status": "error", "error": f"{type(e).__name__}: {text}"[:300]}
        sys.excepthook(*sys.exc_info())
    result["seconds"] = round(time.perf_counter() - begin, 3)
    return result


def main(module, names):
    """Runs the cases NAMES of MODULE; or, without names, prints what there is, as JSON."""
    results = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    importlib.import_module(module)
    if not names:
        print(json.dumps({n: {"tolerance": c.tolerance, "seconds": c.seconds, "alone": c.alone,
                              "env": c.env, "limit": c.limit} for n, c in CASES.items()}),
              file=results)
        return 0
    for name in names:
        print("BEGIN", name, file=results)
        result = run(name)
        print("RESULT", name, json.dumps(result), file=results)
        if result["status"] == "error":
            sys.stderr.flush()
            os._exit(3)
    return 0


if __name__ == "__main__":
    # Cases import this file under its own name, not as __main__.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(importlib.import_module("harness").main(sys.argv[1], sys.argv[2:]))
