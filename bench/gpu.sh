#!/bin/bash
# bench/gpu.sh [apps] [micro] [torch] [e2e] [battery] - checks and measurements on a machine with a real GPU.
#
# Native and remote run one after the other in one go; the remote client has no access to the GPU
# (bench/no-gpu.sh). Needs what `make` has built (LIBS: a folder with libtirpc.so.3 where the
# machine has none) and root. Logs go to $OUT or build/gpu; a table comes last.
set -u
cd "$(dirname "$0")/.."
OUT=${OUT:-build/gpu}
LIBS=${LIBS:-build/lib}
PORT=${PORT:-9933}
TIME=${TIME:-240}
mkdir -p "$OUT"
STAGES=${*:-apps micro torch}
SOCKET=$(mktemp -d)/cricket.sock
APPS=tests/test_apps/bin

server() {
	CRICKET_CACHE_DIR=$(dirname "$SOCKET")/cache LD_LIBRARY_PATH=$LIBS:${LD_LIBRARY_PATH:-} \
		setsid cpu/cricket-rpc-server --driver cuda --listen 127.0.0.1:$PORT --unix "$SOCKET" \
		> "$OUT/server.log" 2>&1 &
	SERVER=$!
	for _ in $(seq 100); do [ -S "$SOCKET" ] && return; sleep 0.1; done
	echo "the server did not come up"; cat "$OUT/server.log"; exit 1
}
remote() { # ADDRESS COMMAND...
	local address=$1; shift
	REMOTE_GPU_ADDRESS=$address LD_PRELOAD=$PWD/cpu/cricket-client.so \
		bench/no-gpu.sh timeout "$TIME" "$@"
}

# Every test program: the same output and status directly and over both transports.
apps() {
	local good=0 bad=0
	for app in $APPS/*; do
		[ -f "$app" ] && [ -x "$app" ] || continue
		local name; name=$(basename "$app")
		case $name in	# never end; crash natively; want arguments
		spin* | endless* | bad_handles* | any_runtime* | environment*) continue ;;
		esac
		timeout 60 "$app" > "$OUT/native.out" 2> "$OUT/native.err"; local want=$?
		for address in 127.0.0.1:$PORT unix:$SOCKET; do
			TIME=60 remote "$address" "$app" > "$OUT/remote.out" 2> "$OUT/remote.err"
			local got=$?
			if [ $got = $want ] && cmp -s "$OUT/native.out" "$OUT/remote.out"; then
				good=$((good + 1))
			else
				bad=$((bad + 1))
				echo "FAIL $name over $address: status $got, native $want" | tee -a "$OUT/table"
				diff "$OUT/native.out" "$OUT/remote.out" | head -5
				head -3 "$OUT/remote.err"
			fi
		done
	done
	echo "apps: $good the same as native, $bad not" | tee -a "$OUT/table"
}

torch() {
	python3 tests/test_apps/pytorch_minimal.py > "$OUT/minimal.native" 2>&1
	CRICKET_STATS=1 remote 127.0.0.1:$PORT python3 tests/test_apps/pytorch_minimal.py \
		> "$OUT/minimal.remote" 2> "$OUT/minimal.err"
	cmp "$OUT/minimal.native" "$OUT/minimal.remote" && echo "pytorch_minimal: the same losses" ||
		{ tail -5 "$OUT/minimal.remote"; tail -5 "$OUT/minimal.err"; }
	timeout "$TIME" python3 bench/torch_models.py ${ROWS:-} > "$OUT/torch.native" 2> "$OUT/torch.native.err"
	CRICKET_STATS=1 remote 127.0.0.1:$PORT python3 bench/torch_models.py ${ROWS:-} \
		> "$OUT/torch.remote" 2> "$OUT/torch.err"
	python3 bench/compare.py "$OUT/torch.native" "$OUT/torch.remote" | tee -a "$OUT/table"
	grep '^cricket:' "$OUT/torch.err" | sort -k2 -n -r | head -12
	grep -v '^cricket:' "$OUT/torch.err" | tail -5
}

# The end-to-end tests, failures included, with the real driver under the server.
e2e() {
	CRICKET_TEST_DRIVER=cuda LD_LIBRARY_PATH=$LIBS:${LD_LIBRARY_PATH:-} timeout 400 \
		python3 -m pytest -q -p no:cacheprovider tests/e2e -k "not docs" > "$OUT/e2e" 2>&1
	tail -15 "$OUT/e2e"
	echo "e2e: $(tail -1 "$OUT/e2e")" >> "$OUT/table"
}

# The programs that people try first (tests/gpu); BATTERY: its arguments, as in 'cases_torch -k fft'.
battery() {
	LIBS=$LIBS python3 tests/gpu/battery.py --address "unix:$SOCKET" --out "$OUT/battery" \
		${BATTERY:-} | tee -a "$OUT/table"
	cp "$OUT/battery/compatibility.md" "$OUT" 2> /dev/null
}

micro() {
	cpu/build/bench-micro > "$OUT/micro.native"
	remote 127.0.0.1:$PORT cpu/build/bench-micro > "$OUT/micro.remote"
	remote "unix:$SOCKET" cpu/build/bench-micro > "$OUT/micro.unix"
	remote "shm:$SOCKET" cpu/build/bench-micro > "$OUT/micro.shm"
	python3 bench/compare.py "$OUT/micro.native" "$OUT/micro.remote" | tee -a "$OUT/table"
	python3 bench/compare.py "$OUT/micro.native" "$OUT/micro.unix" | tee -a "$OUT/table"
	python3 bench/compare.py "$OUT/micro.native" "$OUT/micro.shm" | tee -a "$OUT/table"
}

: > "$OUT/table"
server
for stage in $STAGES; do $stage; done
kill $SERVER; wait $SERVER 2> /dev/null
logs=$(mktemp)
tar -C "$OUT" --exclude=logs.tar.gz -czf "$logs" . && mv "$logs" "$OUT/logs.tar.gz" &&
	find "$OUT" -maxdepth 1 -type f ! -name logs.tar.gz ! -name table \
		! -name compatibility.md -delete && rm -rf "$OUT/battery"
echo "=== table ($(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader))"
cat "$OUT/table"
