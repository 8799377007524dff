#!/usr/bin/env bash
# tools/install.sh - puts what `make cpu` has built where it is used from.
#
#   tools/install.sh server [FOLDER]    FOLDER/bin: server, emulated driver, gpu_launcher; default /opt/cricket
#   tools/install.sh client [FOLDER]    FOLDER/lib: the client, and the driver's names for it; FOLDER/bin: gpu_launcher
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${2:-/opt/cricket}

case ${1:-} in
server)
	install -D -t "$folder/bin" cpu/cricket-rpc-server cpu/libcuda-emu.so cpu/gpu_launcher
	;;
client)
	install -D -t "$folder/lib" cpu/cricket-client.so cpu/libnvidia-ml.so.1
	install -D -t "$folder/bin" cpu/gpu_launcher
	ln -sf cricket-client.so "$folder/lib/libcuda.so.1"
	ln -sf libcuda.so.1 "$folder/lib/libcuda.so"
	;;
*)
	sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
