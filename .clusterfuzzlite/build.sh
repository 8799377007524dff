#!/bin/bash -eu
# .clusterfuzzlite/build.sh - builds the fuzz targets into $OUT, as ClusterFuzzLite and OSS-Fuzz ask; needs no network.
#
# Each target has its seeds beside it, and the shared libraries that it needs in $OUT/lib: the image in which it
# runs has none of them. Alone:
#
#   OUT=/tmp/fuzzers .clusterfuzzlite/build.sh
cd "$(dirname "$0")/.."
[ -e tests/fuzz ] || cd "$SRC/cricket"
: "${OUT:?the folder for the targets}" "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}"
mkdir -p "$OUT/lib"

# The Makefiles have the sanitizers' flags.
unset CFLAGS CXXFLAGS
make -j"$(nproc)" -C tests fuzz-programs FUZZ_ENGINE="$LIB_FUZZING_ENGINE" \
	FUZZ_LDFLAGS="-Wl,--disable-new-dtags,-rpath,'\$\$ORIGIN/lib'"

# What every Linux has stays out.
needed() {
	ldd "$1" | awk -v out="$OUT/" '$3 ~ /^\// && index($3, out) != 1 && $1 !~ /^(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so/ {print $3}'
}

for source in tests/fuzz/fuzz_*.c; do
	name=$(basename "$source" .c)
	cp "build/fuzz/fuzz/$name" "$OUT/"
	needed "$OUT/$name" | xargs -r cp -Lu -t "$OUT/lib"
	seeds=()
	for folder in tests/fuzz/corpus/"${name#fuzz_}" tests/data/"${name#fuzz_}"; do
		[ ! -d "$folder" ] || seeds+=("$folder")
	done
	[ ${#seeds[@]} -eq 0 ] || zip -qr "$OUT/${name}_seed_corpus.zip" "${seeds[@]}"
done
