#!/usr/bin/env bash
# tools/deb.sh - `make deb`: Debian packages those of debian/control, of this tree as committed and changed, into
# build/packages. Needs what `tools/deps.sh --build --packages` installs.
#
# They are built in a copy (build/deb), whose objects stay for the next time.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$PWD/build/deb
out=$PWD/build/packages

die() { printf 'deb: error: %s\n' "$*" >&2; exit 1; }

command -v dh >/dev/null || die "debhelper is missing: tools/deps.sh --build --packages"
git rev-parse --git-dir >/dev/null 2>&1 || die "this is not a git repository; use dpkg-buildpackage -b -us -uc"
release=$(sed -n 's/^RELEASE := //p' cpu/Makefile)
[ "$(dpkg-parsechangelog -S Version)" = "$release" ] || die "debian/changelog and cpu/Makefile have different versions"

mkdir -p "$copy/cpu" "$out"
find "$copy" -mindepth 1 -maxdepth 1 ! -name cpu -exec rm -rf {} +
find "$copy/cpu" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
git ls-files -z --cached --others --exclude-standard |
	xargs -0 sh -c 'for f; do [ ! -f "$f" ] || printf "%s\0" "$f"; done' sh |
	xargs -0 cp -p --parents -t "$copy"
rm -f "$out"/*.deb
fakeroot=$([ "$(id -u)" -eq 0 ] || echo fakeroot)
(cd "$copy" && CRICKET_DEBS=$out $fakeroot debian/rules binary)
ls -l "$out"/*.deb
