"""tests/e2e/test_exports.py - the libraries export the names of the generator's tables, under the names that programs open."""
import re
import subprocess
import sys

import pytest

from conftest import CLIENT, KIND, PRODUCTS, ROOT

sys.path.insert(0, str(ROOT / "tools"))
from api.nccl_table import NcclTable  # noqa: E402
from api.nvml_table import NvmlTable  # noqa: E402
from api.proto import interposed  # noqa: E402

pytestmark = [pytest.mark.quick, pytest.mark.skipif(bool(KIND), reason="nothing here depends on sanitizers")]
# What driver 580 exports, and what headers of CUDA 13.1 to 13.5 add, one a line.
DRIVER_NAMES = (ROOT / "tests" / "data" / "driver_names.txt").read_text(encoding="utf-8").split()


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def names_of(kind, name):
    """The names of a table in rpc/."""
    return [r.name for r in kind(name, (ROOT / "rpc" / name).read_text(encoding="utf-8")).rows]


def profiler_names():
    """CUPTI's functions: those that are supported, and the others."""
    folder = ROOT / "client" / "cupti"
    supported = re.findall(r"\b(cupti\w+|InitializeInjectionNvtx2)\(", (folder / "api.h").read_text())
    return supported + re.findall(r"\((cupti\w+)\)", (folder / "unsupported.def").read_text())


def store_names():
    """For the command `cricket`."""
    return re.findall(r"^int (cricket_store_\w+)\(", (ROOT / "cuda" / "client_store.h").read_text(), re.M)


def test_the_client_exports_the_names_of_its_libraries_and_what_it_puts_before_the_c_library():
    promised = DRIVER_NAMES + names_of(NvmlTable, "nvml.api") + profiler_names() + store_names()
    lines = output("nm", "-D", "--defined-only", CLIENT).splitlines()
    names = {line.split()[-1] for line in lines}
    assert sorted(names - set(interposed())) == sorted(promised)
    # all of them, or none where a sanitizer has its own functions there
    assert len(names) - len(promised) in (0, len(interposed()))


def test_the_emulated_driver_exports_the_same_names_of_nvml():
    lines = output("nm", "-D", "--defined-only", PRODUCTS / "libcuda-emu.so").splitlines()
    names = {line.split()[-1] for line in lines}
    assert sorted(n for n in names if n.startswith("nvml")) == sorted(names_of(NvmlTable, "nvml.api"))


def test_the_client_calls_itself_libcuda():
    assert re.findall(r"SONAME.*\[(.*)\]", output("readelf", "-d", CLIENT)) == ["libcuda.so.1"]


def test_nvmls_library_needs_the_client():
    assert re.findall(r"\((\w+)\).*\[(.*)\]", output("readelf", "-d", PRODUCTS / "libnvidia-ml.so.1")) == [
        ("NEEDED", "libcuda.so.1"), ("SONAME", "libnvidia-ml.so.1"), ("RUNPATH", "$ORIGIN:$ORIGIN/lib")]


def test_nccls_library_exports_each_name_twice_and_no_other():
    library = PRODUCTS / "libnccl.so.2"
    names = {line.split()[2] for line in output("nm", "-D", "--defined-only", library).splitlines() if line.split()[1] != "A"}
    assert names == {p + name for name in names_of(NcclTable, "nccl.api") for p in ("", "p")}
    dynamic = output("readelf", "-d", library)
    assert "Library soname: [libnccl.so.2]" in dynamic and "Shared library: [libcuda.so.1]" in dynamic
