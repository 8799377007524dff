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
leave_containers() {
	local status=$?
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
for options in "" "--user 1234"; do
	# shellcheck disable=SC2086
	own --rm "${alone[@]}" $options --rootfs "$root" /vector_add >/dev/null || die "cricket podman -s emu $options"
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
say ok
