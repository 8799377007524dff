#!/usr/bin/env bash
# tools/arm64.sh - `make arm64`: client, server, emulated driver, commands and libraries for aarch64, by Debian's cross
# compiler, into cpu/build-arm64. kernel-loader and the plugin of Slurm stay with x86-64.
#
#   tools/arm64.sh                  all of it
#   tools/arm64.sh --tools          only what it is built and run with
#   tools/arm64.sh --root           only the compilers and the libraries; prints the folder of the latter
#   tools/arm64.sh --run PROGRAM... runs a program for aarch64, or one of this machine that starts such programs, with the
#                                   C library in QEMU_LD_PREFIX, if that is set
#
# Into build/arm64 come Debian's arm64 packages of the libraries, unpacked (root), and qemu-user (qemu): this machine's
# own packages stay as they are. Programs run by qemu-user, which a namespace of theirs has as binfmt_misc's interpreter;
# where such a namespace is not permitted, PROGRAM cannot start others. Ends with status 77 where compiler or packages
# cannot be had, and says why.
set -euo pipefail
source "$(dirname "$0")/debian.sh"
home=$(cd "$(dirname "$0")/.." && pwd)/build/arm64
root=$home/root
qemu=$home/qemu/qemu-aarch64
triplet=aarch64-linux-gnu
suite=bookworm
# Older ones need memory for each page of address space that is reserved.
qemu_suite=trixie
# As in tools/deps.sh, for the other processor; libstdc++6 for the C++ headers' tests.
packages=(libc6-dev libstdc++6 libtirpc-dev liblz4-dev libzstd-dev libb2-dev libjansson-dev libconfig-dev libseccomp-dev
	libssl-dev libfast-float-dev libncurses-dev libmicrohttpd-dev libcmocka-dev libelf-dev)

say() { printf 'arm64: %s\n' "$*" >&2; }
missing() { say "$*"; exit 77; }

# Programs of this processor, for binfmt_misc: the head of an ELF file, and which of its bits count.
magic='\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

# run PROGRAM...: in a namespace in which the kernel starts qemu for such programs; the machine's own stays as it is.
run() {
	local place=$home/binfmt
	export QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-$root}
	mkdir -p "$place"
	# shellcheck disable=SC2016
	unshare --user --map-root-user --mount sh -c '
		mount -t binfmt_misc none "$1" && printf %s "$2" >"$1/register"' sh "$place" ":cricket:M::$magic:$mask:$qemu:PF" \
		2>/dev/null || exec "$qemu" "$@"
	# shellcheck disable=SC2016
	exec unshare --user --map-root-user --mount sh -c '
		mount -t binfmt_misc none "$1" && printf %s "$2" >"$1/register" && shift 2 && exec "$@"' \
		sh "$place" ":cricket:M::$magic:$mask:$qemu:PF" "$@"
}

# can_bring: whether packages can be had; else the end.
can_bring() {
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || missing "no apt-get to bring Debian's packages by"
	[ -r $keys ] || missing "no $keys (apt-get install debian-archive-keyring)"
	rm -rf "$home/tmp"
	mkdir -p "$home/tmp"
}

gone() {
	tail -n 5 "$home/log" >&2
	missing "no packages: is there a network?"
}

# Links from / within the root point into it.
relative_links() {
	local link target
	find "$1" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
		target=$(readlink "$link")
		ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$1$target")" "$link"
	done
}

# What dpkg knows of the packages in this root, for tools/licences.sh and tools/sbom.py: dpkg-query --admindir.
write_status() {
	local folder=$1/var/lib/dpkg name
	mkdir -p "$folder/info" "$folder/updates"
	for name in "$home"/tmp/cache/archives/*.deb; do
		dpkg-deb -f "$name" | sed '/^Package:/a Status: install ok installed'
		echo
	done >"$folder/status"
}

# Fills $root, all of it or nothing.
bring_root() {
	local new=$home/root.new name
	[ ! -f "$root/var/lib/dpkg/status" ] || return 0
	can_bring
	say "downloading Debian's arm64 packages: ${packages[*]}"
	{ apt "$home/tmp" $suite arm64 update && apt "$home/tmp" $suite arm64 -y --no-install-recommends --download-only install "${packages[@]}"; } \
		>"$home/log" 2>&1 || gone
	rm -rf "$new" "$root"
	mkdir -p "$new"/usr/{bin,sbin,lib}
	for name in bin sbin lib; do ln -s usr/$name "$new/$name"; done
	for name in "$home"/tmp/cache/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$name" | tar -xf - -C "$new" --keep-directory-symlink --exclude='./usr/share/[a-ce-oq-z]*'
	done
	find "$new/usr/share/doc" -type f ! -name copyright -delete
	write_status "$new"
	relative_links "$new"
	mv "$new" "$root"
	rm -rf "$home/tmp"
}

# Whether the program $1 is there, and 8.2 or newer.
new_enough() {
	local version
	version=$("$1" --version 2>/dev/null | sed -n 's/^qemu-aarch64 version \([0-9.]*\).*/\1/p') || return 1
	[ -n "$version" ] && [ "$(printf '%s\n' 8.2 "$version" | sort -V | head -1)" = 8.2 ]
}

bring_qemu() {
	local own
	[ ! -x "$qemu" ] || return 0
	mkdir -p "$home/qemu"
	own=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || true
	if [ -n "$own" ] && new_enough "$own"; then
		ln -s "$own" "$qemu"
		return
	fi
	can_bring
	say "downloading qemu-user of Debian's $qemu_suite"
	{ apt "$home/tmp" $qemu_suite "$(dpkg --print-architecture)" update && apt "$home/tmp" $qemu_suite "$(dpkg --print-architecture)" download qemu-user; } \
		>"$home/log" 2>&1 || gone
	dpkg-deb --fsys-tarfile "$home"/tmp/cache/qemu-user_*.deb | tar -xf - -C "$home/tmp" ./usr/bin/qemu-aarch64
	mv "$home/tmp/usr/bin/qemu-aarch64" "$qemu"
	rm -rf "$home/tmp"
	new_enough "$qemu" || missing "$qemu does not run"
}

# The compilers as one word each, for make.
wrap() {
	local name
	for name in cc:gcc c++:g++; do
		command -v $triplet-"${name#*:}" >/dev/null || missing "no $triplet-${name#*:} (tools/deps.sh --arm64)"
		printf '#!/bin/sh\nexec %s-%s --sysroot=%s "$@"\n' $triplet "${name#*:}" "$root" >"$home/new"
		chmod +x "$home/new"
		mv "$home/new" "$home/${name%:*}"
	done
}

case ${1:-} in
--run)
	shift
	run "$@"
	;;
'' | --tools | --root) ;;
*) sed -n '5,9s/^# \{0,3\}//p' "$0" >&2; exit 2 ;;
esac
mkdir -p "$home"
wrap
bring_root
if [ "${1:-}" = --root ]; then
	echo "$root"
	exit 0
fi
bring_qemu
[ "${1:-}" != --tools ] || exit 0
make -j"${JOBS:-$(nproc)}" --no-print-directory -C "$home/../../cpu" ARM64=1 CC="$home/cc" arm64
