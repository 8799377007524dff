#!/usr/bin/env python3
"""bench/apps/wheels.py DIR - brings the wheels of wheels.txt, as small as they can be, into DIR/1, DIR/2 ...

For `run.py --wheels` on a machine without a network: Python 3.12, x86-64. Files that are not needed are left out, and
large ones are packed by LZMA, which pip reads. Each part's size is printed.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

LARGE = 4 << 20          # bytes
LIST = pathlib.Path(__file__).with_name("wheels.txt")
PLATFORMS = [f"--platform=manylinux_2_{n}_x86_64" for n in (17, 24, 27, 28)] + ["--platform=manylinux2014_x86_64"]


def rows():
    """(part, package, pattern) of each line."""
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            part, package, *pattern = line.split()
            yield part, package, pattern[0] if pattern else "$^"


def download(package, folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version=3.12",
                    "--implementation=cp", *PLATFORMS, "-d", folder, package], check=True)
    return next(folder.glob("*.whl"))


def repack(wheel, target, pattern):
    """WHEEL without the files that PATTERN finds, nor their lines in its list, as TARGET."""
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            if re.search(pattern, entry.filename):
                continue
            data = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                lines = data.decode().splitlines(keepends=True)
                data = "".join(line for line in lines if not re.search(pattern, line.split(",")[0])).encode()
            new.writestr(entry, data, zipfile.ZIP_LZMA if len(data) > LARGE else zipfile.ZIP_DEFLATED)


def main():
    out = pathlib.Path(sys.argv[1])
    for part, package, pattern in rows():
        (out / part).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            wheel = download(package, pathlib.Path(folder))
            repack(wheel, out / part / wheel.name, pattern)
    for folder in sorted(p for p in out.iterdir() if p.name.isdigit()):
        print(f"{folder}: {sum(f.stat().st_size for f in folder.iterdir()) / 2**20:.1f} MiB")


if __name__ == "__main__":
    sys.exit(main())
