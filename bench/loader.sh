#!/usr/bin/env bash
# bench/loader.sh - what kernel-loader costs: a call into a half, and MPI under it against MPI alone,
# by turns in one run. Needs two idle cores: on a busy machine the MPI rows say nothing. No GPU.
#
#   bench/loader.sh [TURNS]     5
set -euo pipefail
cd "$(dirname "$0")/.."
turns=${1:-5}
out=build/tests-loader
mkdir -p $out
make -s loader
make -s -C tests/loader
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

gcc -O2 -I. -o $out/loader_call bench/loader_call.c $out/stubs/toy/libtoy.so
mpicc -O2 -o $out/loader_mpi bench/loader_mpi.c
load=(loader/kernel-loader --lh "toy=$out/toy_lh.exe" --)
printf 'with FSGSBASE:    '
"${load[@]}" $out/loader_call
printf 'by system calls:  '
CRICKET_LOADER_FSGSBASE=0 "${load[@]}" $out/loader_call

# median FILE COLUMN
median() { sort -g -k"$2" "$1" | awk -v c="$2" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for _ in $(seq "$turns"); do
	mpirun --oversubscribe -np 2 $out/loader_mpi >>"$tmp/native"
	mpirun --oversubscribe -np 2 loader/kernel-loader --lh mpi=loader/mpi_lh.exe -- $out/loader_mpi >>"$tmp/loader"
done
echo "| MPI, 2 ranks, $turns turns by turns | native | loader | ratio |"
echo "|---|---|---|---|"
# best FILE COLUMN: of latency the least, of bandwidth the most
best() { sort -g -k"$2" "$1" | awk -v c="$2" '{ v[NR] = $c } END { print c == 1 ? v[1] : v[NR] }'; }
for row in "1:latency of 1 byte, us" "2:bandwidth of 1 MiB, MB/s"; do
	for how in median best; do
		column=${row%%:*}
		a=$($how "$tmp/native" "$column") b=$($how "$tmp/loader" "$column")
		echo "| ${row#*:}, $how | $a | $b | $(awk "BEGIN { printf \"%.2f\", $b / $a }") |"
	done
done
