"""tests/e2e/test_wholememory.py - chunked memory from Python: python/wholememory on libwcm.so."""
import ctypes
import shutil
import subprocess
import sys
import uuid

import pytest

from conftest import DRIVER, KIND, PRODUCTS, ROOT, Server, clean_env, client_env, ended, run, runtime, start
from python_apps import packages        # noqa: F401  (a fixture)

PROGRAM = ROOT / "tests" / "e2e" / "chunked_program.py"
LIBRARY = PRODUCTS / "libwcm.so"
PACKAGE = str(ROOT / "python")
sys.path.insert(0, PACKAGE)
from wholememory import _library        # noqa: E402


def device_count():
    if DRIVER == "emu":
        return 4
    return len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=60, check=True).stdout.splitlines())


DEVICES = device_count()


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, timeout=60,
                          check=False).returncode == 0


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """A server with four devices, or those that there are."""
    s = Server(tmp_path_factory.mktemp("server"), CRICKET_EMU=f"devices={DEVICES}")
    yield s
    s.stop()


def ranks(env, case, size, python=sys.executable, lost=()):
    """Runs CASE in SIZE processes of one group; those in LOST do not come to an end of their own."""
    group = uuid.uuid4().hex
    env = dict(env, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore", DEVICES=str(DEVICES))
    running = [start([python, PROGRAM, LIBRARY, case, rank, size, group], env) for rank in range(size)]
    results = [ended(process, 60) for process in running]
    said = "".join(f"--- {rank}\n{result.out}{result.err}" for rank, result in enumerate(results))
    for rank, result in enumerate(results):
        if rank in lost:
            assert result.status != 0, said
        else:
            assert (result.status, result.out) == (0, f"{case} {rank}: right\n"), said


def test_structures_are_those_of_the_header(tmp_path):
    structures = {"wcm_opts": _library.Options, "wcm_info": _library.Info, "wcm_table": _library.Table,
                  "wcm_indices": _library.Indices, "wcm_rows": _library.Rows}
    lines, wanted = [], []
    for name, structure in structures.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        wanted.append(f"{name} {ctypes.sizeof(structure)}")
        for field, _ in structure._fields_:
            lines.append(f'printf("{field} %zu\\n", offsetof({name}, {field}));')
            wanted.append(f"{field} {getattr(structure, field).offset}")
    for name, (number, size, _) in _library.TYPES.items():
        lines.append(f'printf("{name} %zu\\n", wcm_type_size({number}));')
        wanted.append(f"{name} {size}")
    for number, name in _library.STATUSES.items():
        lines.append(f'printf("{name} %d\\n", WCM_{name});')
        wanted.append(f"{name} {number}")
    source, program = tmp_path / "layout.c", tmp_path / "layout"
    source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include \"wcm/wcm.h\"\nint main(void) {\n"
                      + "\n".join(lines) + "\nreturn 0; }\n", encoding="utf-8")
    subprocess.run(["gcc", "-I", ROOT, source, "-o", program, LIBRARY, f"-Wl,-rpath,{PRODUCTS}",
                    "-Wl,--unresolved-symbols=ignore-in-shared-libs"], check=True, timeout=60)
    assert run([program], clean_env(LD_PRELOAD=runtime())).out.splitlines() == wanted


def test_without_a_driver_it_says_so():
    if DRIVER != "emu":
        pytest.skip("this machine has a driver")
    program = ("import sys, wholememory as wm; wm.init_lib(sys.argv[1])\n"
               "try: wm.create_chunked_tensor([10, 4])\n"
               "except wm.WholeMemoryError as e: print(e.name)")
    result = run([sys.executable, "-c", program, LIBRARY], clean_env(PYTHONPATH=PACKAGE, LD_PRELOAD=runtime()))
    assert (result.status, result.out) == (0, "ENODRIVER\n"), result.err


@pytest.mark.parametrize("case", ["alone", "refusals"])
def test_one_rank(direct_env, case):
    ranks(direct_env, case, 1)


def test_one_rank_through_a_server(server):
    ranks(client_env(server.address("shm")), "alone", 1)


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_that_are_sessions_of_a_server(devices, size):
    ranks(client_env(devices.address("unix")), "together", size)


def test_a_rank_that_is_killed_harms_only_itself(devices):
    ranks(client_env(devices.address("unix")), "killed", 3, lost=[2])


def test_rows_of_numba_s_arrays(devices, packages):     # noqa: F811
    env = dict(client_env(devices.address("shm")), NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS="0")
    ranks(env, "arrays", 2, packages / "bin" / "python3")


def test_the_ops_of_pytorch(devices):
    if KIND or not has_torch():
        pytest.skip("PyTorch is not installed (not one of the packages that CI brings: 3 GB)")
    ranks(client_env(devices.address("shm")), "torch_ops", 2)


def test_the_ops_of_pytorch_without_a_gpu(direct_env):
    if KIND or not has_torch():
        pytest.skip("PyTorch is not installed (not one of the packages that CI brings: 3 GB)")
    ranks(direct_env, "torch_shapes", 1)


def test_ranks_that_mpirun_starts(devices):
    mpirun = shutil.which("mpirun")
    if not mpirun:
        pytest.skip("no mpirun")
    program = ("import sys, wholememory as wm; wm.init_lib(sys.argv[1])\n"
               "t = wm.create_chunked_tensor([64, 4])\n"
               "print(wm.get_rank(), wm.get_size(), t.info().chunk_count, flush=True); wm.barrier()")
    command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable, "-c", program, LIBRARY]
    result = run(command, client_env(devices.address("unix"), PYTHONPATH=PACKAGE), 60)
    # mpirun passes on what it has of each rank's line
    assert result.status == 0 and sorted(result.out) == sorted("0 2 2\n1 2 2\n"), result.out + result.err
