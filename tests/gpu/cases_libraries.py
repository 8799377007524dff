"""tests/gpu/cases_libraries.py - CUDA programs of this folder: NVIDIA's libraries, and what CUDA C can do.

What a program prints and its status are compared; each checks its own results, too.
"""
import pathlib
import subprocess

from harness import CASES, Case, Missing, case

BIN = pathlib.Path(__file__).resolve().parent / "bin"
NAMES = ("cublas", "cudnn", "cufft", "cusparse", "cusolver", "curand", "nccl", "nvrtc", "managed", "mapped",
         "textures", "graphs", "device_side", "host_functions", "cooperative", "dynamic", "stream_memory",
         "streams", "peer", "sparse")


def run(program, *arguments, seconds=50, env=None):
    """What PROGRAM printed; a status other than 0 is an error, with what it said."""
    if not pathlib.Path(program).exists():
        raise Missing(f"{pathlib.Path(program).name} could not be built: its library is not here")
    out = subprocess.run([program, *arguments], capture_output=True, text=True, errors="replace", env=env,
                         timeout=seconds, check=False)
    if out.returncode == 127 and "shared librar" in out.stderr:
        raise Missing(out.stderr.strip())
    if out.returncode:
        raise RuntimeError(f"status {out.returncode}: {out.stdout[-150:]} {out.stderr.strip()[-150:]}")
    return out.stdout


@case()
def device_side_assert():
    """What the runtime says; where the driver's own line goes is another matter, see below."""
    return [line for line in run(BIN / "device_side", "assert").splitlines() if line.startswith("cudaError")]


@case()
def device_side_assert_tells_the_place():
    out = subprocess.run([BIN / "device_side", "assert"], capture_output=True, text=True, timeout=50, check=False)
    if "assert_less" not in out.stdout + out.stderr:
        raise RuntimeError("no line says which assertion failed")
    return "told"


def register(name, program, *arguments, gpus=1):
    """A case NAME that runs PROGRAM."""
    def function():
        return run(program, *arguments)
    function.__name__ = name
    CASES[name] = Case(function, gpus=gpus)


for the_name in NAMES:
    register(the_name, BIN / the_name)
register("nccl_of_two_gpus", BIN / "nccl", gpus=2)
register("peer_of_two_gpus", BIN / "peer", gpus=2)
