#!/usr/bin/env bash
# tests/systems/readme.sh [SUITE [start]] - README.md's own commands, word for word, in a system that has nothing but apt,
# git and make; with the seconds that each takes. Of `make demo` it also checks that no more is installed than it needs.
# `start`: only until the first tests have passed.
#
#   CRICKET_SKIPPED=FILE   gets the names of the tests of tests/e2e that were skipped there
set -euo pipefail
source "$(dirname "$0")/lib.sh"
suite=${1:-bookworm}
part=${2:-all}
times=

# block: the commands of README.md's first block of code that has `make demo`, less those whose work is done above it.
block() {
	awk '/^```/ { fenced = !fenced } /^    / || (fenced && !/^```/) { sub(/^    /, ""); lines = lines $0 "\n"; next }
		lines ~ /make demo/ { exit } { lines = "" } END { printf "%s", lines }' "$top/README.md" |
		grep -vE '^ *(#|$|sudo apt|apt|git clone|cd )'
}

# command_of_readme LINE: runs it in /src of the root. With `start`, it ends as soon as tests have passed.
command_of_readme() {
	local line=$1 log=$root/var/readme.log began=$SECONDS status=0
	echo "== $suite: $line"
	set -m
	inside env CRICKET_TEST_SKIPPED=/src/skipped sh -c "cd /src"$'\n'"$line" >"$log" 2>&1 </dev/null &
	inner=$!
	set +m
	while kill -0 $inner 2>/dev/null; do
		if [ "$part" = start ] && grep -qE '^[0-9]+ passed' "$log"; then
			kill -KILL -- -$inner 2>/dev/null || true
			times+="$((SECONDS - began)) s until $(grep -m 1 -oE '^[0-9]+ passed' "$log")  $line"$'\n'
			wait $inner 2>/dev/null || true
			inner=
			return
		fi
		sleep 1
	done
	wait $inner || status=$?
	inner=
	times+="$((SECONDS - began)) s  $line"$'\n'
	[ $status -eq 0 ] || { tail -n 400 "$log"; die "$suite: failed: $line"; }
	tail -n 4 "$log"
}

packages() { inside sh -c 'dpkg-query -W -f "\${Package}\n" | sort'; }

fresh "$suite"
began=$SECONDS
inside sh -c 'apt-get -q update && apt-get -q -y install --no-install-recommends git make' >"$root/var/readme.apt" 2>&1 ||
	skip "$suite: $(tail -n 1 "$root/var/readme.apt")"
checkout
times+="$((SECONDS - began)) s  apt install git make, git clone"$'\n'
packages >"$root/var/readme.before"
[ "$(block | grep -c '^make ')" -ge 2 ] || die "README.md has no block with make demo and make check"
mapfile -t lines < <(block)
for line in "${lines[@]}"; do
	command_of_readme "$line"
	case $line in
	"make demo"*)
		grep -q '^vector_add: 50000 elements, 0 wrong' "$root/var/readme.log" || die "vector_add has not run"
		packages | comm -13 "$root/var/readme.before" - >"$root/var/readme.installed"
		! grep -E 'mpi|hpcc|cmocka|pytest' "$root/var/readme.installed" || die "packages that the demo does not need"
		;;
	"make check"*)
		[ "$part" = start ] || grep -q '^check: everything passed' "$root/var/readme.log" || die "make check has not ended"
		grep -E '^(unit:|[0-9]+ passed|SKIPPED|=+ .*passed)' "$root/var/readme.log" || true
		;;
	esac
done
[ -z "${CRICKET_SKIPPED:-}" ] || sort -u "$root/src/skipped" >"$CRICKET_SKIPPED" 2>/dev/null || true
printf '%s' "$times"
echo "readme.sh: $suite: ok; $(wc -l <"$root/var/readme.installed") packages installed for the demo"
