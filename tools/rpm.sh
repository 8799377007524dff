#!/usr/bin/env bash
# tools/rpm.sh - `make rpm`: cricket-client, -server, -libs and -devel, into build/packages. Needs Debian's package rpm
# (tools/deps.sh --packages), and what `make portable` and `make cpu` build: client and libraries run with glibc 2.17 or later, the
# server with that of this system or later.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$(sed -n 's/^RELEASE := //p' cpu/Makefile)
out=$PWD/build/packages
top=$PWD/build/rpm

die() { printf 'rpm: error: %s\n' "$*" >&2; exit 1; }

command -v rpmbuild >/dev/null || die "rpmbuild is missing: tools/deps.sh --build --packages"
[ -x cpu/build-portable/cricket ] || die "run 'make portable' first"
[ -x cpu/cricket-rpc-server ] || die "run 'make cpu' first"
# A server that was linked with build/libtirpc looks for it there.
! objdump -p cpu/cricket-rpc-server | grep -q RUNPATH || die "the server is linked with build/libtirpc: move it and run make cpu"
mkdir -p "$out"
rm -rf "$top" "$out"/cricket-*.rpm
rpmbuild --quiet -bb --target x86_64-linux --define "_topdir $top" --define "_rpmdir $out" \
	--define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' --define "ck_release $release" \
	--define "ck_tree $PWD" tools/cricket.spec
ls -l "$out"/*.rpm
