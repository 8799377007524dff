#!/usr/bin/env bash
# tests/systems/containers.sh - programs in containers of podman, on this system's server with the emulated GPU: by a device of
# `cricket cdi`, and by `cricket podman`. The containers have the root file system of a Debian or Ubuntu of this machine's release,
# made by debootstrap, so no registry is needed. It must be root; the specification lies in /etc/cdi while the script runs, under a
# name of its own.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

say() { printf 'containers.sh: %s\n' "$*"; }

[ "$(id -u)" -eq 0 ] || skip "only root can start these containers"
for program in podman runc; do
	command -v $program >/dev/null || skip "no $program (tools/deps.sh --containers)"
done
for file in cpu/cricket cpu/cricket-rpc-server tests/test_apps/bin/vector_add; do
	[ -e "$top/$file" ] || skip "$file is missing: make"
done

# The client of this tree needs a libc as new as this machine's.
fresh "$(. /etc/os-release && echo "$VERSION_CODENAME")"
for app in vector_add registered managed_intro endless; do
	cp "$top/tests/test_apps/bin/$app" "$root/"
done
home=$(mktemp -d "$roots/use.XXXXXX")
used+=("$home")
export XDG_CONFIG_HOME=$home
cricket=$top/cpu/cricket

# Storage of its own; limits that root of a container may set; runc, for crun takes no mixture of both versions of cgroups.
engine=(--root "$home/store" --runroot "$home/run" --storage-driver vfs --runtime runc --cgroup-manager cgroupfs --events-backend file)
limits=(--ulimit "nofile=$(least "$(ulimit -Hn)" 8192)" --ulimit "nproc=$(least "$(ulimit -Hu)" 8192)")
pod() { podman "${engine[@]}" "$@"; }
# `cricket podman` puts its options behind `run`, and so the engine's own are there in a wrapper.
mkdir "$home/bin"
printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v podman) ${engine[*]}" >"$home/bin/podman"
chmod 755 "$home/bin/podman"
had_folder=$([ ! -d /etc/cdi ] || echo yes)
processes=()
leave_containers() {
	local status=$?
	# Podman of an ordinary user leaves a process that holds its namespaces.
	kill "${processes[@]}" $(cat "$home/user/run/libpod/tmp/pause.pid" 2>/dev/null) 2>/dev/null || true
	pod rm -f -t 0 -a >"$home/leave.log" 2>&1 || true
	[ -n "$had_folder" ] || { rm -f /etc/cdi/cricket-test-$$-* && rmdir /etc/cdi; } 2>/dev/null || true
	leave $status
}
trap leave_containers EXIT

alone=(--network none "${limits[@]}")
pod run --rm "${alone[@]}" --rootfs "$root" /bin/true >"$home/try.log" 2>&1 || skip "podman cannot run containers here: $(tail -n 1 "$home/try.log")"

serve --socket-mode 666

# device NAME OPTION...: a specification of the device NAME.
kind=cricket.test$$/gpu
device() {
	local file=/etc/cdi/cricket-test-$$-$1.json name=$1
	shift
	used+=("$file")
	"$cricket" cdi --kind "$kind" --name "$name" --output "$file" "$@"
}
device socket -s "unix:$socket"
# The dev container's options, with this device.
devcontainer() { python3 -c 'import json,sys; c = json.load(open(sys.argv[1])); print(*(c["runArgs"] if sys.argv[2] == "run" else [c[sys.argv[2]]]))' \
	"$top/docs/examples/devcontainer/server/devcontainer.json" "$1"; }
say 'a dev container'
# shellcheck disable=SC2046 # words
pod run --rm "${alone[@]}" $(devcontainer run | sed "s|cricket/gpu=lab|$kind=socket|") --user "$(devcontainer containerUser)" --rootfs "$root" \
	/bin/sh -c "$(devcontainer postStartCommand)" >"$home/devcontainer.log" 2>&1 || die "a dev container: $(cat "$home/devcontainer.log")"
