#!/bin/bash
# bench/gpu.sh [STAGE...] - checks and measurements on a machine with a real GPU, native and remote in one go.
#
# Stages, and about how long each takes on an H200 (QUICK=1: in brackets):
#   micro    60 s (20)   single driver calls
#   torch   240 s (90)   PyTorch
#   start    30 s (15)   the first CUDA call of a new process, cold and warm; what a second run sends
#   wire     45 s (10)   large copies against plain sockets, unbounded and at the rates of links
#   compress 60 s (20)   uploads over a played network, as they are and compressed
#   resume   90 s (20)   what it costs over tcp that sessions survive cuts
#   many    120 s (50)   1 to 16 clients on one GPU
#   together 70 s (25)   ten programs at a time
#   sweep   900 s (240)  slowdown against the round trip of a played network
#   trips   110 s        round trips of starts, first and second, over tcp
#   pinned   20 s        a loop in which the CPU writes words of pinned memory and kernels use them: us a step
#   profile 200 s        what the profilers of PyTorch, JAX and CuPy (PROFILE: some) say, natively and through the server; traces in $OUT/trace
#   pool     90 s        two servers with a GPU each, as one list, and copies between them against plain sockets; needs two GPUs
#   priority 150 s       requests beside training: natively, without a policy, with priorities; PRIORITY_SERVICES=2 (90 s): two
#                        programs that answer requests, natively and with priorities
#   mps      60 s        eight small programs of one user: time slices, NVIDIA MPS, and share = "mps" of the policy
#   ddp     180 s (90)   NCCL and PyTorch with a process for each GPU: natively, and in the workers of a server for each GPU; with
#                        one GPU one rank. NCCL_LIBRARY: the server's NCCL, DDP_PARTS: "rate torch", DDP_TORCH: parts of torch_ddp.py, as fsdp
#   handles  20 s        what calls answer to NULL and zero handles (tests/null_handles)
#   differences 60 s     answers of this GPU's driver and of Cricket, side by side, where they differ
#   applications 540 s   transformers, diffusers, JAX, Taichi ... (bench/apps) print the same numbers; APPLICATIONS: options of run.py
#   vllm    240 s        vLLM's engine, eager and with CUDA graphs: tokens a second of 1 and 32 streams, and the same tokens; VLLM_SITE: an
#                        absolute folder with its packages, VLLM: modes, as in "graphs server", VLLM_S: seconds that a run may take
#   findings 60 s        the kernels of kernel_errors.cu, wrong and right ones: what `cricket run -s emu --check` reports, beside compute-sanitizer.
#                        SANITIZER: its path, if it is not in PATH or /usr/local/cuda; PyPI has it as nvidia-cuda-sanitizer-api.
#                        FINDINGS: some kernels
#   holds    60 s        which driver calls wait for all work of their context (tests/gpu/holds.c)
#   apps     60 s        every test program prints the same
#   suspend  60 s        sessions of SUSPEND_GB (2) leave the GPU and come back; with a server of an ordinary user too
#   park    240 s (90)   the same for sessions of PARK_GB (1 10 32), parked too, with the driver's checkpoint of a native process beside it
#   exchange 90 s        two programs of EXCHANGE_GB (32) take turns on a GPU with room for one: how long they take to exchange their places
#   checkpoint 180 s     sessions of CHECKPOINT_GB (2) into files in CHECKPOINT_DIR (/var/tmp) and out of them; one of CHECKPOINT_CHANGES_GB (10)
#                        again and again, of which 1 % changes: pause and bytes of the first and of later checkpoints; needs CRIU
#   move    180 s        sessions of MOVE_GB (2 10 32), of which 1 % changes each second, between two servers for this GPU: pause, time, bytes,
#                        rounds; MOVE_CHANGES: other percentages, as in "0 1 10"; needs CRIU
#   othergpu 60 s        a training whose session alternates between two GPUs; what the driver says of a moved process; needs two GPUs
#   two                  weights and priorities of sessions on both GPUs of a server, and a queue for two GPUs; needs two GPUs
#   e2e, battery         the end-to-end tests (E2E=loader: some); tests/gpu
#   conformance          the answers of this GPU to tests/conformance, kept in $OUT/conformance, beside the emulated ones
# Without a name: micro torch start wire many sweep, from which bench/report.py makes the page and the picture of
# docs/performance.md. LIMIT=SECONDS bounds it all: a stage that needs more time than is left is skipped, and a line says so.
# The remote client has no access to the GPU (bench/no-gpu.sh). Needs what `make && make -C cpu bench` have
# built (LIBS: a folder with libtirpc.so.3 where the machine has none) and root. Logs go to $OUT or build/gpu, where those
# of other stages stay, so that stages can be run one by one; a table comes last.
set -u
cd "$(dirname "$0")/.." || exit
. bench/lib.sh
. bench/gpu_pool.sh
STAGES=${*:-micro torch start wire many sweep}
OVER=${OVER:-shm unix tcp}
APPS=tests/test_apps/bin

