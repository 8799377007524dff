#!/usr/bin/env bash
# tools/install.sh - puts what `make` has built where it is used from. `make install` installs all of it.
#
#   tools/install.sh all|server|client|emulator|launcher|memory|libraries|loader|slurm [PREFIX]     PREFIX is /usr/local unless given
#
#   server     cricket-rpc-server, cricket-exporter, their systemd units, user and folders; launcher and memory too
#   client     cricket, cricket-client.so, and folders with the driver's names: of the client, of the emulated driver
#   emulator   the client, and the server for `cricket run -s emu`
#   launcher   gpu_launcher, its Python module; the client, through which it reaches a server
#   memory     m3, m3-server, libraries, their Python package
#   libraries  libm3, libwcm, their headers, pkg-config and CMake files
#   loader     kernel-loader with its halves and stubs; the client
#   slurm      the Slurm plugin, job_submit.lua; the client
#
# The files lie in PREFIX/lib/cricket as in cpu/, for they find each other there; bin/ and lib/ have links. No
# driver's name comes into PREFIX/lib: a machine's own driver stays what its programs find. DESTDIR=FOLDER installs
# below that folder, for packages. LIBDIR=FOLDER (below PREFIX) is where a distribution has its libraries: libm3 and
# libwcm are then there and not in lib/cricket. CRICKET_BUILD=FOLDER takes what was built there, in place of cpu/ (client,
# emulator and libraries only); STRIP=1 leaves out what debuggers need, three quarters of it; STRIP=PROGRAM by that program, for another
# processor.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${2:-/usr/local}
built=${CRICKET_BUILD:-cpu}

die() { printf 'install: error: %s\n' "$*" >&2; exit 2; }
usage() { sed -n '4,13s/^# \{0,3\}//p' "$0" >&2; exit 2; }

