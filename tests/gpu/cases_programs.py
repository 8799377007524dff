"""tests/gpu/cases_programs.py - every program of tests/test_apps, and the variables of CUDA with one of them."""
import os
import pathlib
import re

from cases_libraries import run
from harness import CASES, Case, Missing, case

CASES.clear()       # those of cases_libraries are its own
ROOT = pathlib.Path(__file__).resolve().parents[2]
APPS = ROOT / "tests" / "test_apps" / "bin"
# They never end, crash natively, wait for something, or want arguments; or are there twice.
LEFT_OUT = re.compile(r"(spin|endless|awkward|bad_handles|waits|any_runtime|environment|managed_lost|.*_shared$)")


def register(path):
    def function():
        return run(path)
    function.__name__ = path.name
    CASES[path.name] = Case(function)


for program in sorted(APPS.glob("*")):
    if program.is_file() and os.access(program, os.X_OK) and not LEFT_OUT.match(program.name):
        register(program)


def runtime(library):
    def function():
        return run(APPS / "any_runtime", str(library))
    release = library.parents[1].name
    function.__name__ = f"runtime_{release}"
    CASES[function.__name__] = Case(function)


for found in sorted((ROOT / "build" / "runtimes").glob("*/lib/libcudart.so.*")):
    runtime(found)


def environment(what, **env):
    return run(APPS / "environment", what, env=dict(os.environ, **env)).strip()


@case()
def environment_launch_blocking():
    return {v: environment("fault", CUDA_LAUNCH_BLOCKING=v) for v in ("0", "1")}


@case()
def environment_module_loading():
    return {v: environment("loading", CUDA_MODULE_LOADING=v) for v in ("EAGER", "LAZY")}


@case()
def environment_device_order():
    return {v: environment("devices", CUDA_DEVICE_ORDER=v) for v in ("PCI_BUS_ID", "FASTEST_FIRST")}


@case()
def environment_visible_devices():
    if not (APPS / "environment").exists():
        raise Missing("environment is not built")
    uuid = environment("uuids").split()[0]
    lists = ["0", uuid, uuid[:14], "", "-1", "0,0", "0,99", "99", "GPU-deadbeef", "NoDevFiles", uuid.replace("GPU", "MIG"),
             "MIG-3eb87630-93d5-b2b6-b8ff-9b359caf4ee2", f"MIG-{uuid}/1/0"]
    return {v: environment("devices", CUDA_VISIBLE_DEVICES=v) for v in lists}
