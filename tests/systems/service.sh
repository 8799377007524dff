#!/usr/bin/env bash
# tests/systems/service.sh [SUITE] - the packaged service under systemd as pid 1, in namespaces of its own: the commands of
# docs/install.md from `apt install` to TLS, three tokens, policy, audit and the web page; then reload, upgrade and purge.
# Takes the packages that are in build/packages (packages.sh, make deb).
set -euo pipefail
source "$(dirname "$0")/lib.sh"
suite=${1:-bookworm}
packages=${CRICKET_PACKAGES:-$top/build/packages}
booted=

stop() {
	local status=$?
	# unshare and systemd ignore other signals; all processes of the system end with its first
	[ -z "${init:-}" ] || kill -s KILL "$init" 2>/dev/null || true
	[ -z "$booted" ] || { kill -s KILL "$booted"; wait "$booted"; } 2>/dev/null || true
	leave $status
}
trap stop EXIT

# What a container's manager does before it executes the init program.
cat_begin() {
	cat <<-'END'
		set -e
		root=$1
		mount --make-rprivate /
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount -t sysfs sysfs "$root/sys"
		mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
		mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
		for folder in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
		chmod 1777 "$root/tmp"
		for file in null zero full random urandom tty; do
			: >"$root/dev/$file"
			mount --bind "/dev/$file" "$root/dev/$file"
		done
		mkdir "$root/dev/pts" "$root/dev/shm"
		mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
		mount -t tmpfs tmpfs "$root/dev/shm"
		ln -s pts/ptmx "$root/dev/ptmx"
		ln -s /proc/self/fd "$root/dev/fd"
		ip link set lo up
		hostname gpuhost
		exec chroot "$root" env -i container=cricket /lib/systemd/systemd --log-target=null --unit=multi-user.target
	END
}

# Starts systemd; $init is its process.
boot() {
	unshare --mount --pid --fork --kill-child --uts --ipc --net --cgroup bash -c "$(cat_begin)" begin "$root" </dev/null \
		>"$root/var/log/begin" 2>&1 &
	booted=$!
	init=
	until [ -n "$init" ] && system systemctl is-system-running --wait >/dev/null 2>&1; do
		kill -0 $booted 2>/dev/null || skip "systemd does not start here: $(tail -n 1 "$root/var/log/begin")"
		init=$(pgrep -P $booted || true)
		sleep 0.1
	done
}

# A command in the booted system.
system() {
	nsenter -t "$init" --all --root --wd env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
		DEBIAN_FRONTEND=noninteractive "$@"
}

fail() {
	printf 'service.sh: %s\n' "$*" >&2
	system journalctl -q --no-pager -n 40 >&2 || true
	exit 1
}

# step N COMMAND...: one of the commands that install.md counts.
step() {
	echo "--- $1: ${*:2}"
	system sh -euc "${*:2}" || fail "command $1 fails"
}

# has TEXT COMMAND...: its output has the text.
has() {
	local out
	out=$(system "${@:2}" 2>&1) || fail "${*:2}: $out"
	grep -qF -e "$1" <<<"$out" || fail "${*:2}: '$1' is not in: $out"
}

# refuses TEXT COMMAND...: it fails.
refuses() {
	local out
	! out=$(system "${@:2}" 2>&1) || fail "${*:2} succeeds: $out"
	grep -qF -e "$1" <<<"$out" || fail "${*:2}: '$1' is not in: $out"
}

# quiet COMMAND: it succeeds, and dpkg warns of nothing.
quiet() {
	local out
	out=$(system sh -euc "$1" 2>&1) || fail "$1: $out"
	! grep -F 'dpkg: warning' <<<"$out" >&2 || fail "$1: dpkg warns"
}

# Until COMMAND succeeds.
wait_for() {
	local n=0
	until system "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 300 ] || fail "waiting for: $*"
		sleep 0.1
	done
}

# in_journal UNIT TEXT: the journal has a line some time after it was said.
in_journal() { wait_for sh -c 'journalctl -q --no-pager -u "$1" | grep -qF -e "$2"' in_journal "$@"; }

[ -n "$(ls "$packages"/cricket-server_*.deb 2>/dev/null)" ] || die "no packages in build/packages: make deb"
fresh "$suite"
inside apt-get -q update >/dev/null
inside apt-get -q -y install --no-install-recommends systemd systemd-sysv curl libtirpc3 libelf1 libgcc-s1 libmicrohttpd12 >/dev/null
mkdir "$root/packages"
cp "$packages"/cricket-{client,server}_*.deb "$root/packages/"
cc -O2 -I"$top" -o "$root/packages/driver_ptx" "$top/tests/test_apps/driver_ptx.c" -ldl
boot
began=$(date +%s%N)

# The commands of docs/install.md.
step 1 'apt-get -q -y install --no-install-recommends /packages/*.deb >/dev/null'
step 2 'cricket-rpc-server --setup gpuhost alice bob carol | tee /root/setup'
step 3 'printf "%s\n" "default: { sessions = 4; };" "identities: ( { token = \"alice\"; sessions = 2; memory = \"50%\"; } );" >/etc/cricket/policy'
step 4 'systemctl restart cricket-rpc-server'
step 5 'systemctl enable -q --now cricket-exporter'
took=$((($(date +%s%N) - began) / 1000000))

