#!/bin/bash
# bench/wcm.sh - chunked memory: how fast kernels gather from the other GPUs' chunks, natively and as sessions of one
# server: IPC handles (ipc), exported descriptors (vmm), threads of one process (threads), and memory of the own GPU
# alone (own-ipc, own-vmm: whether memory is slower because it could be exported).
#
#   bench/wcm.sh                      on as many GPUs as there are, 16 at most; about 3 minutes on two H200s
#   RANKS=2 TABLES='1G 16G' ...       ranks; memory, all chunks together
#   DRIVER=emu bench/wcm.sh           the emulated GPU, small: tries the script, and the numbers say nothing
#
# Needs what `make` builds, wcm/examples/bin/gather_bench among it. LINK: GB/s of a GPU's links in one direction (H200:
# 450); random segments over all chunks can reach LINK * RANKS / (RANKS - 1), of which the table says the share. Logs and
# the table, in Markdown, go to $OUT or build/gpu.
set -u
cd "$(dirname "$0")/.." || exit
. bench/lib.sh
stage=wcm
BENCH=$PWD/wcm/examples/bin/gather_bench
SEGMENTS=${SEGMENTS:-64,128,256,512,1024,4096,16384}
LINK=${LINK:-450}
if [ "$DRIVER" = emu ]; then
	# Runtime programs need a server in front of the emulated driver.
	RANKS=${RANKS:-2} TABLES=${TABLES:-1M} GATHER=${GATHER:-64K} TIMES=${TIMES:-1} WHERE=session
	export CRICKET_EMU=devices=$RANKS
else
	RANKS=${RANKS:-$(nvidia-smi -L | head -n 16 | wc -l)}
	TABLES=${TABLES:-1G 16G 64G} GATHER=${GATHER:-4G} TIMES=${TIMES:-5} WHERE=${WHERE:-native session}
fi
[ -x "$BENCH" ] || { echo "wcm.sh: no $BENCH: run make"; exit 1; }
bad=0

# measure WHERE KIND TABLE OPTION... - one run; its sizes as JSON into $OUT/wcm.json.
measure() {
	local where=$1 kind=$2 table=$3 log=$OUT/wcm.$1.$2.$3; shift 3
	set -- "$BENCH" --json --table "$table" --gather "$GATHER" --segments "$SEGMENTS" --passes "$TIMES" "$@"
	if [ "$where" = native ]; then native "$@"; else remote "$(address_of shm)" "$@"; fi > "$log" 2> "$log.err"
	# shellcheck disable=SC2181 # of either
	if [ $? != 0 ]; then
		echo "FAILED: $where $kind $table: $(tail -n 1 "$log.err")"
		bad=1
	fi
	sed -n "s/^{/{\"where\": \"$where\", \"kind\": \"$kind\", \"table\": \"$table\", /p" "$log" >> "$OUT/wcm.json"
}

: > "$OUT/wcm.json"
case $WHERE in *session*) server --warm 0 ;; esac
for where in $WHERE; do
	for table in $TABLES; do
		measure "$where" ipc "$table" --ranks "$RANKS" --backing ipc
		measure "$where" vmm "$table" --ranks "$RANKS" --backing vmm
		measure "$where" threads "$table" --ranks "$RANKS" --threads --backing ipc
		measure "$where" own-ipc "$table" --ranks 1 --backing ipc
		measure "$where" own-vmm "$table" --ranks 1 --backing vmm
	done
	table=${TABLES%% *}
	measure "$where" narrow "$table" --ranks "$RANKS" --width 4
	measure "$where" each-at "$table" --ranks "$RANKS" --width 4 --at element
	measure "$where" write "$table" --ranks "$RANKS" --op write
	measure "$where" add "$table" --ranks "$RANKS" --width 4 --op add
done
# What the link gives to plain kernels, natively: no gather can be faster.
if [ "$DRIVER" != emu ] && [ "$RANKS" -ge 2 ] && command -v nvcc > /dev/null; then
	nvcc -O3 -std=c++17 -arch=native -o "$HERE/link" bench/link.cu && native "$HERE/link" | table
	echo | table
fi
python3 bench/wcm_table.py "$OUT/wcm.json" --ranks "$RANKS" --link "$LINK" | table
exit $bad
