#!/bin/bash
# bench/record_readme.sh [COMMAND...] - the recording that README.md shows: nvidia-smi and PyTorch where no NVIDIA device can
# be opened, through a server of this machine that is called gpuhost. Needs a GPU, PyTorch and root, and no network.
# Writes $OUT/first-run.cast (build/gpu); tools/record.py draws it, here or on another machine:
#
#   bench/record_readme.sh
#   PYTHONPATH=build/pyte tools/record.py draw docs/first-run.cast docs/first-run.svg
#
# DRIVER=emu and a COMMAND try it on the emulated GPU. Fails if a command fails.
set -eu
cd "$(dirname "$0")/.."
. bench/lib.sh
hide=bench/no-gpu.sh
[ "$DRIVER" != emu ] || hide=
[ $# -gt 0 ] || set -- 'cricket run -s gpuhost nvidia-smi' 'cricket run -s gpuhost python3 tests/test_apps/pytorch_minimal.py'

server
mkdir -p "$HERE/config/cricket"
printf '[gpuhost]\naddress = %s\n' "$(address_of tcp)" > "$HERE/config/cricket/config"
export PATH=$PWD/cpu:$PATH XDG_CONFIG_HOME=$HERE/config TERM=xterm
# The first run on a server sends modules and makes a context: it is not the one to show.
for command in "$@"; do
	$hide sh -c "exec $command" > "$OUT/record.log" 2>&1 || { cat "$OUT/record.log"; echo "failed: $command"; exit 1; }
done
tools/record.py play "$OUT/first-run.cast" --within "$hide" "$@"
echo "$OUT/first-run.cast"