sessions() { "$cricket" status --json -s "unix:$socket" | python3 -c 'import json,sys; print(json.load(sys.stdin)["session_count"])'; }
counts() { [ "$(sessions)" = "$1" ]; }
# await WHAT COMMAND...: until the command is true.
await() {
	local what=$1 end=$((SECONDS + 60))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || die "waited in vain: $what"
		sleep 0.1
	done
}
# same PROGRAM OPTION...: prints in a container what it prints on this system.
same() {
	local program=$1 here there
	shift
	here=$("$cricket" run -s "unix:$socket" -- "$root/$program" 2>&1) || die "$program on this system: $here"
	there=$(pod run --rm "${alone[@]}" --device "$kind=socket" "$@" --rootfs "$root" "/$program" 2>&1) || die "$program in a container: $there"
	[ "$here" = "$there" ] || die "$program: $there; not $here"
}

say "a device: a program without a network, by the socket of the server"
same vector_add
say "pinned and managed memory, with other process ids, as another user, in another user namespace"
for options in "" "--user 1234" "--uidmap 0:100000:65536"; do
	# shellcheck disable=SC2086
	same registered $options
	# shellcheck disable=SC2086
	same managed_intro $options
done

say "cricket podman, and cricket inside of a container"
PATH=$home/bin:$PATH "$cricket" podman -s "$server" run --rm "${alone[@]}" --rootfs "$root" /vector_add >/dev/null || die 'cricket podman'
pod run --rm "${alone[@]}" --device "$kind=socket" --rootfs "$root" cricket run -- /vector_add >/dev/null || die 'cricket run in a container'

say "an emulated GPU of its own: a container in the foreground, also of another user, and a detached one"
mkdir "$home/emulated"
own() { XDG_RUNTIME_DIR=$home/emulated PATH=$home/bin:$PATH "$cricket" podman -s emu run "$@"; }
gone() { [ -z "$(ls "$home/emulated")" ]; }
began=$(date +%s%N)
for options in "" "--user 1234"; do
	# shellcheck disable=SC2086
	own --rm "${alone[@]}" $options --rootfs "$root" /vector_add >/dev/null || die "cricket podman -s emu $options"
	say "cricket podman -s emu run ${options:+$options }ran a program in $((($(date +%s%N) - began) / 1000000)) ms"
	began=$(date +%s%N)
done
await 'the end of the emulated GPUs' gone
own -d --name emulated "${alone[@]}" --rootfs "$root" /endless sync >"$home/own.log" 2>&1 || die "cricket podman -s emu run -d: $(cat "$home/own.log")"
[ "$(pod inspect -f '{{.State.Running}}' emulated)" = true ] && ! gone || die 'the emulated GPU of a detached container has ended'
pod kill -s KILL emulated >/dev/null
await 'the end of the emulated GPU of the detached container' gone

say "two containers at once; a killed one leaves no session"
for name in one two; do
	pod run -d --name $name "${alone[@]}" --device "$kind=socket" --rootfs "$root" /endless sync >/dev/null
done
await 'two sessions' counts 2
pod kill -s KILL one >/dev/null
await 'the end of the session of the killed container' counts 1
[ "$(pod inspect -f '{{.State.Running}}' two)" = true ] || die 'the other container has ended'
pod kill -s KILL two >/dev/null
await 'the end of the other session' counts 0
kill "$serving"
wait "$serving" || true

say "a token over the network, which inspect does not show"
token=0123456789abcdef-of-the-test
echo $token >"$home/token"
serve --token-file "$home/token"
CRICKET_TOKEN=$token device network -s "tcp://$server"
network=(--network host "${limits[@]}" --device "$kind=network")
pod create --name token "${network[@]}" --rootfs "$root" /vector_add >/dev/null
! pod inspect token | grep -q $token || die 'inspect shows the token'
pod start -a token >/dev/null || die 'a program with the token'
CRICKET_TOKEN=wrong device network -s "tcp://$server"
! pod run --rm "${network[@]}" --rootfs "$root" /vector_add >"$home/wrong.log" 2>&1 || die 'a wrong token is accepted'
grep -q "not one of the server's tokens" "$home/wrong.log" || die "a wrong token: $(cat "$home/wrong.log")"

