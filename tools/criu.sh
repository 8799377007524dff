#!/usr/bin/env bash
# tools/criu.sh - brings CRIU 4.1, which the end-to-end tests dump and restore workers with, from Debian 13 into build/criu:
# the package and the libraries it needs, the C library among them, so that it runs on an older release too.
#
#   tools/criu.sh            prints the path of the program to run: criu where the machine has >= 4.1, else build/criu/criu
#
# Ends with status 3 where it cannot be had: no network, no apt-get, another architecture. CRIU 3.17, of Debian 12, cannot dump under current kernels.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/debian.sh

suite=trixie
home=$PWD/build/criu
tmp=$home.tmp

say() { printf 'criu: %s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }
missing() { say "$*"; exit 3; }

# Whether the program $1 is there, and 4.1 or newer.
new_enough() {
	local version
	version=$("$1" --version 2>/dev/null | sed -n 's/^Version: //p') || return 1
	[ -n "$version" ] && [ "$(printf '%s\n' 4.1 "$version" | sort -V | head -1)" = 4.1 ]
}

# Fills $tmp, which then becomes $home.
bring() {
	local deb
	[ -r $keys ] || missing "no $keys (apt-get install debian-archive-keyring)"
	mkdir -p "$tmp"/root
	say "downloading criu and its libraries of Debian's $suite"
	{ apt "$tmp" $suite amd64 update && apt "$tmp" $suite amd64 -y --no-install-recommends --download-only install criu; } >"$tmp/apt.log" 2>&1 ||
		{ tail -5 "$tmp/apt.log" >&2; rm -rf "$tmp"; missing "no package: is there a network?"; }
	for deb in "$tmp"/cache/archives/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
	cat >"$tmp/criu" <<-'END'
	#!/bin/sh
	# CRIU with the loader and the libraries that it was built for.
	root=$(dirname "$(readlink -f "$0")")/root
	lib=$root/usr/lib/x86_64-linux-gnu
	exec "$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$root/usr/sbin/criu" "$@"
	END
	chmod +x "$tmp/criu"
	rm -rf "$tmp"/state "$tmp"/cache "$tmp"/status "$tmp"/sources.list "$tmp"/apt.log "$tmp"/lock* "$tmp"/root/usr/share
}

if new_enough criu; then
	command -v criu
	exit
fi
[ "$(uname -m)" = x86_64 ] || missing "no criu >= 4.1 here, and this script brings that of x86-64 only"
mkdir -p build
exec 9>build/criu.lock # tests that run beside one another may both ask
flock 9
if ! new_enough "$home/criu"; then
	command -v apt-get >/dev/null || missing "no criu >= 4.1 here, and no apt-get to bring Debian's by"
	rm -rf "$tmp" "$home"
	bring
	mv "$tmp" "$home"
	new_enough "$home/criu" || die "$home/criu does not run"
fi
echo "$home/criu"
