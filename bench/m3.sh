#!/bin/sh
# bench/m3.sh [DRIVER] - times of M3's calls, on the host itself and, where there is the client, through a server.
# DRIVER is cuda (the default) or emu. Needs what `make cpu` builds.
set -eu
cd "$(dirname "$0")/.."
driver=${1:-cuda}
folder=$(mktemp -d)
trap 'kill $server 2>/dev/null; rm -rf "$folder"' EXIT
gcc -O2 -I. -o "$folder/bench" bench/m3.c -Lcpu -lm3 -Wl,-rpath,"$PWD/cpu"
# A program's driver is libcuda.so.1; the emulated one has to be put under that name.
mkdir "$folder/lib"
runs=20
if [ "$driver" = emu ]; then
	ln -s "$PWD/cpu/libcuda-emu.so" "$folder/lib/libcuda.so.1"
	runs=2 # memory there is a file, and filled by a processor
fi
CRICKET_LOG=error cpu/cricket-rpc-server --driver "$driver" --listen 127.0.0.1:0 --unix "$folder/s" &
server=$!
while [ ! -S "$folder/s.m3" ] || [ ! -S "$folder/s" ]; do sleep 0.1; done
echo "on the host, driver $driver:"
LD_LIBRARY_PATH="$folder/lib" CRICKET_M3="$folder/s.m3" "$folder/bench" $runs
echo "through a session:"
LD_PRELOAD="$PWD/cpu/cricket-client.so" REMOTE_GPU_ADDRESS="unix:$folder/s" "$folder/bench" $runs
