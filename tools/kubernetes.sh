#!/usr/bin/env bash
# tools/kubernetes.sh - kubernetes-validate of PyPI, with Kubernetes' API schemas, into a virtual environment:
# tests/e2e/test_kubernetes.py checks the manifests with it.
#
#   build/kubernetes/bin/python3 -m kubernetes_validate --strict FILE
#
# Ends with status 3 where there is no network to get it from.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(kubernetes-validate==1.37.0)
home=build/kubernetes
tmp=$home.tmp

say() { printf 'kubernetes: %s\n' "$*"; }

mkdir -p build
exec 9>build/kubernetes.lock # tests that run beside one another may both ask
flock 9
if [ "$(cat $home/packages 2>/dev/null)" != "${packages[*]}" ]; then
	rm -rf $tmp $home
	python3 -m venv --without-pip $tmp
	pip=python3
	$pip -m pip --version >/dev/null 2>&1 || pip=/usr/bin/python3
	PIP_ROOT_USER_ACTION=ignore $pip -m pip install -q --only-binary :all: --no-warn-script-location \
		--disable-pip-version-check --retries 1 --timeout 20 \
		--target "$(echo $tmp/lib/python*/site-packages)" "${packages[@]}" ||
		{ rm -rf $tmp; say "cannot install ${packages[*]}: is there a network?"; exit 3; }
	printf '%s' "${packages[*]}" >$tmp/packages
	mv $tmp $home
fi
say "$home"
