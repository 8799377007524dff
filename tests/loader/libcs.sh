#!/usr/bin/env bash
# tests/loader/libcs.sh - the C libraries of other releases, and the tests of the loader built for each.
#
#   tests/loader/libcs.sh SUITE...		bullseye trixie sid; needs apt-get, its archive, and make loader
#
# Nothing is installed: packages are unpacked into build/libcs/SUITE/root, and what is built with them, a
# copy of the loader beside it, goes to build/libcs/SUITE/bin. tests/e2e/test_loader_libcs.py runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- bullseye trixie sid
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sort -u | head -n 1)
keys=$(find /usr/share/keyrings -name '*archive-keyring.gpg' | head -n 1)

for suite; do
	out=$PWD/build/libcs/$suite
	state=$out/apt
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$out/root" "$out/bin/stubs"
	touch "$state/status"
	echo "deb [signed-by=$keys] $archive $suite main" >"$state/sources.list"
	apt() {
		apt-get -qq -o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null \
			-o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status" \
			-o Dir::Cache="$state/cache" -o APT::Sandbox::User=root "$@"
	}
	apt update
	(cd "$state" && rm -f ./*.deb && apt download libc6 libc6-dev linux-libc-dev libgcc-s1)
	for package in "$state"/*.deb; do dpkg -x "$package" "$out/root"; done
	[ -e "$out/root/lib" ] || ln -s usr/lib "$out/root/lib"
	linker=$out/root/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
	mkdir -p "$out/root/lib64"
	ln -sf "$linker" "$out/root/lib64/"
	dev=$out/root/usr/lib/x86_64-linux-gnu
	libs=$(dirname "$linker")
	cc="gcc --sysroot=$out/root -B$dev -L$dev -L$libs -Wl,--dynamic-linker=$linker \
		-Wl,--disable-new-dtags,-rpath,$libs -Wl,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0"
	cp loader/kernel-loader "$out/bin/"
	$cc -std=gnu11 -O2 -I. -fPIC -fvisibility=hidden -shared -Wl,-soname,libupper.so -o "$out/bin/libupper.so" \
		loader/stubs/upper.c
	make -s -C tests/loader OUT="$out/bin" CC="$cc" PROGRAMS="checks checks_fixed empty" MPICC= NVCC=
	"$out/bin/kernel-loader" --check "$linker" "$libs/libc.so.6"
done
