#!/bin/bash
# bench/tls.sh - what TLS costs: bench-micro over tcp, plain and encrypted in turn, on one server. DRIVER=emu without a GPU:
# launches then count what client and server do, and copies are copies of host memory.
#
#   make cpu && make -C cpu bench && DRIVER=emu bench/tls.sh
#
# Then the time of a start: a program that makes one call. OUT: where the rows go (build/tls).
set -eu
cd "$(dirname "$0")/.."
OUT=${OUT:-build/tls}
stage=tls
. bench/lib.sh
rm -rf "$OUT"; mkdir -p "$OUT"
cpu/cricket-rpc-server --new-cert "$HERE/tls" 127.0.0.1 > "$OUT/pin"
server --tls offered --tls-cert "$HERE/tls/cert.pem" --tls-key "$HERE/tls/key.pem"
pin=$(sed -n 's/.*CRICKET_TLS_PIN=//p' "$OUT/pin")
address=tcp://$TCP

measure() { # NAME VARIABLE
	env "$2" REMOTE_GPU_ADDRESS="$address" LD_PRELOAD="$PWD/cpu/cricket-client.so" timeout "$TIME" \
		$BIN/bench-micro >> "$OUT/micro.$1" 2>> "$OUT/micro.$1.err"
	env "$2" REMOTE_GPU_ADDRESS="$address" LD_PRELOAD="$PWD/cpu/cricket-client.so" timeout "$TIME" \
		python3 -c 'import ctypes, time
d = ctypes.CDLL(None); b = time.monotonic(); assert d.cuInit(0) == 0
print("first_call_ms", round((time.monotonic() - b) * 1e3, 2))' >> "$OUT/micro.$1" 2>> "$OUT/micro.$1.err"
}
for _ in $(seq "$PASSES"); do
	measure plain CRICKET_TLS=off
	measure tls "CRICKET_TLS_PIN=$pin"
done
python3 bench/compare.py "$OUT/micro.plain" "$OUT/micro.tls" | table