if [ $# -lt 1 ] || [ $# -gt 2 ]; then usage; fi
case $prefix in
/*) ;;
*) die "$prefix: PREFIX must be an absolute path" ;;
esac
root=${DESTDIR:-}${prefix%/}
home=$root/lib/cricket
tirpc=build/libtirpc/lib/libtirpc.so.3	# where it was built

# put MODE FOLDER FILE...
put() {
	local mode=$1 folder=$2 file
	shift 2
	for file in "$@"; do
		[ -f "$file" ] || die "$file does not exist: run 'make' first"
	done
	set -- -D -m "$mode" -t "$folder" "$@"
	if [ "$mode" = 755 ] && [ -n "${STRIP:-}" ]; then
		[ "$STRIP" = 1 ] || set -- --strip-program="$STRIP" "$@"
		set -- --strip "$@"
	fi
	install "$@"
}

# Links in FOLDER, by relative paths, so that what is below PREFIX can be moved: link FOLDER WAY NAME...
link() {
	local folder=$1 way=$2 name
	shift 2
	mkdir -p "$folder"
	for name in "$@"; do
		ln -sf "$way/$name" "$folder/$name"
	done
}

programs() {
	put 755 "$home" "${@/#/$built/}"
	link "$root/bin" ../lib/cricket "$@"
}

manuals() {
	local page
	for page in "$@"; do
		put 644 "$root/share/man/man${page##*.}" "man/$page"
	done
}

client() {
	put 755 "$home" "$built"/{cricket-client.so,libcuda.so,libnvidia-ml.so.1,libcupti.so.12,libcupti.so.13,libnccl.so.2,libcricket-ptx.so,libcuda-emu.so}
	mkdir -p "$home/lib" "$home/emu"
	ln -sf ../cricket-client.so "$home/lib/libcuda.so.1"
	ln -sf ../libnvidia-ml.so.1 "$home/lib/libnvidia-ml.so.1"
	ln -sf ../libcupti.so.12 "$home/lib/libcupti.so.12"
	ln -sf ../libcupti.so.13 "$home/lib/libcupti.so.13"
	ln -sf ../libcuda-emu.so "$home/emu/libcuda.so.1"
	ln -sf ../libcuda-emu.so "$home/emu/libnvidia-ml.so.1"
	ln -sf libcuda.so.1 "$home/lib/libcuda.so"
	ln -sf libcuda.so.1 "$home/emu/libcuda.so"
	programs cricket
	manuals cricket-client.7 cricket.1
	put 644 "$root/share/zsh/site-functions" command/completion/_cricket
	put 644 "$root/share/fish/vendor_completions.d" command/completion/cricket.fish
	install -D -m 644 command/completion/cricket.bash "$root/share/bash-completion/completions/cricket"
}

emulator() {
	client
	put 755 "$home" "$built/cricket-rpc-server"
}

launcher() {
	client
	programs gpu_launcher
	put 644 "$home/python" python/gpu_launcher.py
	manuals gpu_launcher.1
}

# A library with its links, and what pkg-config and CMake know of it: library NAME SONAME DESCRIPTION
library() {
	local name=$1 soname=$2 folder=${LIBDIR:-lib} script
	script="s|@NAME@|$name|g; s|@SONAME@|$soname|g; s|@DESCRIPTION@|$3|g; s|@PREFIX@|${prefix%/}|g; s|@LIBDIR@|$folder|g
		s|@VERSION@|$(sed -n 's/^RELEASE := //p' cpu/Makefile)|g; s|@UP@|$(sed 's|[^/][^/]*|..|g' <<<"$folder")|g"
	if [ -n "${LIBDIR:-}" ]; then
		put 755 "$root/$folder" "$built/$soname"
	else
		put 755 "$home" "$built/$soname"
		ln -sf "$soname" "$home/lib$name.so"
		link "$root/lib" cricket "$soname"
	fi
	ln -sf "$soname" "$root/$folder/lib$name.so"
	mkdir -p "$root/$folder/pkgconfig" "$root/$folder/cmake/$name"
	sed "$script" tools/library/pkg-config.in >"$root/$folder/pkgconfig/$name.pc"
	sed "$script" tools/library/config.cmake.in >"$root/$folder/cmake/$name/$name-config.cmake"
	sed "$script" tools/library/version.cmake.in >"$root/$folder/cmake/$name/$name-config-version.cmake"
}

libraries() {
	library m3 libm3.so.1 "GPU memory that processes share by name"
	library wcm libwcm.so.1 "one allocation over the GPUs of several processes"
	put 644 "$root/include" m3/m3.h m3/MemMapManager.h wcm/wcm.h wcm/wcm_handle.h \
		wcm/whole_chunked_memory.h wcm/whole_chunked_memory.cuh
	manuals libwcm.7
}

memory() {
	programs m3 m3-server
	put 755 "$home" cpu/libcuda-emu.so
	libraries
	put 644 "$home/python/wholememory" python/wholememory/*.py
	put 644 "$home/python/wholememory/torch" python/wholememory/torch/*.py
	manuals m3.1 m3-server.8
}

server() {
	launcher
	memory
	programs cricket-rpc-server cricket-exporter
	[ ! -f "$tirpc" ] || put 755 "$home" "$tirpc"
	put 644 "$root/lib/systemd/system" server/cricket-rpc-server.service
	put 644 "$root/lib/systemd/system" command/exporter/cricket-exporter.service
	sed -i -E "s,^(ExecStart|ExecReload)=/usr/local/bin/,\1=${prefix%/}/bin/," "$root"/lib/systemd/system/cricket-{rpc-server,exporter}.service
	install -D -m 644 server/sysusers.conf "$root/lib/sysusers.d/cricket.conf"
	install -D -m 644 server/tmpfiles.conf "$root/lib/tmpfiles.d/cricket.conf"
	put 644 "$root/share/doc/cricket" server/checkpoint.conf server/worker-users.conf server/server.conf
	manuals cricket-rpc-server.1 cricket-exporter.1
}

loader() {
	client
	put 755 "$home" loader/kernel-loader loader/libupper.so loader/cuda_lh.exe
	link "$root/bin" ../lib/cricket kernel-loader
	put 755 "$home/stubs/cuda" loader/stubs/cuda/*.so*
	if [ -f loader/mpi_lh.exe ]; then
		put 755 "$home" loader/mpi_lh.exe
		put 755 "$home/stubs/mpi" loader/stubs/mpi/*.so*
		if [ -f loader/mpich_lh.exe ]; then
			put 755 "$home" loader/mpich_lh.exe
			put 755 "$home/stubs/mpich" loader/stubs/mpich/*.so*
		fi
	else
		echo "install: no MPI half: it is not built here (make loader prints the reason)"
	fi
	manuals kernel-loader.1
}

# Where Slurm's header was, when it was built.
slurm() {
	client
	put 755 "$home" cpu/slurm-cricket.so
	put 644 "$home" slurm/job_submit.lua
}

case $1 in
all)
	server && loader
	[ ! -f cpu/slurm-cricket.so ] || slurm
	;;
server | client | emulator | launcher | memory | libraries | loader | slurm) "$1" ;;
*) usage ;;
esac