# An ordinary user with further user ids, who is there in this mount namespace only.
uid=4800
for file in passwd group subuid subgid; do
	cp "/etc/$file" "$home/$file" 2>/dev/null || : >"$home/$file"
done
printf 'ckuser:x:%s:%s::%s/user:/bin/sh\n' $uid $uid "$home" >>"$home/passwd"
printf 'ckuser:x:%s:\n' $uid >>"$home/group"
printf 'ckuser:200000:65536\n' | tee "$home/subuid" >"$home/subgid"
mkdir -m 700 "$home/user" "$home/user/run"
cp -r "$home/bin" "$home/user/bin"
printf '#!/bin/sh\nexec %s --runtime runc --cgroup-manager cgroupfs --storage-driver vfs --events-backend file "$@"\n' "$(command -v podman)" >"$home/user/bin/podman"
# as_user COMMAND...
as_user() {
	unshare --mount bash -c '
		set -e
		home=$1 uid=$2
		shift 2
		for file in passwd group subuid subgid; do
			mount --bind "$home/$file" "/etc/$file"
		done
		cd "$home/user"
		exec setpriv --reuid "$uid" --regid "$uid" --clear-groups env -i PATH="$home/user/bin:$PATH" HOME="$home/user" \
			XDG_RUNTIME_DIR="$home/user/run" ${LD_LIBRARY_PATH:+LD_LIBRARY_PATH=$LD_LIBRARY_PATH} "$@"' as_user "$home" $uid "$@"
}
# The container's root is this user.
chmod 711 "$home" "$root"
chown -R $uid:$uid "$root" "$home/user"
near=(--rm --network none --rootfs "$root")
if ! command -v newuidmap >/dev/null || [ ! -e /etc/subuid ]; then
	say 'SKIPPED: podman of an ordinary user: no newuidmap (package uidmap)'
elif ! as_user podman run "${near[@]}" /bin/true >"$home/try.log" 2>&1; then
	say "SKIPPED: podman of an ordinary user cannot run containers here: $(tail -n 1 "$home/try.log")"
else
	say "podman of an ordinary user: an emulated GPU of its own; a server of the user, by its socket, pinned memory, keep-id, a token; a server of root"
	for options in "" "--user 1234"; do
		# shellcheck disable=SC2086
		as_user "$cricket" podman -s emu run $options "${near[@]}" /vector_add >/dev/null || die "-s emu, of a user $options"
	done
	printf '%s\n' $token >"$home/user/token"
	chown $uid:$uid "$home/user/token"
	as_user "$top/cpu/cricket-rpc-server" --driver emu --listen none --unix "$home/user/s" --token-file "$home/user/token" \
		--pid-file "$home/user/pid" 2>"$home/user.log" &
	await 'the server of the user' [ -S "$home/user/s.status" ]
	processes+=("$(cat "$home/user/pid")")
	for words in "/vector_add" "/registered" "/managed_intro"; do
		as_user env CRICKET_TOKEN=$token "$cricket" podman -s "unix:$home/user/s" run "${near[@]}" $words >/dev/null || die "$words with podman of a user"
	done
	as_user env CRICKET_TOKEN=$token "$cricket" podman -s "unix:$home/user/s" run --userns keep-id "${near[@]}" /vector_add >/dev/null || die 'keep-id'
	chmod 711 "$(dirname "$socket")"
	! as_user "$cricket" podman -s "unix:$socket" run "${near[@]}" /vector_add 2>"$home/other.log" || die "a socket of root is used"
	grep -q 'this user may not use this socket' "$home/other.log" || die "a socket of root: $(cat "$home/other.log")"
fi
say ok
