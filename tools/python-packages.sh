#!/usr/bin/env bash
# tools/python-packages.sh - makes a virtual environment with Numba and CuPy, which the end-to-end tests run
# programs with, and with what of CUDA they need to compile kernels: from PyPI into build/python/VERSION.
#
#   tools/python-packages.sh [PYTHON]     of that Python (python3); nothing where it is there
#   build/python/3.11/bin/python3 tests/python_apps/numba_kernels.py
#
# Ends with status 3 where there is no network to get them from, or no package for this Python.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(numba==0.68.1 llvmlite==0.50.0 numba-cuda==0.30.4 numpy==2.4.6 packaging==26.3
	cuda-bindings==13.5.0 cuda-core==1.2.2 cuda-pathfinder==1.9.0 cupy-cuda13x==14.2.0
	nvidia-cuda-nvrtc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-nvjitlink==13.0.88
	# what Numba's own tests import
	pytest==9.2.0 pluggy==1.7.0 iniconfig==2.3.1 pygments==2.21.0 filecheck==1.0.6)

say() { printf 'python-packages: %s\n' "$*"; }
die() { say "error: $*"; exit 1; }

# Fills $tmp, which then becomes $home.
bring() {
	local pip=python3 site=$tmp/lib/python$version/site-packages
	$pip -m pip --version >/dev/null 2>&1 || pip=/usr/bin/python3
	$pip -m pip --version >/dev/null 2>&1 || die "python3 has no pip (apt-get install python3-pip)"
	say "downloading ${packages[*]}"
	"$python" -m venv --without-pip "$tmp"
	PIP_ROOT_USER_ACTION=ignore $pip -m pip install -q --no-deps --only-binary :all: --no-compile \
		--python-version "$version" --implementation cp --no-warn-script-location \
		--disable-pip-version-check --retries 1 --timeout 20 --target "$site" "${packages[@]}" ||
		{ rm -rf "$tmp"; say "some are missing: is there a network, and a package for Python $version?"; exit 3; }
	# In memory before nvJitLink itself, this one, which has no function, makes numba-cuda let the driver link.
	mkdir "$tmp/driver-links"
	gcc -shared -nostdlib -Wl,-soname,libnvJitLink.so.13 -o "$tmp/driver-links/libnvJitLink.so.13" -x c /dev/null
	printf '%s\n' "$list" >"$tmp/packages"
}

python=${1:-python3}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
home=build/python/$version
tmp=$home.tmp
list=$(printf '%s\n' "${packages[@]}")
mkdir -p build/python
exec 9>build/python/lock # tests that run beside one another may both ask
flock 9
if [ "$(cat "$home/packages" 2>/dev/null)" != "$list" ]; then
	rm -rf "$tmp" "$home"
	bring
	mv "$tmp" "$home"
fi
say "$home"
