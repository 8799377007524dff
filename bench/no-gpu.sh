#!/bin/sh
# bench/no-gpu.sh COMMAND... - run COMMAND where no NVIDIA device file can be opened and no
# libcuda.so.1 of the machine can be found, so that what runs, runs remotely. Needs root.
exec unshare -m sh -c '
	for f in /dev/nvidia* /dev/nvidia-caps/*; do
		[ -c "$f" ] && mount --bind /dev/null "$f"
	done
	exec "$@"' sh "$@"
