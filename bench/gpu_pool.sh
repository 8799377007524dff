# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # it is a part of gpu.sh
#
# bench/gpu_pool.sh - the stages of bench/gpu.sh for several GPUs: pool, ddp and two.

# A program with a GPU of each of two servers, against the same two GPUs natively; copies between the servers, directly
# and through the client, against plain sockets.
pool() {
	local other=$((PORT + 2)) second list
	[ "$DRIVER" = emu ] || [ "$(nvidia-smi -L | grep -c ^GPU)" -ge 2 ] || { echo "pool: needs two GPUs" | table; return; }
	CRICKET_EMU=devices=2 CUDA_VISIBLE_DEVICES=0 server --pool-peers '127.0.0.0/8:*'
	CRICKET_EMU=devices=2 CUDA_VISIBLE_DEVICES=1 LD_LIBRARY_PATH=$LIBS:${LD_LIBRARY_PATH:-} setsid cpu/cricket-rpc-server \
		--driver "$DRIVER" --pool-peers '127.0.0.0/8:*' --no-unix --listen "127.0.0.1:$other" >> "$OUT/pool.log" 2>&1 & second=$!
	for _ in $(seq 100); do grep -q 'driver' "$OUT/pool.log" && break; sleep 0.1; done
	list=tcp://$TCP,tcp://127.0.0.1:$other
	pool_copies "$list"
	[ "$DRIVER" = emu ] || {
		native python3 bench/torch_pool.py > "$OUT/pool.native" 2> "$OUT/pool.err"
		remote "$list" python3 bench/torch_pool.py > "$OUT/pool.remote" 2>> "$OUT/pool.err"
		echo "--- pool of two servers over tcp"
		python3 bench/compare.py "$OUT/pool.native" "$OUT/pool.remote"
	} | table
	kill $second
	[ "$DRIVER" = emu ] || head -n 1 "$OUT/pool.native" "$OUT/pool.remote"
	tail -n 5 "$OUT/pool.err" "$OUT/pool.log"
	server
}

# Weights and priorities on both GPUs of a server, and a wait for both.
two() {
	[ "$DRIVER" = emu ] || [ "$(nvidia-smi -L | grep -c ^GPU)" -ge 2 ] || { echo "two: needs two GPUs" | table; return; }
	server_end
	python3 bench/two.py --driver "$DRIVER" --seconds "${TWO_SECONDS:-$((QUICK ? 4 : 10))}" 2>> "$OUT/two.err" | table
	tail -n 5 "$OUT/two.err"
	server
}

pool_copies() { # LIST
	local n mib=${POOL_MIB:-$([ "$DRIVER" = emu ] && echo 64 || echo 256)} port=$((PORT + 1))
	wire_serve
	for n in 1 2 4 8; do
		$BIN/bench-wire run 127.0.0.1 "$port" "$n" "$mib" 7 > "$OUT/pool.wire.$n" 2>> "$OUT/pool.err"
		CRICKET_CONNECTIONS=$n remote "$1" bench/pool.py "$mib" > "$OUT/pool.direct.$n" 2>> "$OUT/pool.err"
	done
	wire_end
	CRICKET_DEBUG=no-direct remote "$1" bench/pool.py "$mib" > "$OUT/pool.client" 2>> "$OUT/pool.err"
	python3 - "$OUT" <<- 'END' | table
		import json, sys
		def last(name):
		    return json.loads(open(f"{sys.argv[1]}/pool.{name}").read().splitlines()[-1])
		print("--- copies from server to server, GB/s: plain sockets from and to memory, direct, ratio; both ways at a time")
		for n in (1, 2, 4, 8):
		    wire, ours = last(f"wire.{n}"), last(f"direct.{n}")
		    raw, got = wire["up_memory"], ours["copy_there"]["value"]
		    right = all(all(r.get("check", [])) for r in ours.values())
		    print(f"{n} connections {raw:8.2f} {got:8.2f} {got / raw:6.2f} {ours['copies_both_ways']['value']:8.2f}"
		          f"   1 KiB {ours['copy_1K']['value']:.0f} us{'' if right else ', WRONG'}")
		    crossed = ours["crossed_streams"]
		    if "error" in crossed:
		        print(f"{n} connections: crossed streams: {crossed['error']}")
		client = last("client")
		print(f"through the client     {client['copy_there']['value']:8.2f}        {client['copies_both_ways']['value']:8.2f}"
		      f"   1 KiB {client['copy_1K']['value']:.0f} us")
	END
}

