#!/usr/bin/env bash
# tests/systems/arm64.sh [UNIT-TEST...] - what `make arm64` builds, under qemu-user: the unit tests, layouts of what is on
# the wire, programs for aarch64 against this machine's server, programs of this machine against a server for aarch64,
# and both sides for aarch64. With names of unit tests, only those; with `-`, none.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
cd "$top"
arm=$top/cpu/build-arm64
apps=$top/build/arm64/apps
# NVIDIA's runtime for aarch64, to link with.
wheel=nvidia-cuda-runtime==13.0.96

[ "$(uname -m)" = x86_64 ] || skip "this machine is no x86-64"
tools/arm64.sh --tools || { [ $? -eq 77 ] && skip "the reason is above"; die "tools/arm64.sh failed"; }
on_arm=("$top/tools/arm64.sh" --run)
tools/arm64.sh || die "it does not build"
[ "$("${on_arm[@]}" sh -c "$arm/cricket --version")" ] || skip "no namespace with an interpreter for aarch64 is permitted here"
make -j2 --no-print-directory -C cpu cricket-rpc-server cricket-client.so lib/libcuda.so.1 cricket

# The driver API from C; and nvcc's runtime, where it is and the one for aarch64 can be had.
make_programs() {
	local nvcc lib=$apps/runtime/nvidia/cu13/lib
	mkdir -p "$apps"
	build/arm64/cc -std=gnu11 -O2 -I"$top" -o "$apps/driver_ptx" tests/test_apps/driver_ptx.c -ldl
	nvcc=$(PATH=$PATH:/usr/local/cuda/bin:$top/build/cuda/bin command -v nvcc) || { echo "arm64.sh: no nvcc: no vector_add"; return; }
	[ -d "$lib" ] || python3 -m pip install -q --no-deps --only-binary :all: --platform manylinux_2_17_aarch64 \
		--disable-pip-version-check --retries 1 --timeout 20 --target "$apps/runtime" $wheel 2>/dev/null ||
		{ echo "arm64.sh: no $wheel for aarch64: no vector_add"; return; }
	for program in vector_add matmul; do
		"$nvcc" -ccbin "$top/build/arm64/c++" -I"$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include" -O2 -Wno-deprecated-gpu-targets -gencode 'arch=compute_75,code=[sm_75,compute_75]' \
			-c -o "$apps/$program.o" tests/test_apps/$program.cu
		build/arm64/c++ -o "$apps/$program" "$apps/$program.o" "$lib/libcudart_static.a" -ldl -lpthread -lrt
	done
}

# serve_on WHERE COMMAND...: a server on the emulated GPU until the script ends or the next one; $server and $folder.
serve_on() {
	local what=$1
	shift
	[ -z "$serving" ] || { kill "$serving"; wait "$serving" || true; } 2>/dev/null
	mkdir -p "$roots"
	folder=$(mktemp -d "$roots/serve.XXXXXX")
	used+=("$folder")
	CRICKET_CACHE_DIR=$folder/cache "$@" --driver emu --listen 127.0.0.1:0 --unix "$folder/socket" >"$folder/log" 2>&1 &
	serving=$!
	until grep -q "listening on unix:" "$folder/log"; do
		kill -0 "$serving" 2>/dev/null || die "the server for $what has not started: $(cat "$folder/log")"
		sleep 0.1
	done
	server=$(sed -n 's/.*listening on \(127\..*\)/\1/p' "$folder/log")
}

# try WHAT ADDRESS PROGRAM...: the program's own check of its result is in what it prints.
try() {
	local what=$1 address=$2
	shift 2
	timeout 120 "$@" >"$folder/out" 2>&1 || { cat "$folder/out" "$folder/log" >&2; die "$what over $address: failed: $*"; }
	case $* in
	*vector_add | *matmul) grep -qE '(^|[ :])0 wrong' "$folder/out" || { cat "$folder/out" >&2; die "$what: wrong result"; } ;;
	esac
	[ "${!#}" != "$address" ] || set -- "cricket check"
	echo "arm64.sh: $what, ${address%%:*}: $(basename "${!#}"): ok"
}

# clients WHAT ADDRESS FOLDER RUN COMMAND...: the command's own test, and each program in FOLDER.
clients() {
	local what=$1 address=$2 programs=$3 program
	shift 3
	try "$what" "$address" "$@" check -s "$address"
	for program in driver_ptx vector_add matmul; do
		[ ! -x "$programs/$program" ] || try "$what" "$address" "$@" run -s "$address" -- "$programs/$program"
	done
}

case ${1:-} in
-) ;;
*) make -j2 --no-print-directory -C tests ARM64=1 check-unit CHOSEN="$*" RUN_SECONDS=300 ;;
esac
diff -r cpu/build/gen cpu/build-arm64/gen || die "the generated code differs"
tests/systems/layouts.py cpu/build "${CC:-cc}" cpu/build-arm64 build/arm64/cc
make_programs
serve_on x86-64 cpu/cricket-rpc-server
clients 'aarch64 to x86-64' "$server" "$apps" "${on_arm[@]}" "$arm/cricket"
! "${on_arm[@]}" "$arm/cricket" login "unix:$folder/socket" --install="$folder/prefix" </dev/null >"$folder/out" 2>&1 || die "it installs a client for another processor"
grep -q 'for x86_64 only' "$folder/out" || die "login --install says no reason: $(cat "$folder/out")"
# There are no filters of system calls in qemu-user.
serve_on aarch64 "${on_arm[@]}" "$arm/cricket-rpc-server" --sandbox off
clients 'x86-64 to aarch64' "$server" tests/test_apps/bin cpu/cricket
clients 'aarch64 to aarch64' "unix:$folder/socket" "$apps" "${on_arm[@]}" "$arm/cricket"
echo "arm64.sh: passed"
