"""tests/gen/helpers.py - where things are, and how to run the generator."""
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "gen"
TABLE = ROOT / "rpc" / "driver.api"

sys.path.insert(0, str(ROOT / "tools"))
from api.nccl_table import NcclTable  # noqa: E402
from api.nvml_table import NvmlTable  # noqa: E402
from api.table import Table, enum_types  # noqa: E402


def apigen(*args):
    """Run tools/apigen.py; its status and what it said."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "apigen.py", *map(str, args)],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def driver_table():
    """The rows of rpc/driver.api."""
    return Table(str(TABLE), TABLE.read_text(),
                 enum_types("".join(f.read_text() for f in (ROOT / "cuda").glob("*.h"))))


def management_table():
    """The rows of rpc/nvml.api."""
    path = ROOT / "rpc" / "nvml.api"
    return NvmlTable(str(path), path.read_text())


def nccl_table():
    """The rows of rpc/nccl.api."""
    path = ROOT / "rpc" / "nccl.api"
    return NcclTable(str(path), path.read_text())


def tool(name):
    """A program of tools/ as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def toolkit_include():
    """The folder with cuda.h of an installed CUDA toolkit, or None."""
    nvcc = shutil.which("nvcc")
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    homes += [nvcc and pathlib.Path(nvcc).resolve().parents[1], "/usr/local/cuda"]
    homes += sorted(pathlib.Path("/usr/local").glob("cuda-*"), reverse=True)
    homes += [ROOT / "build" / "cuda"]
    for home in filter(None, homes):
        include = pathlib.Path(home) / "include"
        if (include / "cuda.h").exists():
            return include
    return None


def toolkit_version(include):
    """CUDA_VERSION of a toolkit: 13000."""
    return int(re.search(r"#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text())[1])