# The NCCL of the servers: that of PyTorch, of CUDA, or the system's.
nccl_library() {
	local found
	for found in ${NCCL_LIBRARY:-} "$(python3 -c 'import importlib.util as i; print(i.find_spec("nvidia.nccl").submodule_search_locations[0])' \
		2> /dev/null)/lib/libnccl.so.2" /usr/local/cuda*/lib*/libnccl.so.2 "$(ldconfig -p | awk '/libnccl.so.2 / { print $NF; exit }')"; do
		[ -f "$found" ] && { realpath "$found"; return; }
	done
	return 1
}
# Programs with a process for each GPU: natively, and each GPU behind a server of its own, NCCL in the workers. A part that fails
# is a row with its error.
ddp() {
	local count i nccl list="" pids="" port part
	nccl=$(nccl_library) || { echo "ddp: no libnccl.so.2 (NCCL_LIBRARY)" | table; return; }
	count=$([ "$DRIVER" = emu ] && echo 2 || nvidia-smi -L | grep -c ^GPU)
	[ "$count" -gt "${DDP_RANKS:-2}" ] && count=${DDP_RANKS:-2}
	[ "$count" -ge 1 ] || { echo "ddp: needs a GPU" | table; return; }
	echo "ddp: $count ranks, $nccl" | table
	mkdir -p "$HERE/nccl" && ln -sf "$nccl" "$HERE/nccl/libnccl.so.2"
	server_end
	for i in $(seq 0 $((count - 1))); do
		port=$((PORT + 10 + i))
		# shellcheck disable=SC2097,SC2098 # for the server alone
		CUDA_VISIBLE_DEVICES=$([ "$DRIVER" = emu ] && echo 0 || echo "$i") CRICKET_EMU=devices=1 CRICKET_CACHE_DIR=$HERE/cache.$i \
			NCCL_DEBUG=${NCCL_DEBUG:-WARN} \
			LD_LIBRARY_PATH=$LIBS:${LD_LIBRARY_PATH:-} setsid cpu/cricket-rpc-server --driver "$DRIVER" --no-unix \
			--nccl "$nccl" --listen "127.0.0.1:$port" \
			>> "$OUT/ddp.server.$i" 2>&1 & pids="$pids $!"
		list="$list${list:+,}tcp://127.0.0.1:$port"
	done
	for i in $(seq 0 $((count - 1))); do
		for _ in $(seq 100); do (: < "/dev/tcp/127.0.0.1/$((PORT + 10 + i))") 2> /dev/null && break; sleep 0.1; done
	done
	for part in ${DDP_PARTS:-rate torch}; do ddp_part "$part" "$count" "$list"; done
	# shellcheck disable=SC2086 # a list
	kill $pids
	tail -n 5 "$OUT"/ddp.server.*
	server
}
ddp_part() { # PART RANKS SERVERS
	local part=$1 count=$2 list=$3 script=bench/nccl_rate.py some=()
	[ "$part" = torch ] && script=bench/torch_ddp.py && some=(${DDP_TORCH:+--parts "$DDP_TORCH"})
	local TIME=480	# of three parts, with the first uploads of PyTorch's kernels
	if [ "$part" = torch ] && { [ "$DRIVER" = emu ] || ! python3 -c 'import torch' 2> /dev/null; }; then
		echo "ddp: no PyTorch, or no GPU for it" | table
		return
	fi
	[ "$DRIVER" = emu ] && export CRICKET_EMU=devices=$count
	LD_LIBRARY_PATH=$HERE/nccl native python3 $script --ranks "$count" "${some[@]}" > "$OUT/ddp.$part.native" 2> "$OUT/ddp.$part.err"
	CRICKET_NCCL=workers remote "$list" python3 $script --ranks "$count" "${some[@]}" > "$OUT/ddp.$part.remote" 2> "$OUT/ddp.$part.remote.err"
	{
		echo "--- ddp, $part, over tcp"
		python3 bench/compare.py "$OUT/ddp.$part.native" "$OUT/ddp.$part.remote"
	} | table
	tail -n 12 "$OUT/ddp.$part.err" "$OUT/ddp.$part.remote.err"
}
