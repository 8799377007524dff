#!/usr/bin/env bash
# bench/loader.sh - what kernel-loader costs: a call into a half, and MPI under it against MPI alone,
# by turns in one run. Needs two cores: the ranks run at real-time priority where that is permitted (root),
# elsewhere nothing else may run. No GPU.
#
#   bench/loader.sh [TURNS]     15: of a pair, less than two seconds each
#   bench/loader.sh suite [FOLDER]
#
# suite: the whole tests of mpi4py, natively and under the loader, from FOLDER (its source's test/), or from
# the source that pip fetches; without its tests of spawned processes, which need free slots. Minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
turns=${1:-15}
out=build/tests-loader
mkdir -p $out
make -s loader
make -s -C tests/loader
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

suite() {
	local folder=${1:-} version args=(--no-builddir -e spawn -e dynproc)
	if [ -z "$folder" ]; then
		version=$(/usr/bin/python3 -c 'import mpi4py; print(mpi4py.__version__)')
		folder=$PWD/$out/mpi4py-$version/test
		if [ ! -d "$folder" ]; then
			pip download -q --no-deps --no-build-isolation --no-binary :all: -d $out "mpi4py==$version"
			tar -xzf "$out/mpi4py-$version.tar.gz" -C $out
		fi
	fi
	local here=$PWD
	cd "$folder"
	for how in native loader; do
		local under=()
		[ $how = native ] || under=("$here/loader/kernel-loader" --lh "mpi=$here/loader/mpi_lh.exe" --)
		echo "$how: $(mpirun --oversubscribe -np 2 "${under[@]}" /usr/bin/python3 runtests.py "${args[@]}" 2>&1 |
			grep -E '^(Ran|OK|FAILED)' | sed 's/ in .*//' | sort | uniq -c | tr -s ' \n' ' ')"
	done
}
if [ "${1:-}" = suite ]; then
	suite "${2:-}"
	exit
fi

gcc -O2 -I. -o $out/loader_call bench/loader_call.c $out/stubs/toy/libtoy.so
mpicc -O2 -o $out/loader_mpi bench/loader_mpi.c
load=(loader/kernel-loader --lh "toy=$out/toy_lh.exe" --)
printf 'with FSGSBASE:    '
"${load[@]}" $out/loader_call
printf 'by system calls:  '
CRICKET_LOADER_FSGSBASE=0 "${load[@]}" $out/loader_call

# median FILE COLUMN
median() { sort -g -k"$2" "$1" | awk -v c="$2" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'; }
first=
chrt -f 10 true 2>/dev/null && first="chrt -f 10"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for _ in $(seq "$turns"); do
	$first mpirun --oversubscribe -np 2 $out/loader_mpi >>"$tmp/native"
	$first mpirun --oversubscribe -np 2 loader/kernel-loader --lh mpi=loader/mpi_lh.exe -- $out/loader_mpi >>"$tmp/loader"
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
