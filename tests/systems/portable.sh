#!/usr/bin/env bash
# tests/systems/portable.sh [SUITE...] - what `make portable` builds, on older and newer systems, against the server of
# this one: the libraries load, and programs run over tcp. The last system has glibc and nothing else, no shell either.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- bullseye trixie xenial bionic focal jammy noble
build=$top/cpu/build-portable
apps=$top/build/systems
first=$1

# Programs for old systems too: the driver API from C, and nvcc's runtime, if it is here.
make_programs() {
	local cc nvcc cuda
	cc=$("$top/tools/portable.sh" --cc)
	mkdir -p "$apps"
	"$cc" -std=gnu11 -O2 -I"$top" -o "$apps/driver_ptx" "$top/tests/test_apps/driver_ptx.c" -ldl
	nvcc=$(PATH=$PATH:/usr/local/cuda/bin:$top/build/cuda/bin command -v nvcc) || return 0
	cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
	"$nvcc" -O2 -Xcompiler -fno-exceptions,-fno-threadsafe-statics -Wno-deprecated-gpu-targets \
		-gencode 'arch=compute_75,code=[sm_75,compute_75]' -c -o "$apps/matmul.o" "$top/tests/test_apps/matmul.cu"
	"$cc" -o "$apps/matmul" "$apps/matmul.o" "$top/tests/systems/old_cxx.c" \
		"$(find -L "$cuda" -name libcudart_static.a | head -n 1)" -lm -lpthread -ldl -lrt
}

# The client, installed in $root, and the programs.
fill() {
	mkdir -p "$root/opt" "$root/proc" "$root/dev" "$root/tmp"
	CRICKET_BUILD=$build DESTDIR=$root "$top/tools/install.sh" client /opt/cricket >/dev/null
	cp "$apps/driver_ptx" "$root/opt/"
	[ ! -x "$apps/matmul" ] || cp "$apps/matmul" "$root/opt/"
}

# A root with the loader and the libraries of glibc, taken from SUITE's, and no program.
glibc_alone() {
	local from=$roots/$1 name
	root=$(mktemp -d "$roots/use.XXXXXX")
	used+=("$root")
	mkdir -p "$root/lib64" "$root/lib/x86_64-linux-gnu"
	for name in libc libm libdl libpthread librt; do
		cp -L "$from/lib/x86_64-linux-gnu/$name".so.[0-9] "$root/lib/x86_64-linux-gnu/"
	done
	# Its link in lib64 is absolute.
	cp "$(find "$from/lib/x86_64-linux-gnu" -type f -name 'ld-*.so*' | head -n 1)" "$root/lib64/ld-linux-x86-64.so.2"
}

# try NAME: the command's own test of a server, and programs with the client, in $root.
try() {
	local program
	for program in "/opt/cricket/bin/cricket check -s $server" \
		"/opt/cricket/bin/cricket run -s $server -- /opt/driver_ptx" \
		"${matmul:+/opt/cricket/bin/cricket run -s $server -- /opt/matmul}"; do
		[ -n "$program" ] || continue
		# shellcheck disable=SC2086
		bare $program >"$apps/out" 2>&1 || { cat "$apps/out" >&2; die "$1: failed: $program"; }
	done
	# The last one's own check of its result.
	grep -qE '(^|[ :])0 wrong' "$apps/out" || { cat "$apps/out" >&2; die "$1: wrong result"; }
	echo "portable.sh: $1: glibc $2: check, driver_ptx${matmul:+, matmul}: ok"
}

version() { grep -aoE 'release version [0-9.]+[0-9]' "$roots/$1/lib/x86_64-linux-gnu/libc.so.6" | sed 's/.* //'; }

make_root "$first"	# nothing is built where no root can be made
"$top/tools/portable.sh"
! "$top/tools/check-portable" 2.17 /usr/bin/objdump >/dev/null 2>&1 || die "tools/check-portable accepts objdump"
make -j2 --no-print-directory -C "$top/cpu" cricket-rpc-server
make_programs
matmul=$([ ! -x "$apps/matmul" ] || echo yes)
serve
for suite; do
	(make_root "$suite") || { [ $? -eq 77 ] && continue; }
	fresh "$suite"
	fill
	try "$suite" "$(version "$suite")"
done
glibc_alone "$first"
fill
try "glibc alone" "$(version "$first")"
