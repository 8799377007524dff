"""bench/apps/cuda_c.py - builds cuda_c.cu by nvcc, once for all ways that it runs (into APPS_BUILD), and runs it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from common import missing

SOURCE = pathlib.Path(__file__).with_suffix(".cu")
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")

if not NVCC:
    missing("no nvcc")
program = pathlib.Path(os.environ.get("APPS_BUILD") or tempfile.gettempdir()) / "cuda_c"
if not program.exists():
    built = subprocess.run([NVCC, "-O2", "-Wno-deprecated-gpu-targets", "-arch=compute_75", "-o", program, SOURCE, "-lcublas",
                            "-lcufft"], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        missing(f"nvcc: {(built.stderr.strip() or '?').splitlines()[0]}")
os.execv(program, [str(program), *sys.argv[1:]])
