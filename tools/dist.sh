#!/usr/bin/env bash
# tools/dist.sh - `make dist`, into build/packages, after `make portable`: the source of the last commit; client and emulated
# GPU for every Linux with glibc 2.17 or later, as a tarball to unpack anywhere and as a wheel; SHA256SUMS of all that is there.
#
#   tools/dist.sh            source, tarball and wheel for x86-64
#   tools/dist.sh --arm64    `make dist-arm64`, after tools/portable.sh --arm64: tarball and wheel for aarch64
set -euo pipefail
cd "$(dirname "$0")/.."
release=$(sed -n 's/^RELEASE := //p' cpu/Makefile)
out=$PWD/build/packages
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
	local client=cricket-client-$release-$machine
	rm -rf "$stage"
	DESTDIR=$stage tools/install.sh emulator "/$client"
	tools/licences.sh >"$stage/$client/LICENCES"
	tools/sbom.py >"$stage/$client/sbom.cdx.json"
	(cd "$stage" && pack "$client") >"$out/$client.tar.gz"
}

wheel() {
	local py=python3
	$py -m pip --version >/dev/null 2>&1 || py=/usr/bin/python3
	$py -m pip --version >/dev/null 2>&1 || die "python3 has no pip (apt-get install python3-pip)"
	rm -f "$out"/cricket_gpu-*_"$machine.whl"
	$py -m pip wheel -q --no-deps --disable-pip-version-check -w "$out" ./python
}

# What tools/install.sh, python/setup.py and the lists of contents take.
export STRIP CRICKET_BUILD
case ${1:-} in
'') machine=x86_64 CRICKET_BUILD=cpu/build-portable STRIP=1 ;;
--arm64)
	machine=aarch64 CRICKET_BUILD=cpu/build-portable-arm64 STRIP=aarch64-linux-gnu-strip
	CRICKET_SYSROOT=$(tools/arm64.sh --root)
	export CRICKET_SYSROOT
	;;
*) sed -n '5,6s/^# \{0,3\}//p' "$0" >&2; exit 2 ;;
esac
git rev-parse --git-dir >/dev/null 2>&1 || die "this is not a git repository"
[ -x $CRICKET_BUILD/cricket ] || die "$CRICKET_BUILD has no client: make dist and make dist-arm64 build it"
mkdir -p "$out"
rm -f "$out/SHA256SUMS"
[ $machine != x86_64 ] || source_tarball
client_tarball
wheel
(cd "$out" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
