#!/usr/bin/env bash
# tools/libtirpc.sh SOURCES OUT - builds libtirpc, the submodule in SOURCES, and installs it into OUT. Where
# SOURCES is empty, it says which libtirpc the build uses: the system's, by pkg-config.
#
# The build works on a copy (OUT/source), so that the submodule's work tree stays as git made it; there it
# leaves one link, SOURCES/install, where other builds of this library have put it.
set -euo pipefail
sources=$1
out=$2

die() { printf 'libtirpc: error: %s\n' "$*" >&2; exit 1; }

if [ ! -e "$sources/configure.ac" ]; then
	version=$(pkg-config --modversion libtirpc 2>/dev/null) ||
		die "$sources is empty, and the system has no libtirpc: 'make deps', or 'git submodule update --init'"
	echo "libtirpc: $sources is not checked out ('git submodule update --init' does that);" \
		"using the system's libtirpc $version ($(pkg-config --cflags --libs libtirpc))"
	exit 0
fi
for tool in autoreconf automake libtoolize; do
	command -v $tool >/dev/null || die "$tool is missing: 'make deps' installs autoconf, automake and libtool"
done
mkdir -p "$out/source"
out=$(cd "$out" && pwd)
# Sources of another commit are another build.
(cd "$sources" && find . -path ./.git -prune -o ! -path ./install -type f -print0 | sort -z |
	xargs -0 sha1sum) > "$out/source.new"
if ! cmp -s "$out/source.new" "$out/source.sums"; then
	rm -rf "$out"/{source,source.sums,lib,include,etc,share}
	mkdir "$out/source"
	tar -C "$sources" --exclude=./.git --exclude=./install -cf - . | tar -C "$out/source" -xf -
	mv "$out/source.new" "$out/source.sums"
fi
rm -f "$out/source.new"
cd "$out/source"
[ -x configure ] || autoreconf -fi || die "autoreconf failed in $out/source"
[ -f Makefile ] || ./configure -q --prefix="$out" --disable-gssapi --enable-static --with-pic || die "configure failed: $out/source/config.log"
make -s -j"$(nproc)" install
cd - >/dev/null
if [ ! -e "$sources/install" ] || [ -L "$sources/install" ]; then
	ln -sfnr "$out" "$sources/install" 2>/dev/null || true	# sources that are read-only go without it
fi
echo "libtirpc: $(PKG_CONFIG_PATH=$out/lib/pkgconfig pkg-config --modversion libtirpc) is in $out; cpu/Makefile uses it instead of the system's"