# Every test program: the same output and status directly and over all transports.
apps() {
	local good=0 bad=0 app name over want got
	for app in $APPS/*; do
		[ -f "$app" ] && [ -x "$app" ] || continue
		name=$(basename "$app")
		case $name in	# never end; crash natively; want arguments
		spin* | endless* | awkward* | bad_handles* | any_runtime* | environment* | managed_lost* | profile*) continue ;;
		esac
		TIME=60 native "$app" > "$OUT/native.out" 2> "$OUT/native.err"; want=$?
		for over in $OVER; do
			case $name.$over in	# never return there: docs/compatibility.md
			late_sources*.tcp | registered*.tcp) continue ;;
			esac
			TIME=60 remote "$(address_of "$over")" "$app" > "$OUT/remote.out" 2> "$OUT/remote.err"; got=$?
			if [ $got = $want ] && cmp -s "$OUT/native.out" "$OUT/remote.out"; then
				good=$((good + 1))
			else
				bad=$((bad + 1))
				echo "FAIL $name over $over: status $got, native $want" | table
				diff "$OUT/native.out" "$OUT/remote.out" | head -5
				head -3 "$OUT/remote.err"
			fi
		done
	done
	echo "apps: $good the same as native, $bad not" | table
}

micro() { both micro $BIN/bench-micro; }

# TORCH_OVER: over what; TORCH_PASSES: how often; ROWS: some rows only.
torch() {
	native python3 tests/test_apps/pytorch_minimal.py > "$OUT/torch.minimal" 2>&1
	CRICKET_STATS=1 remote "$(address_of tcp)" python3 tests/test_apps/pytorch_minimal.py \
		> "$OUT/torch.minimal.remote" 2> "$OUT/torch.minimal.err"
	if cmp "$OUT/torch.minimal" "$OUT/torch.minimal.remote"; then
		echo "pytorch_minimal: the same losses" | table
	else
		tail -n 5 "$OUT/torch.minimal.remote" "$OUT/torch.minimal.err"
	fi
	# shellcheck disable=SC2086 # a list
	OVER=${TORCH_OVER:-shm tcp} PASSES=${TORCH_PASSES:-1} CRICKET_STATS=1 BENCH_STEPS=${QUICK:+0.3} \
		both torch python3 bench/torch_models.py ${ROWS:-$TORCH_ROWS}
	grep -h '^cricket:' "$OUT"/torch.*.err | sort -k2 -n -r | head -12
	grep -h -v '^cricket:' "$OUT"/torch.*err | tail -n 5
}
TORCH_ROWS="matmul_fp32 matmul_fp16 matmul_bf16 matmul_bf16_batched item add resnet50_train resnet50_infer_b1
	gpt2_train_8x512 gpt2_generate_32 llama_decode_32 llama_decode_32_graphs"

# A new process, with no context ready on the server (a standby worker takes it) and with one; what the cache of modules
# saves.
start() {
	local i over
	for i in $(seq $((QUICK ? 3 : 9))); do native $BIN/bench-load start >> "$OUT/start.native"; done
	for over in cold warm; do
		server --warm $([ $over = cold ] && echo 0 || echo 1)
		for i in $(seq $((QUICK ? 3 : 9))); do
			sleep "${SPARE_S:-1.5}"	# until a spare worker is ready again
			remote "$(address_of shm)" $BIN/bench-load start >> "$OUT/start.$over"
		done
		{
			echo "--- start, $over"
			python3 bench/compare.py "$OUT/start.native" "$OUT/start.$over"
		} | table
	done
	rm -rf "$HERE/cache"
	server
	for i in first second; do
		CRICKET_STATS=1 remote "$(address_of tcp)" "${START_PROGRAM:-$APPS/matmul}" > /dev/null 2> "$OUT/start.$i.err"
		echo "modules sent by the $i run: $(module_bytes "$OUT/start.$i.err")" | table
	done
}
# What CRICKET_STATS says of images: of its columns, how many and how many bytes.
module_bytes() {
	awk '$1 == "cricket:" && $NF ~ /^ck_image(_packed)?$/ { n += $2; b += $7 } END { print n + 0, "of", b + 0, "bytes" }' "$1"
}

# Round trips of starts over tcp, as CRICKET_STATS counts them: the first run of each program, for which the server has
# neither modules nor answers, and the second one. With PyTorch also the times, at each simulated round trip of TRIPS_RTTS.
trips() {
	local row rtt
	rm -rf "$HERE/cache"
	server
	trips_row first_kernel "$APPS/first_kernel"
	python3 -c 'import torch' 2> /dev/null || return 0
	for row in first script resnet; do
		native python3 bench/trips.py $row | tee -a "$OUT/trips.native"
		trips_row "$row" python3 bench/trips.py $row
	done
	for rtt in ${TRIPS_RTTS-20ms 150ms}; do
		for row in first script resnet; do
			over "rtt=$rtt" trips_once "$row at $rtt" python3 bench/trips.py $row
		done
	done
}
trips_row() { # NAME COMMAND...
	local name=$1 run; shift
	for run in first second; do trips_once "$name, $run run" "$@"; done
}
trips_once() { # NAME COMMAND... - one run, what it prints, and its round trips
	local name=$1 file=$OUT/trips.stats; shift
	rm -f "$file"
	CRICKET_STATS=$file remote "$(address_of tcp)" "$@" 2>> "$OUT/trips.err"
	sed -n "s/^cricket: \([0-9]* round trips.*\)/$name: \1/p" "$file" | tail -n 1 | table
	echo "--- $name" >> "$OUT/trips.all" && cat "$file" >> "$OUT/trips.all"
}

# Six buffers of 64 KiB: copied to the device, read by the kernel, read and written by it.
pinned() {
	local way over
	for way in copy read write; do
		pinned_row native $way native
		for over in $OVER; do pinned_row "$over" $way remote "$(address_of "$over")"; done
	done
}
pinned_row() { # NAME WAY COMMAND...
	local name=$1 way=$2; shift 2
	echo "$name, $("$@" "$APPS/pinned_words" "${PINNED_STEPS:-20000}" 6 65536 "$way" 2>&1 | tr '\n' ' ')" | table
}

# Plain sockets against our copies, with as many connections, over this host's loopback or to $WIRE_HOST:$WIRE_PORT,
# where `bench-wire serve` and a server on port $PORT run; and over a loopback that the kernel slows down to a link's rate.
wire() {
	local n rate host=${WIRE_HOST:-127.0.0.1} port=${WIRE_PORT:-$((PORT + 1))}
	[ -n "${WIRE_HOST:-}" ] || wire_serve
	for n in 1 2 4 8; do wire_row "$n" "\"connections\": $n"; done >> "$OUT/wire"
	[ -n "${WIRE_HOST:-}" ] || {
		for rate in ${GBITS:-10 25 50 100}; do
			export PACE_BYTES=$((rate * 1000000000 / 8 / 4))
			ALSO=$PWD/$BIN/pace.so
			LD_PRELOAD=$ALSO wire_serve
			LD_PRELOAD=$ALSO server
			wire_row 4 "\"gbit\": $rate" >> "$OUT/wire.link"
		done
		unset PACE_BYTES ALSO
		wire_end
		server
	}
	python3 bench/report.py --stage wire "$OUT" | table
}
# Both of these know wire's host and port.
wire_serve() {
	wire_end
	$BIN/bench-wire serve "$port" > "$OUT/wire.serve" 2>&1 & WIRE=$!
	for _ in $(seq 50); do grep -q ready "$OUT/wire.serve" && break; sleep 0.1; done
}
# wire_row CONNECTIONS MEMBER - a line of the results; MEMBER, as in '"connections": 4', tells it from others.
wire_row() {
	local raw ours mib=${WIRE_MIB:-$((QUICK ? 64 : 256))} rounds=$((QUICK ? 3 : 7))
	[ "$DRIVER" = emu ] && mib=8
	raw=$(LD_PRELOAD=${ALSO:-} $BIN/bench-wire run "$host" "$port" "$1" "$mib" "$rounds" 2>> "$OUT/wire.err") &&
		ours=$(CRICKET_DEBUG=no-compress CRICKET_CONNECTIONS=$1 remote "tcp://$host:$PORT" $BIN/bench-load copy "$mib" "$rounds" 2>> "$OUT/wire.err") ||
		{ echo "wire: failed with $2: $(tail -n 1 "$OUT/wire.err" "$OUT/wire.serve")" | table >&2; return; }
	echo "{$2, \"raw\": $raw, \"ours\": $ours}"
}

# Uploads of bytes of several kinds over a slow network: as they are, and as the client chooses. BWS: its rates.
compress() {
	local bw kind mib plain ours
	python3 bench/kinds.py "$HERE"
	for bw in ${BWS:-100M 1G 10G}; do
		mib=${COMPRESS_MIB:-$([ "$bw" = 100M ] && echo 16 || echo 64)}
		for kind in random float bfloat16 text zeros; do
			plain=$(upload_ms 0) && ours=$(upload_ms auto) ||
				{ echo "compress: failed: $(tail -n 1 "$OUT/compress.err")"; continue; }
			echo "| $bw | $kind | $mib | $plain | $ours |"
		done
	done > "$OUT/compress"
	{
		echo "| bit/s | bytes | MiB | as they are, ms | compressed where that is faster, ms |"
		echo "|---|---|---|---|---|"
		cat "$OUT/compress"
	} | table
}
# Knows compress's bw, kind and mib.
upload_ms() {
	CRICKET_DEBUG=compress=$1 CRICKET_CONNECTIONS=4 over "rtt=5ms,bw=$bw" \
		remote "$(address_of tcp)" $BIN/bench-load upload "$HERE/$kind" "$mib" $((QUICK ? 6 : 8)) 2>> "$OUT/compress.err"
}

# What a session over tcp that survives cuts costs, against one that does not (CRICKET_RESUME=0), in turn.
resume() {
	local n seconds mib=${WIRE_MIB:-$((QUICK ? 64 : 256))} rounds=$((QUICK ? 3 : 7))
	[ "$DRIVER" = emu ] && mib=8
	for _ in $(seq "$PASSES"); do
		for seconds in 0 60; do
			export CRICKET_RESUME=$seconds CRICKET_DEBUG=no-compress
			remote "$(address_of tcp)" $BIN/bench-micro >> "$OUT/resume.micro.$seconds" 2>> "$OUT/resume.err"
			for n in 1 4; do
				CRICKET_CONNECTIONS=$n remote "$(address_of tcp)" $BIN/bench-load copy "$mib" "$rounds" \
					>> "$OUT/resume.copy$n.$seconds" 2>> "$OUT/resume.err"
			done
		done
	done
	unset CRICKET_RESUME CRICKET_DEBUG
	for n in micro copy1 copy4; do
		echo "--- resume, $n: \"native\" is CRICKET_RESUME=0, \"remote\" is 60"
		python3 bench/compare.py "$OUT/resume.$n.0" "$OUT/resume.$n.60"
	done | table
}

# MANY: how many clients; each works for MANY_SECONDS.
many() {
	local options=(--clients "${MANY:-1,2,4,8,16}" --seconds "${MANY_SECONDS:-$((QUICK ? 1 : 3))}"
		--connects "${CONNECTS:-$((QUICK ? 40 : 200))}" --idle "${IDLE:-8}" --work "${WORK:-2000}")
	native python3 bench/many.py "${options[@]}" > "$OUT/many.native" 2> "$OUT/many.err"
	for over in ${MANY_OVER:-shm}; do
		remote "$(address_of "$over")" python3 bench/many.py "${options[@]}" --server "$SERVER" \
			> "$OUT/many.$over" 2>> "$OUT/many.err"
		echo "--- many over $over"
		python3 bench/compare.py "$OUT/many.native" "$OUT/many.$over"
		sed -n '/^{/d; /^\(idle\|left\)/p' "$OUT/many.$over"
	done | table
}

# Ten programs at a time; TOGETHER: which ones, or options of together.py.
together() {
	# shellcheck disable=SC2086 # a list
	OVER=${TOGETHER_OVER:-shm tcp} COMPARE=--ratios both together python3 bench/together.py ${TOGETHER:-}
}

# RTTS: round trips to play, of which 0 is plain tcp; SWEEP: what runs (rows of torch_models.py, or steps of bench-load
# where there is no PyTorch); BW: a bound for the rate, as in 10G.
sweep() {
	local rtt network rows=${SWEEP:-script_first script_steps resnet50_train gpt2_generate_32 llama_decode_32
		llama_decode_32_graphs}
	local run=(env BENCH_STEPS=$([ -n "$QUICK" ] && echo 0.2 || echo 0.5) python3 bench/torch_models.py)
	[ "${SWEEP:-}" = steps ] && run=(bench/steps.sh) rows=
	# shellcheck disable=SC2086 # a list
	native "${run[@]}" $rows > "$OUT/sweep.native" 2> "$OUT/sweep.log"
	for rtt in ${RTTS:-0 1ms $([ -n "$QUICK" ] || echo 3ms 5ms 10ms) 20ms $([ -n "$QUICK" ] || echo 50ms) 150ms}; do
		network=${rtt:+rtt=$rtt}${BW:+,bw=$BW}
		[ "$rtt" = 0 ] && network=${BW:+bw=$BW}
		# shellcheck disable=SC2086
		over "$network" \
			remote "$(address_of tcp)" "${run[@]}" $rows > "$OUT/sweep.$rtt" 2>> "$OUT/sweep.log"
	done
	python3 bench/report.py --stage sweep "$OUT" | table
}

# Sessions that leave the GPU: times, what nvidia-smi lists meanwhile, and whether memory and losses are the same after it.
# SUSPEND_GB: sizes, as in "2 60". As an ordinary user: what the driver demands of who moves a worker.
suspend() {
	local gb run=(python3 bench/suspend.py --driver "$DRIVER" --turns "${SUSPEND_TURNS:-$((QUICK ? 2 : 5))}")
	server_end
	for gb in ${SUSPEND_GB:-2}; do
		echo "--- suspend, $gb GiB" && "${run[@]}" --gb "$gb" 2>> "$OUT/suspend.err"
	done | table
	if python3 -c 'import torch' 2> /dev/null && [ "$DRIVER" != emu ]; then
		echo "--- suspend, PyTorch" && "${run[@]}" --gb 2 --torch 2>> "$OUT/suspend.err"
	fi | table
	if [ "$(id -u)" = 0 ]; then
		echo "--- suspend, a server of user 65534 (ptrace_scope $(cat /proc/sys/kernel/yama/ptrace_scope 2>&1))"
		"${run[@]}" --gb "${SUSPEND_USER_GB:-1}" --user 65534 2>> "$OUT/suspend.err"
	fi | table
	tail -n 20 "$OUT/suspend.err"
	server
}

# Suspend, resume, park and return by size, beside the driver's checkpoint of the same program without a server.
park() {
	local gb
	server_end
	for gb in ${PARK_GB:-1 10 32}; do
		echo "--- park, $gb GiB"
		python3 bench/suspend.py --park --driver "$DRIVER" --turns "${SUSPEND_TURNS:-$((QUICK ? 2 : 5))}" --gb "$gb" 2>> "$OUT/park.err"
	done | table
	tail -n 20 "$OUT/park.err"
	server
}

# Two programs that exchange their places on the GPU; several times in EXCHANGE_ROUNDS fills of their memory.
exchange() {
	server_end
	python3 bench/quantum.py --driver "$DRIVER" --gb "${EXCHANGE_GB:-32}" --rounds "${EXCHANGE_ROUNDS:-$((QUICK ? 300 : 1000))}" \
		--quantum 2s 2>> "$OUT/exchange.err" | table
	tail -n 20 "$OUT/exchange.err"
	server
}

# Checkpoint and restore by size, of random bytes and of half as many; and checkpoints of a session that goes on.
checkpoint() {
	local gb content
	server_end
	for gb in ${CHECKPOINT_GB:-2}; do
		for content in random half; do
			echo "--- checkpoint, $gb GiB, $content"
			python3 bench/checkpoint.py --driver "$DRIVER" --gb "$gb" --content $content --folder "${CHECKPOINT_DIR:-/var/tmp}" \
				--turns "${CHECKPOINT_TURNS:-$((QUICK ? 1 : 3))}" 2>> "$OUT/checkpoint.err"
		done
	done | table
	for gb in ${CHECKPOINT_CHANGES_GB:-10}; do
		echo "--- checkpoints of a running session, $gb GiB, 1 % changed"
		python3 bench/checkpoint.py --driver "$DRIVER" --gb "$gb" --changes 1 --folder "${CHECKPOINT_DIR:-/var/tmp}" \
			--turns "${CHECKPOINT_TURNS:-$((QUICK ? 1 : 3))}" 2>> "$OUT/checkpoint.err"
	done | table
	tail -n 20 "$OUT/checkpoint.err"
	server
}

# A session that moves between two servers of one GPU, each in a network of its own.
move() {
	local gb changes
	server_end
	for gb in ${MOVE_GB:-2 10 32}; do
		for changes in ${MOVE_CHANGES:-1}; do
			echo "--- move, $gb GiB, $changes % changed each second"
			python3 bench/move.py --driver "$DRIVER" --gb "$gb" --changes "$changes" --turns "${MOVE_TURNS:-$((QUICK ? 2 : 4))}" 2>> "$OUT/move.err"
		done
	done | table
	tail -n 20 "$OUT/move.err"
	server
}

# A session that alternates between GPUs 0 and 1 of this machine: MOVES times.
othergpu() {
	server_end
	python3 bench/other_gpu.py --driver "$DRIVER" --moves "${MOVES:-$((QUICK ? 4 : 20))}" 2> "$OUT/othergpu.err" | table
	tail -n 20 "$OUT/othergpu.err"
	server
}

# The same kernels, their times, and what the profiler costs: torch.profiler, jax.profiler and CuPy's, where they are.
profile() {
	local over name
	for name in ${PROFILE:-torch jax cupy}; do
		if ! python3 -c "import $name" 2> /dev/null; then
			echo "profile: no $name here"
			continue
		fi
		TIME=${PROFILE_S:-150} native python3 "bench/${name}_profile.py" "$OUT/trace/native" > "$OUT/profile.$name.native" 2> "$OUT/profile.$name.err"
		for over in ${PROFILE_OVER:-tcp}; do
			CRICKET_LOG=client:debug TIME=${PROFILE_S:-150} remote "$(address_of "$over")" \
				python3 "bench/${name}_profile.py" "$OUT/trace/$over" \
				> "$OUT/profile.$name.$over" 2> "$OUT/profile.$name.$over.err"
			echo "--- $name.profiler over $over"
			python3 bench/compare.py "$OUT/profile.$name.native" "$OUT/profile.$name.$over"
		done
	done | table
	grep -h -i -e clock -e cupti "$OUT"/profile.*.err | sort | uniq -c | sort -n -r | head -8
	tail -n 3 "$OUT"/profile*err
}

# Programs that answer requests beside one that trains.
priority() {
	local seconds=$((QUICK ? 4 : 10)) services=${PRIORITY_SERVICES:-1} ways="native no-policy priority"
	[ "$services" = 1 ] || { seconds=5; ways="native priority"; }
	server_end
	python3 bench/priority.py --driver "$DRIVER" --seconds "${PRIORITY_SECONDS:-$seconds}" --services "$services" --ways "$ways" \
		2>> "$OUT/priority.err" | table
	tail -n 5 "$OUT/priority.err"
	server
}

# Programs of one user that share the GPU in time and in space. MPS_SECONDS: of each row.
mps() {
	server_end
	python3 bench/mps.py --driver "$DRIVER" --seconds "${MPS_SECONDS:-$((QUICK ? 2 : 4))}" 2>> "$OUT/mps.err" | table
	tail -n 5 "$OUT/mps.err"
	server
}

# What calls answer to NULL and zero handles: differences between native and remote.
handles() {
	native $BIN/null_handles > "$OUT/handles.native" 2> "$OUT/handles.err"
	remote "$(address_of shm)" $BIN/null_handles > "$OUT/handles.remote" 2>> "$OUT/handles.err"
	diff "$OUT/handles.native" "$OUT/handles.remote" > "$OUT/handles.diff"
	echo "handles: $(grep -c '^<' "$OUT/handles.diff") of $(wc -l < "$OUT/handles.native") answers differ" | table
}

# What this GPU's driver and Cricket answer, side by side, where the answers differ: programs of tests/test_apps that print
# answers, and the calls of tests/null_handles. A program that ends early shows its last lines.
differences() {
	local name words
	while read -r name words; do
		# shellcheck disable=SC2086 # words
		differences_of "$name${words:+ $words}" $APPS/$name $words
	done <<- END
		answers
		nvml
		multi_launch answers
		multi_launch strict answers
	END
	GROUP=--group differences_of "NULL and zero handles" $BIN/null_handles
}
differences_of() { # TITLE COMMAND...
	local title=$1 file=$OUT/differences.out over; shift
	TIME=60 native "$@" > "$file.native" 2>&1
	for over in shm tcp; do TIME=60 remote "$(address_of $over)" "$@" > "$file.$over" 2>&1; done
	{
		echo "--- $title"
		python3 bench/side_by_side.py ${GROUP:-} "$file.native" "$file.shm" "$file.tcp"
	} | table
	for over in native shm tcp; do
		echo "--- $title, $over" && cat "$file.$over"
	done >> "$OUT/differences.all"
}

# Applications that people use (bench/apps): the same numbers, and their times. APPLICATIONS: options of run.py, as in
# '-k llama --wheels DIR'.
applications() {
	# shellcheck disable=SC2086 # a list
	CRICKET_TEST_DRIVER=$DRIVER python3 bench/apps/run.py --shm "$(address_of shm)" --tcp "$(address_of tcp)" \
		--seconds "$(seconds_for 540)" --out "$OUT/applications" ${APPLICATIONS:-} | tee "$OUT/applications.log"
	sed -n '/^---$/,$p' "$OUT/applications.log" | table > /dev/null
}

# vLLM's engine in a process of its own on each side. A run without all rows shows its last lines.
vllm() {
	local side TIME=${VLLM_S:-150} PASSES=1 OVER=${VLLM_OVER:-shm tcp}
	local -x CRICKET_STATS=1 TRITON_CACHE_DIR=$HERE/triton VLLM_CACHE_ROOT=$HERE/vllm
	local -x PYTHONPATH=${VLLM_SITE:-}${VLLM_SITE:+${PYTHONPATH:+:}}${PYTHONPATH:-}
	python3 -c 'import importlib.util as i, sys; sys.exit(not i.find_spec("vllm"))' || { echo "vllm: not installed (VLLM_SITE)" | table; return; }
	# shellcheck disable=SC2086 # a list
	both vllm python3 -P bench/vllm_rows.py ${VLLM:-}
	mv "$OUT/vllm.err" "$OUT/vllm.native.err"
	for side in native $OVER; do
		sed -n "s/^cricket: \([0-9]* round trips.*\)/vllm over $side: \1/p" "$OUT/vllm.$side.err" | tail -n 1 | table
		grep -h 'the engine started' "$OUT/vllm.$side" | sed "s/^/vllm, $side, /" | table
		grep -q '^all modes ran' "$OUT/vllm.$side" ||
			{ echo "--- vllm, $side, failed:"; grep -v '^cricket:  * [0-9c]' "$OUT/vllm.$side.err" | tail -n 30; tail -n 3 "$OUT/server.log"; }
	done
}

# Driver calls that wait for a stream that they do not use: the rows of rpc/driver.api that drain.
holds() {
	native $BIN/holds > "$OUT/holds" 2>&1
	echo "holds: $(grep -c ' returns$' "$OUT/holds") calls return, $(grep -c -e ' waits$' -e ' blocks$' "$OUT/holds") wait" | table
}

# bench/findings.py has the rows.
findings() {
	local sanitizer=${SANITIZER:-$(PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer command -v compute-sanitizer)}
	[ -n "$sanitizer" ] || { echo "findings: no compute-sanitizer (SANITIZER)" | table; return; }
	"$sanitizer" --version | sed -n 's/^Version/compute-sanitizer/p' | table
	# shellcheck disable=SC2086 # a list
	TIME=110 native bench/findings.py $APPS/kernel_errors tests/test_apps/kernel_errors.cu cpu/cricket "$sanitizer" ${FINDINGS:-} \
		2> "$OUT/findings.err" | table
	tail -n 3 "$OUT/findings.err"
}

# The end-to-end tests, failures included, with the same driver under the server.
e2e() {
	CRICKET_TEST_DRIVER=$DRIVER LD_LIBRARY_PATH=$LIBS:${LD_LIBRARY_PATH:-} timeout "$(seconds_for 400)" \
		python3 -m pytest -q -p no:cacheprovider tests/e2e -k "${E2E:-not docs}" > "$OUT/e2e" 2>&1
	tail -15 "$OUT/e2e"
	echo "e2e: $(tail -1 "$OUT/e2e")" | table > /dev/null
}

# Every form of every instruction: this GPU's answers, and how the emulated one's differ. FORMS: words of some.
conformance() {
	# shellcheck disable=SC2086 # a list
	native tests/conformance/conformance run ${FORMS:-} -o "$OUT/conformance" > "$OUT/conformance.log" 2>&1 &&
		tests/conformance/conformance compare "$OUT/conformance" ${FORMS:-} --driver cpu/libcuda-emu.so \
			>> "$OUT/conformance.log" 2>&1
	tr '\r' '\n' < "$OUT/conformance.log" | grep -v '^[0-9]* of [0-9]*$' | tail -n 5 | table
}

# The programs that people try first (tests/gpu); BATTERY: its arguments, as in 'cases_torch -k fft'.
battery() {
	# shellcheck disable=SC2086 # a list
	LIBS=$LIBS python3 tests/gpu/battery.py --address "unix:$SOCKET" --out "$OUT/battery" \
		${BATTERY:-} | table
	cp "$OUT/battery/compatibility.md" "$OUT" 2> /dev/null
}

# What a stage takes at least, to be begun when time is bounded.
needs() {
	case $1 in
	torch) echo $((QUICK ? 60 : 150)) ;;
	sweep) echo $((QUICK ? 120 : 400)) ;;
	many | together) echo $((QUICK ? 20 : 60)) ;;
	ddp) echo 60 ;;
	vllm) echo 120 ;;
	apps) echo 90 ;;
	e2e | battery | applications) echo 200 ;;
	*) echo 15 ;;
	esac
}

for stage in $STAGES; do rm -f "$OUT/$stage" "$OUT/$stage".*; done
{
	date -u +%Y-%m-%d
	nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null || echo "no GPU: the emulated driver"
	uname -sr | cut -d- -f1; nproc; python3 -c 'import torch; print("PyTorch", torch.__version__)' 2> /dev/null
} > "$OUT/machine"
server
for stage in $STAGES; do
	if [ "$LIMIT" -gt 0 ] && [ $((LIMIT - SECONDS)) -lt "$(needs "$stage")" ]; then
		echo "$stage: left out, $((LIMIT - SECONDS)) s are left and it needs $(needs "$stage")" | table
		continue
	fi
	began=$SECONDS
	$stage
	echo "($stage: $((SECONDS - began)) s)" | table
done
server_end
logs=$(mktemp)
tar -C "$OUT" --exclude=logs.tar.gz -czf "$logs" . && mv "$logs" "$OUT/logs.tar.gz" && rm -rf "$OUT/battery" "$OUT/applications"
echo "=== table ($(sed -n 2p "$OUT/machine"))"
for stage in $STAGES; do cat "$OUT/$stage.table"; done
