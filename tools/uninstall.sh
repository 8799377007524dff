#!/usr/bin/env bash
# tools/uninstall.sh [PREFIX] - removes what tools/install.sh puts below PREFIX (/usr/local); DESTDIR as there. `make uninstall`.
# The files are those that it would install now, from this tree.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${1:-/usr/local}
prefix=${prefix%/}
root=${DESTDIR:-}$prefix
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

DESTDIR=$stage tools/install.sh all "${prefix:-/}" >/dev/null
units=(cricket-rpc-server.service cricket-exporter.service)
for unit in "${units[@]}"; do
	if [ -z "${DESTDIR:-}" ] && [ -d /run/systemd/system ] && [ -f "$root/lib/systemd/system/$unit" ]; then
		systemctl disable --now "$unit"
	fi
done
(cd "$stage$prefix" && find . ! -type d -print0) | (cd "$root" && xargs -0 rm -f)
# Folders that were made for them: those of the system are not empty.
(cd "$stage$prefix" && find . -mindepth 1 -depth -type d -print0) |
	(cd "$root" && xargs -0 rmdir --ignore-fail-on-non-empty 2>/dev/null) || true
