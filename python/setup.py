"""python/setup.py - the wheel cricket-gpu: client library, emulated GPU with a server for it, and the command `cricket`.

`pip install ./python` takes cpu/build-portable if it is there (`make portable`), else cpu/; CRICKET_BUILD=FOLDER takes what
is there, as tools/dist.sh does. The files go where `make install` has them, below the environment: bin/cricket, lib/cricket.
"""
import os
import pathlib
import re
import shutil
import subprocess

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
STAGE = HERE / "build" / "stage"
PORTABLE = ROOT / "cpu" / "build-portable"
MACHINES = {62: "x86_64", 183: "aarch64"}     # by the number in the head of an ELF file


def built():
    """The folder of the built programs, and the tag of the systems that they run on."""
    named = os.environ.get("CRICKET_BUILD")
    folder = ROOT / named if named else PORTABLE if (PORTABLE / "cricket").exists() else ROOT / "cpu"
    if not (folder / "cricket").exists():
        raise SystemExit(f"setup.py: error: nothing is built in {folder}: run `make portable` in the source tree first")
    with open(folder / "cricket", "rb") as f:
        machine = MACHINES[int.from_bytes(f.read(20)[18:], "little")]
    return folder, f"{'manylinux2014' if 'portable' in folder.name else 'linux'}_{machine}"


def stage(folder):
    """Installs client and emulated GPU into STAGE. A wheel has no symbolic links, so the names that need one are copies."""
    shutil.rmtree(STAGE, ignore_errors=True)
    env = {"STRIP": "1", **os.environ, "CRICKET_BUILD": str(folder), "DESTDIR": str(STAGE)}
    subprocess.run([ROOT / "tools" / "install.sh", "emulator", "/usr"], check=True, env=env)
    top = STAGE / "usr"
    home = top / "lib" / "cricket"
    shutil.rmtree(home / "emu")
    (home / "lib" / "libcuda.so").unlink()
    shutil.copy2(home / "libcuda.so", home / "lib" / "libcuda.so")
    (top / "bin" / "cricket").unlink()
    (home / "cricket").rename(top / "bin" / "cricket")
    with open(home / "sbom.cdx.json", "w", encoding="utf-8") as f:
        subprocess.run([ROOT / "tools" / "sbom.py"], check=True, stdout=f)
    with open(HERE / "build" / "LICENCES", "w", encoding="utf-8") as f:
        subprocess.run([ROOT / "tools" / "licences.sh"], check=True, stdout=f)
    return top


def data_files(top):
    """(folder below the environment, files) of all that is staged."""
    return [(str(pathlib.Path(folder).relative_to(top)), [os.path.relpath(pathlib.Path(folder) / f, HERE) for f in files])
            for folder, _, files in os.walk(top) if files]


class Wheel(bdist_wheel):
    """For each Python 3, and the systems that the programs run on."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", PLATFORM


os.chdir(HERE)
BUILT, PLATFORM = built()
RELEASE = re.search(r"^RELEASE := (.*)$", (ROOT / "cpu" / "Makefile").read_text(encoding="utf-8"), re.M).group(1)

setup(
    name="cricket-gpu",
    version=RELEASE,
    description="Run CUDA programs on the GPU of another machine",
    license="MIT",
    license_files=["build/LICENCES"],
    python_requires=">=3.8",
    packages=["cricket_gpu"],
    # the wheel has it anyway: the name is for requirements that say what a project needs it for
    extras_require={"emu": []},
    entry_points={"pytest11": ["cricket = cricket_gpu.pytest_plugin"]},
    data_files=data_files(stage(BUILT)),
    cmdclass={"bdist_wheel": Wheel},
)
