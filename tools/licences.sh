#!/usr/bin/env bash
# tools/licences.sh [debian | packages] - prints the licences of what the built programs contain: Cricket's, and those of the
# libraries that are linked statically, as their packages state them on this system. `debian`: as debian/copyright.
# `packages`: only the names of the libraries' packages.
# CRICKET_SYSROOT=FOLDER: of the client that was built with the libraries there (tools/arm64.sh --root).
set -euo pipefail
cd "$(dirname "$0")/.."
libraries=(libtirpc-dev libssl-dev liblz4-dev libzstd-dev libb2-dev libjansson-dev libconfig-dev libseccomp-dev libelf-dev libncurses-dev libfast-float-dev)
# OpenSSL 3.5's archive, and no older one, brings zlib with it.
! grep -qs '^Libs.private:.* -lz ' "${CRICKET_SYSROOT:-}"/usr/lib/*/pkgconfig/libcrypto.pc || libraries+=(zlib1g-dev)

if [ "${1:-}" = packages ]; then
	printf '%s\n' "${libraries[@]}"
	exit
fi

title() { printf '\n%s\n%s\n' "$1" "$(printf '%s' "$1" | tr -c '' '-')"; }

if [ "${1:-}" = debian ]; then
	printf 'Cricket was written by the Cricket authors.\n\nCopyright: 2026 The Cricket authors\nLicense: MIT\n\n'
fi
title 'Cricket'
cat LICENSE
for name in "${libraries[@]}"; do
	notice=${CRICKET_SYSROOT:-}/usr/share/doc/$name/copyright
	[ -r "$notice" ] || { echo "licences: error: $notice is missing: install $name" >&2; exit 1; }
	title "Linked statically: ${name%-dev} $(dpkg-query --admindir="${CRICKET_SYSROOT:-}/var/lib/dpkg" -W -f '${Version}' "$name")"
	cat "$notice"
done
if [ -r build/zig/lib/ziglang/LICENSE ]; then
	title 'Linked statically in what make portable builds: compiler-rt, from zig'
	cat build/zig/lib/ziglang/LICENSE
fi
[ -z "${CRICKET_SYSROOT:-}" ] || exit 0
title 'Linked statically: libstdc++ (gpu_launcher only)'
cat <<'END'
Parts of the GNU C++ library, under the GNU General Public License, version 3 or later, with the GCC Runtime Library
Exception, version 3.1, which permits to link it with programs under any licence. On Debian systems, the licence is in
/usr/share/common-licenses/GPL-3.
END
