#!/usr/bin/env bash
# tools/dist.sh - `make dist`, into build/packages, after `make portable`: the source of the last commit; the client for
# every Linux with glibc 2.17 or later, as a tarball to unpack anywhere and as a wheel; SHA256SUMS of all that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$(sed -n 's/^RELEASE := //p' cpu/Makefile)
out=$PWD/build/packages
client=cricket-client-$release-x86_64
stage=$PWD/build/dist

die() { printf 'dist: error: %s\n' "$*" >&2; exit 1; }

# The same commit gives the same bytes.
pack() {
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -cf - "$@" | gzip -9n
}

source_tarball() {
	git diff --quiet HEAD || printf 'dist: warning: the source is that of the last commit, without later changes\n' >&2
	git archive --prefix="cricket-$release/" HEAD | gzip -9n >"$out/cricket-$release.tar.gz"
}

client_tarball() {
	rm -rf "$stage"
	STRIP=1 CRICKET_BUILD=cpu/build-portable DESTDIR=$stage tools/install.sh client "/$client"
	tools/licences.sh >"$stage/$client/LICENCES"
	tools/sbom.py >"$stage/$client/sbom.cdx.json"
	(cd "$stage" && pack "$client") >"$out/$client.tar.gz"
}

wheel() {
	local py=python3
	$py -m pip --version >/dev/null 2>&1 || py=/usr/bin/python3
	$py -m pip --version >/dev/null 2>&1 || die "python3 has no pip (apt-get install python3-pip)"
	rm -f "$out"/cricket_gpu-*.whl
	$py -m pip wheel -q --no-deps --disable-pip-version-check -w "$out" ./python
}

git rev-parse --git-dir >/dev/null 2>&1 || die "this is no git repository"
[ -x cpu/build-portable/cricket ] || die "run 'make portable' first"
mkdir -p "$out"
rm -f "$out/SHA256SUMS"
source_tarball
client_tarball
wheel
(cd "$out" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
