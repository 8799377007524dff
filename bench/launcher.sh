#!/bin/bash
# bench/launcher.sh [OPTION]... - how long gpu_launcher takes, beside what it is meant to take.
#
# Options are the launcher's: none for this machine's GPU, `--connect HOST` for a server's, `--driver emu`
# without any. SIZE=N makes the large arrays N floats (100 million; ten million where the GPU is emulated).
# Needs what `make cpu` has built, and a CUDA compiler for the rows about compiling.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
exec python3 bench/launcher.py "$dir" "$@"
