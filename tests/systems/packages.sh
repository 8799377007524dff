#!/usr/bin/env bash
# tests/systems/packages.sh [SUITE [built]] - the Debian packages: lintian, then in a bare system: install, run a program
# on the emulated GPU, install again over the running server, purge. Nothing may be left. `built`: those that are there.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
suite=${1:-bookworm}
packages=$top/build/packages
unit=/usr/lib/systemd/system/cricket-rpc-server.service

# The files of $root but those that any package changes, and copies of /etc/shadow: the user cricket stays.
files() {
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./var/cache/apt -o \
		-path ./var/lib/apt -o -path ./var/log -o -path ./var/lib/dpkg -o -path ./var/cache/debconf -o \
		-path ./packages -o -name 'ld.so.cache' -o -name '__pycache__' -o -path ./var/cache/ldconfig -o -path './etc/*-' \) -prune -o -print | sort)
}

# As the unit starts it, in the background; the system has no systemd.
cat_service() {
	cat <<-'END'
		OPTIONS=
		install -d -o cricket -g cricket /run/cricket
		install -d -m 0700 -o cricket -g cricket /var/cache/cricket /var/lib/cricket
		export CRICKET_CACHE_DIR=/var/cache/cricket
		start=$(sed -n "s/^ExecStart=//p" "$1")
		eval "exec setpriv --reuid cricket --regid cricket --init-groups $start"
	END
}

# What users do: `cricket run`, as root and as another user; the upgrade; in one go, for mounts end with it.
cat_use() {
	cat <<-'END'
		set -eu
		fail() { echo "packages: $*" >&2; cat /tmp/log >&2; exit 1; }
		printf 'driver = emu\nlisten = 127.0.0.1:0\n' >/etc/cricket/server.conf
		sh /packages/service "$1" >/tmp/log 2>&1 &
		server=$!
		n=0
		until [ -S /run/cricket.sock ]; do
			n=$((n + 1))
			[ $n -lt 600 ] && kill -0 $server || fail "the service has not started"
			sleep 0.1
		done
		cricket check -s unix:/run/cricket.sock || fail "cricket check"
		cricket run -s unix:/run/cricket.sock -- /packages/driver_ptx || fail "a program over the socket"
		HOME=/tmp setpriv --reuid 65534 --regid "$(id -g cricket)" --clear-groups \
			cricket run -- /packages/driver_ptx || fail "a program of a user in the group cricket"
		grep -q "for user nobody$" /tmp/log || fail "the server does not know that user"
		address=$(sed -n 's/.*listening on \(127\..*\)/\1/p' /tmp/log)
		HOME=/tmp setpriv --reuid 65534 --regid 65534 --clear-groups \
			cricket run -s "$address" -- /packages/driver_ptx || fail "a program of another user"
		cricket status || fail "cricket status"
		LD_LIBRARY_PATH=/usr/lib/cricket/emu /packages/driver_ptx || fail "a program without a server"
		REMOTE_GPU_ADDRESS=unix:/run/cricket.sock kernel-loader --lh cuda=/usr/lib/cricket/cuda_lh.exe -- \
			/packages/driver_ptx || fail "a program under kernel-loader"
		CRICKET_M3=/run/cricket.sock.m3 /packages/note kept && CRICKET_M3=/run/cricket.sock.m3 /packages/note |
			grep -qx kept || fail "a program with libm3"
		LD_LIBRARY_PATH=/usr/lib/cricket/emu /packages/squares 0 1 || fail "a program with libwcm"
		apt-get -q -y --reinstall install /packages/*.deb || fail "installing again"
		kill -s USR2 $server
		until grep -q "upgrade: executing" /tmp/log; do
			kill -0 $server || fail "the upgrade"
			sleep 0.1
		done
		cricket run -s unix:/run/cricket.sock -- /packages/driver_ptx || fail "a program after the upgrade"
		kill $server
		wait $server || fail "the service ended with $?"
	END
}

make_root "$suite"	# nothing is built where no root can be made
[ "${2:-}" = built ] || "$top/tools/deb.sh"
rm -f "$packages"/*-dbgsym_*.deb
lintian --allow-root --fail-on error,warning "$packages"/*.deb
fresh "$suite"
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages/"
cc -O2 -I"$top" -o "$root/packages/driver_ptx" "$top/tests/test_apps/driver_ptx.c" -ldl
cat_service >"$root/packages/service"
cat_use >"$root/packages/use"
inside apt-get -q update >/dev/null
inside apt-get -q -y install --no-install-recommends libtirpc3 libelf1 libgcc-s1 \
	systemd-standalone-sysusers systemd-standalone-tmpfiles >/dev/null
files >"$root/var/log/before"
inside sh -c 'apt-get -q -y install --no-install-recommends /packages/*.deb' >"$root/var/log/install" 2>&1 ||
	{ cat "$root/var/log/install" >&2; die "the packages do not install"; }
# Programs built with the -dev packages, by this system's compiler, find the libraries there.
make -s -C "$root/packages" -f "$top/docs/examples/libraries/Makefile" VPATH="$top/docs/examples/libraries" CFLAGS="-std=c11" \
	PKG_CONFIG="env PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/x86_64-linux-gnu/pkgconfig pkg-config"
inside cricket-rpc-server --check-policy /usr/share/doc/cricket-server/examples/policy
inside ls /usr/share/doc/cricket-server/examples/{checkpoint,worker-users}.conf
inside sh /packages/use $unit
[ -L "$root/etc/systemd/system/multi-user.target.wants/cricket-rpc-server.service" ] || die "the service is not enabled"
inside apt-get -q -y --auto-remove purge $(cd "$packages" && ls *.deb | sed "s/_.*//") >"$root/var/log/purge" 2>&1 ||
	{ cat "$root/var/log/purge" >&2; die "the packages do not go"; }
files | diff "$root/var/log/before" - || die "purge has left something"
echo "packages.sh: $suite: lintian, install, run, upgrade, purge: ok"
