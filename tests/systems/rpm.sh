#!/usr/bin/env bash
# tests/systems/rpm.sh [SUITE] - the RPM packages, installed by rpm into a copy of a Debian system, for want of another
# one: what they need, a program on the emulated GPU, and removal.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
suite=${1:-bookworm}
packages=$top/build/packages

# What a package needs of glibc: the newest version.
newest() { rpm -qp --requires "$1" 2>/dev/null | sed -n 's/^lib.*(GLIBC_\([0-9.]*\)).*/\1/p' | sort -uV | tail -n 1; }
in_root() { rpm --root "$root" --nodeps "$@"; }

make_root "$suite"	# nothing is built where no root can be made
command -v rpmbuild >/dev/null || skip "rpmbuild is missing (tools/deps.sh --packages)"
make -C "$top" --no-print-directory -s rpm
libs=$(echo "$packages"/cricket-libs-*.rpm) devel=$(echo "$packages"/cricket-devel-*.rpm)
client=$(echo "$packages"/cricket-client-*.rpm) server=$(echo "$packages"/cricket-server-*.rpm)
[ "$(newest "$client")" = 2.17 ] || die "the client needs glibc $(newest "$client")"
[ "$(newest "$libs")" = 2.17 ] || die "the libraries need glibc $(newest "$libs")"
for provided in 'libm3.so.1(LIBM3_1.0)(64bit)' 'libwcm.so.1(LIBWCM_1.0)(64bit)'; do
	rpm -qp --provides "$libs" | grep -qxF "$provided" || die "$libs does not provide $provided"
done
! rpm -qp --requires --provides "$client" "$server" | grep libcuda || die "the packages need or provide a driver"

fresh "$suite"
inside apt-get -q update >/dev/null
inside apt-get -q -y install --no-install-recommends libtirpc3 libelf1 >/dev/null
cc -O2 -I"$top" -o "$root/driver_ptx" "$top/tests/test_apps/driver_ptx.c" -ldl
in_root -i "$client" "$server" "$libs" "$devel"
make -s -C "$root" -f "$top/docs/examples/libraries/Makefile" VPATH="$top/docs/examples/libraries" CFLAGS="-std=c11" \
	PKG_CONFIG="env PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib64/pkgconfig pkg-config"
inside cricket-rpc-server --check-policy /usr/share/doc/cricket-server/examples/policy
inside ls /usr/share/doc/cricket-server/examples/{checkpoint,worker-users}.conf
inside sh -euc '
	cricket-rpc-server --driver emu --listen 127.0.0.1:0 >/tmp/log 2>&1 &
	until [ -S /run/cricket.sock ]; do
		kill -0 $! || { cat /tmp/log >&2; exit 1; }
		sleep 0.1
	done
	cricket check -s unix:/run/cricket.sock
	cricket run -s unix:/run/cricket.sock -- /driver_ptx
	export CRICKET_M3=/run/cricket.sock.m3 LD_LIBRARY_PATH=/usr/lib64:/usr/lib/cricket/emu
	/note kept && /note | grep -qx kept && /squares 0 1
	kill $!
	wait $!'
in_root -e cricket-client cricket-server cricket-devel cricket-libs
left=$(find "$root/usr" "$root/etc" "$root/var/cache" -name '*cricket*' -o -name 'libm3*' -o -name 'libwcm*')
[ -z "$left" ] || die "removal has left $left"
echo "rpm.sh: $suite: needs, install, run, removal: ok"
