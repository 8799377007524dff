#!/bin/sh
# bench/steps.sh - rows for the sweep where there is no PyTorch: 1 and 16 kernels before each synchronise.
for launches in 1 16; do
	said=$(cpu/build/bench-load steps "${STEP_SECONDS:-0.5}" $launches 10) || exit
	rows="${rows:+$rows, }\"steps_of_$launches\": $said"
done
echo "{$rows}"