# All of it works: TLS with the pin, a token, policy, audit, page.
login=$(sed -n 's/^ *cricket login \(gpuhost#.*\)/\1/p' "$root/root/setup")
token_of() { sed -n "s/^ *token of $1: //p" "$root/root/setup"; }
echo '127.0.0.1 gpuhost' >>"$root/etc/hosts"
has "" sh -c "echo $(token_of alice) | cricket login $login"
has "" cricket run -s gpuhost -- /packages/driver_ptx
has "" env CRICKET_TLS_PIN="${login#*#}" CRICKET_TOKEN="$(token_of bob)" REMOTE_GPU_ADDRESS=gpuhost cricket run -- /packages/driver_ptx
refuses token env CRICKET_TLS_PIN="${login#*#}" CRICKET_TOKEN=wrong REMOTE_GPU_ADDRESS=gpuhost cricket run -- /packages/driver_ptx
has '"identity":"alice"' cat /var/log/cricket/audit
has '"reason":"token"' cat /var/log/cricket/audit
wait_for curl -sf http://127.0.0.1:9400/healthz
has '"release"' curl -sf http://127.0.0.1:9400/status.json
has "tls-cert = /etc/cricket/tls/cert.pem" cricket-rpc-server --unix /run/cricket/cricket.sock --ctl config
has "3 tokens, 0 of them expired" cricket-rpc-server --unix /run/cricket/cricket.sock --ctl config

# The exporter with TLS and tokens, as exporter.env suggests.
system sed -i -e '/^OPTIONS=/d' -e 's/^# OPTIONS=/OPTIONS=/' /etc/cricket/exporter.env
has "" systemctl restart cricket-exporter
wait_for curl -sfk -u "x:$(token_of carol)" https://127.0.0.1:9400/healthz
refuses "" curl -sfk https://127.0.0.1:9400/status.json

# Reload: right and wrong files, reported to the caller; what was right stays.
pid() { system systemctl show -P MainPID cricket-rpc-server; }
server=$(pid)
has "" systemctl reload cricket-rpc-server
system sh -c 'echo "nonsense = 1;" >>/etc/cricket/policy'
refuses "" systemctl reload cricket-rpc-server
in_journal cricket-rpc-server "the policy stays as it was: /etc/cricket/policy:3: unknown key: nonsense"
system sed -i '$d' /etc/cricket/policy
has "" systemctl reload cricket-rpc-server
system sh -c 'echo nonsense >>/etc/cricket/tokens'
refuses "" systemctl reload cricket-rpc-server
system sed -i '$d' /etc/cricket/tokens
has "" systemctl reload cricket-rpc-server
system mv /etc/cricket/tls/key.pem /etc/cricket/key
refuses "" systemctl reload cricket-rpc-server
system mv /etc/cricket/key /etc/cricket/tls/key.pem
has "" systemctl reload cricket-rpc-server
system sh -c 'kill -s USR1 $(grep -vx 0 /sys/fs/cgroup/system.slice/cricket-rpc-server.service/cgroup.procs)'
has "" cricket run -s gpuhost -- /packages/driver_ptx
[ "$(pid)" = "$server" ] || fail "the server has not lived through the reloads"

# Wrong options: the service fails at once, without a loop, and says why.
system sh -c 'echo "max-sessions = many" >>/etc/cricket/server.conf'
refuses "" systemctl restart cricket-rpc-server
in_journal cricket-rpc-server "max-sessions = many: not a number from 1 to 100000"
has "failed" systemctl show -P ActiveState cricket-rpc-server
has "0" systemctl show -P NRestarts cricket-rpc-server
system sed -i '$d' /etc/cricket/server.conf
system systemctl reset-failed cricket-rpc-server
has "" systemctl restart cricket-rpc-server

# An upgrade: the server goes on in its new program, and the exporter starts again.
server=$(pid)
exporter=$(system systemctl show -P MainPID cricket-exporter)
quiet 'apt-get -q -y --reinstall install /packages/*.deb'
wait_for sh -c 'journalctl -q --no-pager -u cricket-rpc-server | grep -q "upgrade: executing"'
has "" cricket run -s gpuhost -- /packages/driver_ptx
[ "$(pid)" = "$server" ] || fail "the upgrade was a restart"
has "" systemctl is-active cricket-exporter
[ "$(system systemctl show -P MainPID cricket-exporter)" != "$exporter" ] || fail "the exporter runs its old program"
wait_for curl -sfk -u "x:$(token_of carol)" https://127.0.0.1:9400/healthz

# One that does not run stays as it is.
has "" systemctl stop cricket-exporter
quiet 'apt-get -q -y --reinstall install /packages/cricket-server_*.deb'
refuses "inactive" systemctl is-active cricket-exporter
has "" systemctl start cricket-exporter

# Removed, installed again with its files, and purged: no process, key, token or link is left.
quiet 'apt-get -q -y remove cricket-server'
refuses "inactive" systemctl is-active cricket-exporter
has "" test -f /etc/cricket/tokens
quiet 'apt-get -q -y install --no-install-recommends /packages/*.deb'
wait_for cricket run -s gpuhost -- /packages/driver_ptx
has "" systemctl start cricket-exporter
quiet 'apt-get -q -y purge cricket-server cricket-client'
for unit in cricket-rpc-server cricket-exporter; do
	refuses "" systemctl is-active $unit
done
! pgrep -P "$init" -f cricket >/dev/null || fail "a process is left"
left=$(system find /etc/systemd /etc/cricket /var/lib/cricket /var/cache/cricket /var/log/cricket /run/cricket /run/cricket.sock \
	-path '*cricket*' 2>/dev/null || true)
[ -z "$left" ] || fail "purge has left $left"
echo "service.sh: $suite: 5 commands in $took ms: TLS, tokens, policy, audit, page; reload, upgrade, purge: ok"
