#!/usr/bin/env bash
# tools/portable.sh - `make portable`: what programs load or call, built for every Linux with glibc 2.17 or later
# (RHEL 7, Debian 8, Ubuntu 14.04), into cpu/build-portable.
#
#   tools/portable.sh            cricket-client.so with its names, libnccl.so.2, libcricket-ptx.so, libcuda-emu.so, cricket, libm3.so,
#                                libwcm.so, gpu_launcher, cricket-rpc-server (without rpcbind)
#   tools/portable.sh --arm64    the same for aarch64, into cpu/build-portable-arm64; needs tools/deps.sh --arm64
#   tools/portable.sh --cc       only the compiler; prints the path of a `cc` for such systems
#
# The compiler is zig's clang, which has headers and stubs of every glibc; it comes from its PyPI wheel into build/zig
# (100 MB). The libraries are static archives, this system's or those of tools/arm64.sh. tools/check-portable checks the result.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=ziglang==0.17.1
glibc=2.17
home=build/zig
products=(cricket-client.so libnvidia-ml.so.1 libcuda.so libnccl.so.2 libcricket-ptx.so libcuda-emu.so libm3.so libwcm.so cricket gpu_launcher
	cricket-rpc-server)

say() { printf 'portable: %s\n' "$*" >&2; }
die() { printf 'portable: error: %s\n' "$*" >&2; exit 1; }

# Puts the compiler into $home, all of it or nothing.
bring() {
	local py=python3 tmp=$home/tmp
	[ ! -x "$home/lib/ziglang/zig" ] || return 0
	$py -m pip --version >/dev/null 2>&1 || py=/usr/bin/python3
	$py -m pip --version >/dev/null 2>&1 || die "python3 has no pip (apt-get install python3-pip)"
	say "downloading $wheel"
	rm -rf "$tmp" "$home/lib"
	mkdir -p "$tmp"
	PIP_ROOT_USER_ACTION=ignore $py -m pip install -q --no-deps --only-binary :all: --no-warn-script-location \
		--disable-pip-version-check --target "$tmp" "$wheel" || die "no $wheel: is there a network?"
	mv "$tmp" "$home/lib"
}

# The compiler as one word, for make: wrap NAME MACHINE ROOT; NAME is cc... or c++... Headers of libraries, below ROOT, come after its own, which are
# those of that glibc.
wrap() {
	local here=$PWD/$home name=$1 triplet=$2-linux-gnu
	cat >"$home/$name.new" <<-END
		#!/bin/sh
		export ZIG_GLOBAL_CACHE_DIR="\${ZIG_GLOBAL_CACHE_DIR:-$here/cache}"
		exec "$here/lib/ziglang/zig" ${name%-*} -target $triplet.$glibc -idirafter $3/usr/include -idirafter $3/usr/include/$triplet "\$@"
	END
	chmod +x "$home/$name.new"
	mv "$home/$name.new" "$home/$name"
}

# build FOLDER VARIABLE...
build() {
	local folder=cpu/$1
	shift
	make -j"${JOBS:-$(nproc)}" --no-print-directory -C cpu PORTABLE=1 "$@" portable
	tools/check-portable "$glibc" "${products[@]/#/$folder/}"
}

case ${1:-} in
'' | --cc | --arm64) ;;
*) sed -n '5,8s/^# \{0,3\}//p' "$0" >&2; exit 2 ;;
esac
mkdir -p "$home"
bring
case ${1:-} in
--cc)
	wrap cc x86_64 ''
	echo "$PWD/$home/cc"
	;;
--arm64)
	root=$(tools/arm64.sh --root)
	wrap cc-arm64 aarch64 "$root"
	wrap c++-arm64 aarch64 "$root"
	build build-portable-arm64 ARM64=1 CC="$PWD/$home/cc-arm64" CXX="$PWD/$home/c++-arm64"
	;;
*)
	wrap cc x86_64 ''
	wrap c++ x86_64 ''
	build build-portable CC="$PWD/$home/cc" CXX="$PWD/$home/c++"
	;;
esac
