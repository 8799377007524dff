#!/usr/bin/env bash
# tests/systems/demo.sh [SUITE] - `make demo` in a system that has nothing but apt and make: what it installs suffices,
# and is no more than it says.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
suite=${1:-bookworm}

fresh "$suite"
sources
inside apt-get -q update >/dev/null
inside apt-get -q -y install --no-install-recommends make >/dev/null
inside sh -c 'dpkg-query -W -f "\${Package}\n" | sort >/var/before; cd /src && make demo' 2>&1 | tee "$root/var/log/demo"
grep -q '^vector_add: 50000 elements, 0 wrong' "$root/var/log/demo" || die "vector_add has not run"
inside sh -c 'dpkg-query -W -f "\${Package}\n" | sort | comm -13 /var/before -' >"$root/var/log/installed"
! grep -E 'mpi|hpcc|cmocka|pytest' "$root/var/log/installed" || die "packages that the demo does not need"
echo "demo.sh: $suite: ok; $(wc -l <"$root/var/log/installed") packages installed"
