#!/usr/bin/env bash
# tools/schemas.sh - from PyPI into a virtual environment: kubernetes-validate, with Kubernetes' API schemas; podman-compose;
# and of docker-compose its schema of compose files. tests/e2e/test_kubernetes.py and test_compose.py use them.
#
#   build/schemas/bin/python3 -m kubernetes_validate --strict FILE
#   build/schemas/bin/python3 -m podman_compose -f FILE config
#
# Ends with status 3 where there is no network to get it from.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(kubernetes-validate==1.37.0 podman-compose==1.6.0)
# What this one needs is of 2021, and only the program itself needs it.
alone=(docker-compose==1.29.2)
home=build/schemas
tmp=$home.tmp

say() { printf 'schemas: %s\n' "$*"; }

bring() {
	local site
	site=$(echo $tmp/lib/python*/site-packages)
	PIP_ROOT_USER_ACTION=ignore $pip -m pip install -q --only-binary :all: --no-warn-script-location \
		--disable-pip-version-check --retries 1 --timeout 20 \
		--target "$site" "$@" ||
		{ rm -rf $tmp; say "cannot install $*: is there a network?"; exit 3; }
	rm -rf "$site/bin"	# of which the next call complains
}

mkdir -p build
exec 9>build/schemas.lock # tests that run beside one another may both ask
flock 9
if [ "$(cat $home/packages 2>/dev/null)" != "${packages[*]} ${alone[*]}" ]; then
	rm -rf $tmp $home
	python3 -m venv --without-pip $tmp
	pip=python3
	$pip -m pip --version >/dev/null 2>&1 || pip=/usr/bin/python3
	bring "${packages[@]}"
	bring --no-deps "${alone[@]}"
	printf '%s' "${packages[*]} ${alone[*]}" >$tmp/packages
	mv $tmp $home
fi
say "$home"
