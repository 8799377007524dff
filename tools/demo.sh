#!/usr/bin/env bash
# tools/demo.sh - from a fresh machine to a CUDA program on a remote GPU: installs what is missing,
# builds, starts a server on a private unix socket, runs vector_add through it, stops the server.
set -euo pipefail
cd "$(dirname "$0")/.."
app=tests/test_apps/bin/vector_add
out=cpu/build-demo
tmp=$(mktemp -d)
server=

# What the compiler and the server said, less the names of what was compiled; the build's last lines have the reason.
report_failure() {
	echo "make demo: failed"
	{ grep -vE '^  (CC|CXX|GEN|LD|NVCC) ' "$tmp/build" | tail -n 40; cat "$tmp/log"; } 2>/dev/null | sed 's/^/    /' || true
}

finish() {
	status=$?
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" || true
	fi
	[ $status -eq 0 ] || report_failure >&2
	rm -rf "$tmp"
	exit $status
}
trap finish EXIT

title() { printf '\n== %s\n' "$*"; }

# build NAME FOLDER TARGET...: runs make, counts the files that it has compiled.
build() {
	local name=$1 folder=$2 total n=0 line end='\n' every=100
	shift 2
	total=$(make -n -C "$folder" "$@" 2>/dev/null | grep -cE 'echo "  (CC|NVCC) ') || true
	[ ! -t 1 ] || end='\r' every=1
	make -j"$(nproc)" -C "$folder" "$@" 2>&1 | tee -a "$tmp/build" | while IFS= read -r line; do
		case $line in
		"  CC "* | "  NVCC "*) n=$((n + 1)) ;;
		*) continue ;;
		esac
		[ $((n % every)) -ne 0 ] && [ $n -ne "$total" ] || printf "  %s: %d of %d files$end" "$name" $n "$total"
	done
	[ ! -t 1 ] || echo
}

title "What is needed"
tools/deps.sh --demo
title "Building"
began=$SECONDS
build "client, server, emulated GPU" cpu DEMO=1 build-demo/cricket-rpc-server build-demo/cricket-client.so \
	build-demo/libnvidia-ml.so.1 build-demo/libcuda-emu.so
build "a CUDA program" tests/test_apps bin/vector_add
echo "  built in $((SECONDS - began)) s"
ls -1 $out/cricket-rpc-server $out/cricket-client.so $out/libnvidia-ml.so.1 $out/libcuda-emu.so $app

title "Starting the server (a real GPU if there is one, else the emulated one)"
$out/cricket-rpc-server --driver auto --listen 127.0.0.1:0 --unix "$tmp/gpu" >"$tmp/log" 2>&1 &
server=$!
for _ in $(seq 100); do
	[ -S "$tmp/gpu" ] && break
	kill -0 $server 2>/dev/null || exit 1
	sleep 0.1
done
cat "$tmp/log"

title "Running $app, an unmodified CUDA program"
printf '$ LD_PRELOAD=%s/cricket-client.so REMOTE_GPU_ADDRESS=unix:%s CRICKET_STATS=1 %s\n' $out "$tmp/gpu" "$app"
LD_PRELOAD=$PWD/$out/cricket-client.so REMOTE_GPU_ADDRESS=unix:$tmp/gpu CRICKET_STATS=1 $app

if command -v nvidia-smi >/dev/null; then
	title "nvidia-smi sees the same GPU"
	LD_PRELOAD=$PWD/$out/cricket-client.so REMOTE_GPU_ADDRESS=unix:$tmp/gpu nvidia-smi ||
		echo "nvidia-smi ended with $?"
fi

title "The server's log"
cat "$tmp/log"
