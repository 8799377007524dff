#!/usr/bin/env python3
"""tools/sbom.py - prints what the built programs contain, as a CycloneDX list (JSON) for scanners of vulnerabilities.

These are Cricket and the libraries that are linked statically, in the versions of this Debian system. Shared libraries
are dependencies of the packages. CRICKET_SYSROOT=FOLDER: what the client contains that was built with the libraries there
(tools/arm64.sh --root).
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
SYSROOT = os.environ.get("CRICKET_SYSROOT", "")


def static_libraries():
    """The packages that tools/licences.sh has the licences of."""
    libraries = subprocess.run([ROOT / "tools" / "licences.sh", "packages"], capture_output=True, text=True, check=True).stdout.split()
    if SYSROOT:
        return libraries    # the client has no C++
    compiler = subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0]
    return libraries + [f"libstdc++-{compiler.strip()}-dev"]


def component(package):
    """One library, under the name of its source package: advisories name those."""
    done = subprocess.run(["dpkg-query", f"--admindir={SYSROOT}/var/lib/dpkg", "-W", "-f", "${source:Package} ${source:Version} ${db:Status-Status}", package],
                          capture_output=True, text=True, check=False)
    fields = done.stdout.split()
    if done.returncode != 0 or fields[-1] != "installed":
        sys.exit(f"sbom: error: {package} is not installed, so its version is not known: tools/deps.sh --build")
    name, version = fields[:2]
    purl = f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe='')}"
    return {"type": "library", "name": name, "version": version, "purl": purl}


def main():
    makefile = (ROOT / "cpu" / "Makefile").read_text(encoding="utf-8")
    release = re.search(r"^RELEASE := (.*)$", makefile, re.M).group(1)
    product = {"type": "application", "name": "cricket", "version": release, "licenses": [{"license": {"id": "MIT"}}]}
    print(json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": product},
                      "components": [component(p) for p in static_libraries()]}, indent=1))


if __name__ == "__main__":
    main()
