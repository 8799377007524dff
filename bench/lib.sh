# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # it is a part of gpu.sh
#
# bench/lib.sh - what the stages of bench/gpu.sh share: a server, native and remote runs, the clock.
#
# DRIVER=emu takes the emulated GPU on both sides, on a machine without one: the numbers say nothing then, but the
# scripts can be tried. QUICK=1 takes fewer steps of everything.

OUT=${OUT:-build/gpu}
LIBS=${LIBS:-build/lib}
DRIVER=${DRIVER:-cuda}
TIME=${TIME:-240}	# seconds that one run may take
LIMIT=${LIMIT:-0}	# seconds for everything; 0: no limit
QUICK=${QUICK:-}
HERE=$(mktemp -d)
SOCKET=$HERE/cricket.sock
# Not a port that others listen on, nor one that connecting programs are given.
PORT=${PORT:-$((20000 + $$ % 10000))}
TCP=127.0.0.1:$PORT
BIN=cpu/build
PASSES=${PASSES:-$([ -n "$QUICK" ] && echo 1 || echo 3)}	# of which medians are taken
mkdir -p "$OUT" "$HERE/native"
[ "$DRIVER" = emu ] && ln -sf "$PWD/cpu/libcuda-emu.so" "$HERE/native/libcuda.so.1"

# server OPTION... - a server on $TCP and $SOCKET, in $SERVER; one that runs is ended first.
server() {
	server_end
	CRICKET_CACHE_DIR=$HERE/cache LD_LIBRARY_PATH=$LIBS:${LD_LIBRARY_PATH:-} setsid cpu/cricket-rpc-server \
		--driver "$DRIVER" --unix "$SOCKET" --listen "$TCP" "$@" >> "$OUT/server.log" 2>&1 &
	SERVER=$!
	for _ in $(seq 200); do [ -S "$SOCKET" ] && return; sleep 0.1; done
	echo "the server did not come up"; cat "$OUT/server.log"; exit 1
}
server_end() {
	[ -n "${SERVER:-}" ] || return 0
	kill "$SERVER"; wait "$SERVER" 2> /dev/null
	SERVER=
}
# What plain sockets are measured against (gpu.sh wire), if it runs.
wire_end() {
	[ -n "${WIRE:-}" ] || return 0
	kill "$WIRE" 2> /dev/null; wait "$WIRE" 2> /dev/null
	unset WIRE
}
finish() {
	wire_end
	server_end
	rm -rf "$HERE"
}
trap finish EXIT

# seconds_for MOST - how long the next run may take.
seconds_for() {
	local left=$((LIMIT - SECONDS))
	[ "$LIMIT" -gt 0 ] && [ $left -lt "$1" ] && { [ $left -gt 1 ] && echo $left || echo 1; return; }
	echo "$1"
}
native() { # COMMAND...
	LD_LIBRARY_PATH=$HERE/native:${LD_LIBRARY_PATH:-} timeout "$(seconds_for "$TIME")" "$@"
}
# remote ADDRESS COMMAND... - without the GPU's device files, where there are any. ALSO: a library to preload behind ours.
remote() {
	local address=$1 hide=bench/no-gpu.sh; shift
	[ "$DRIVER" = emu ] && hide=
	REMOTE_GPU_ADDRESS=$address LD_PRELOAD=$PWD/${CLIENT:-cpu/cricket-client.so}${ALSO:+:$ALSO} \
		$hide timeout "$(seconds_for "$TIME")" "$@"
}
# A command whose clients simulate a network, as in rtt=1ms,bw=10G (tests/network); "": none.
over() { # NETWORK COMMAND...
	CLIENT=$BIN/network/cricket-client.so CRICKET_TEST_NETWORK=$1 "${@:2}"
}
address_of() { # tcp | unix | shm
	case $1 in
	tcp) echo "tcp://$TCP" ;;
	*) echo "$1:$SOCKET" ;;
	esac
}
# What a stage has to say, also for later: bench/report.py reads it.
table() { tee -a "$OUT/$stage.table"; }

# both NAME COMMAND... - natively and over each of $OVER, $PASSES times in turn; the rows are appended to
# $OUT/NAME.native, NAME.shm ..., and compared. COMPARE: an option of compare.py.
both() {
	local name=$1 over; shift
	for _ in $(seq "$PASSES"); do
		native "$@" >> "$OUT/$name.native" 2>> "$OUT/$name.err"
		for over in $OVER; do
			remote "$(address_of "$over")" "$@" >> "$OUT/$name.$over" 2>> "$OUT/$name.$over.err"
		done
	done
	for over in $OVER; do
		echo "--- $name over $over"
		python3 bench/compare.py ${COMPARE:-} "$OUT/$name.native" "$OUT/$name.$over"
	done | table
}
