#!/usr/bin/env bash
# tests/systems/first_use.sh [SUITE] - the path of a new user in a system that has nothing but apt: its commands, and the seconds that
# each takes, to two ends. A CUDA program runs on the emulated GPU, and PyTorch is refused there with a clear reason.
# PyTorch with its CUDA libraries is some gigabytes: WITHOUT_TORCH=1 leaves that half out.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
suite=${1:-bookworm}
times=

# step WHAT COMMAND [fails]: run a command line of the user, in /src.
step() {
	local began=$EPOCHREALTIME status=0
	inside sh -c "cd /src"$'\n'"$2" >"$root/var/log/step" 2>&1 || status=$?
	times+=$(awk -v b="$began" -v e="$EPOCHREALTIME" -v what="$1" -v c="$2" \
		'BEGIN { gsub(/\|/, "\\|", c); printf "| %s | `%s` | %.1f |", what, c, e - b }')$'\n'
	[ $status -eq 0 ] || [ "${3:-}" = fails ] || { tail -n 20 "$root/var/log/step" >&2; die "failed: $2"; }
	return $status
}

# says PATTERN: the last step printed it.
says() {
	grep -qE "$1" "$root/var/log/step" || { tail -n 20 "$root/var/log/step" >&2; die "no line has '$1'"; }
}

fresh "$suite"
sources
step "the one package that is not there" "apt-get -q update && apt-get -q -y install --no-install-recommends make"
step "build, and run a CUDA program" "make demo"
says '^vector_add: 50000 elements, 0 wrong'
step "everything, with optimisation" "make deps && make"

if [ -z "${WITHOUT_TORCH:-}" ]; then
	step "Python" "apt-get -q -y install --no-install-recommends python3-venv"
	step "PyTorch" "python3 -m venv /venv && /venv/bin/pip -q install torch numpy"
	step "a tensor on the emulated GPU" "cpu/cricket-rpc-server --driver emu & cpu/cricket run -s localhost -- /venv/bin/python -c 'import torch; print(torch.ones(3, device=\"cuda\") * 2)'" fails && die "PyTorch has run"
	says '^cricket: .*PTX'
	reason=$(grep -m 1 '^cricket: .*PTX' "$root/var/log/step")
fi
printf '| step | command | s |\n|---|---|---|\n%s' "$times"
echo "${reason:+PyTorch: $reason}"
echo "first_use.sh: $suite: ok"
