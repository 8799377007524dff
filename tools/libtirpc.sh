#!/usr/bin/env bash
# tools/libtirpc.sh DIR - builds the libtirpc submodule in DIR into DIR/install where it is checked
# out; where it is not, says which libtirpc the build uses (the system's, by pkg-config).
set -euo pipefail
dir=$1

if [ ! -e "$dir/configure.ac" ]; then
	version=$(pkg-config --modversion libtirpc 2>/dev/null) || {
		echo "libtirpc: neither in $dir nor on the system: 'make deps', or" \
			"'git submodule update --init $dir'" >&2
		exit 1
	}
	echo "libtirpc: $dir is not checked out; using the system's libtirpc $version" \
		"($(pkg-config --cflags --libs libtirpc))"
	exit 0
fi
for tool in autoreconf libtoolize; do
	command -v $tool >/dev/null || { echo "libtirpc: $tool is missing (packages autoconf automake libtool)" >&2; exit 1; }
done
prefix=$(cd "$dir" && pwd)/install
cd "$dir"
[ -x configure ] || autoreconf -fi
[ -f Makefile ] || ./configure -q --prefix="$prefix" --disable-gssapi --disable-static
make -s -j"$(nproc)" install
echo "libtirpc: built into $dir/install"
