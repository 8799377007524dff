#!/usr/bin/env bash
# tools/runtimes.sh - brings other releases of NVIDIA's CUDA runtime library, which the end-to-end tests
# run a program with, from its PyPI wheels into build/runtimes/VERSION/{lib,include}.
#
#   tools/runtimes.sh        all; nothing where they are there
#
# Ends with status 3 where there is no network to get them from.
set -euo pipefail
cd "$(dirname "$0")/.."

wheels=(nvidia-cuda-runtime-cu11==11.8.89 nvidia-cuda-runtime-cu12==12.0.146 nvidia-cuda-runtime-cu12==12.1.105
	nvidia-cuda-runtime-cu12==12.4.127 nvidia-cuda-runtime-cu12==12.8.90 nvidia-cuda-runtime-cu12==12.9.79
	nvidia-cuda-runtime==13.2.75 nvidia-cuda-runtime==13.5.37)
home=build/runtimes

say() { printf 'runtimes: %s\n' "$*"; }

# Puts one wheel's files into $home/VERSION, all of them or nothing.
bring() {
	local wheel=$1 version=${1##*==} tmp=$home/tmp
	say "downloading $wheel"
	rm -rf "$tmp"
	mkdir -p "$tmp"
	PIP_ROOT_USER_ACTION=ignore $py -m pip install -q --no-deps --only-binary :all: \
		--no-warn-script-location --disable-pip-version-check --retries 1 --timeout 20 --target "$tmp" "$wheel" ||
		{ rm -rf "$tmp"; say "no $wheel: is there a network?"; exit 3; }
	mv "$tmp"/nvidia/cu* "$home/$version" # cuda_runtime; from CUDA 13 on, cu13
	rm -rf "$tmp"
}

mkdir -p $home
exec 9>$home/lock # tests that run beside one another may both ask
flock 9
missing=()
for wheel in "${wheels[@]}"; do
	[ -d "$home/${wheel##*==}/lib" ] || missing+=("$wheel")
done
if [ ${#missing[@]} -gt 0 ]; then
	py=python3
	$py -m pip --version >/dev/null 2>&1 || py=/usr/bin/python3
	$py -m pip --version >/dev/null 2>&1 ||
		{ say "python3 has no pip (apt-get install python3-pip)"; exit 1; }
	for wheel in "${missing[@]}"; do bring "$wheel"; done
fi
say "$(cd $home && echo *)"
