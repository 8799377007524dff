#!/usr/bin/env bash
# tools/deps.sh - installs what building and testing need, on Debian and Ubuntu; nothing where all is there.
#
#   tools/deps.sh            all: packages with apt-get; nvcc from NVIDIA's PyPI wheels where there is no toolkit
#   tools/deps.sh --build    only what building the products needs: no nvcc, no tests, no MPI
#   tools/deps.sh --demo     only what `make demo` needs: --build less the launcher's packages, and nvcc
#   tools/deps.sh --clang    clang too (second compiler, fuzz targets)
#   tools/deps.sh --systems  what tests/systems needs too: root file systems of other systems
#   tools/deps.sh --portable what make portable needs too
#   tools/deps.sh --arm64    what make arm64 needs too: the cross compiler
#   tools/deps.sh --packages what make deb and make rpm need too
#   tools/deps.sh --monitors what more tests find: promtool, Chromium, sshd
#   tools/deps.sh --slurm    what the Slurm plugin and its test need too: Slurm's header and daemons, munge
#   tools/deps.sh --containers what the test of containers needs too: podman, runc and newuidmap
#   tools/deps.sh --kubernetes what the device plugin and its tests need too: gRPC for Python, runc, iptables
#   tools/deps.sh --wheels   the wheels even beside a toolkit: what a machine without one builds with
#   tools/deps.sh --no-cuda  leave CUDA out: only the test programs need nvcc
#   tools/deps.sh --runtime  only what the built programs need to run
#   tools/deps.sh --check    installs nothing, on any Linux: fails and names the commands and libraries that building lacks
set -euo pipefail
cd "$(dirname "$0")/.."

# Client, server and emulated driver; g++ is for nvcc.
demo=(gcc g++ libc6-dev make python3 pkg-config rpcsvc-proto libtirpc-dev liblz4-dev libzstd-dev libb2-dev
	libjansson-dev libconfig-dev libseccomp-dev libelf-dev libssl-dev zlib1g-dev)
# The same as commands and as pkg-config's modules, where there are no such packages.
commands=(gcc g++ make python3 pkg-config rpcgen)
modules=(libtirpc liblz4 libzstd libb2 jansson libconfig libseccomp libelf openssl)
headers=()
build=("${demo[@]}" libfast-float-dev libncurses-dev libmicrohttpd-dev)
tests=(libcmocka-dev python3-pytest python3-pytest-xdist python3-yaml groff-base procps openssl
	openmpi-bin libopenmpi-dev gfortran mpich libmpich-dev hpcc python3-mpi4py)
# A system that debootstrap has made has no /etc/hosts; tests connect to localhost.
getent hosts localhost >/dev/null || tests+=(libnss-myhostname)
extra=()
# Ubuntu 24.04 has put a t64 behind some names.
runtime=(libtirpc3t64/libtirpc3 libssl3t64/libssl3 liblz4-1 libzstd1 libb2-1 libstdc++6 libconfig9 libseccomp2 libelf1t64/libelf1
	libmicrohttpd12t64/libmicrohttpd12)
# One release's compiler, runtime and headers, as NVIDIA publishes them on PyPI.
wheels=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85
	nvidia-nvvm==13.0.88)
cuda_home=build/cuda
want_cuda=yes
choice=all

say() { printf 'deps: %s\n' "$*"; }
die() { printf 'deps: error: %s\n' "$*" >&2; exit 1; }

as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Prints the packages among the arguments that are not installed.
missing_packages() {
	dpkg-query -W -f '${Package} ${Status}\n' "$@" 2>/dev/null | sed -n 's/ install ok installed$//p' |
		grep -vxFf - <(printf '%s\n' "$@") || true
}

# Prints the commands and libraries, of those that the choice of packages stands for, that no search finds.
missing_parts() {
	local name
	for name in "${commands[@]}"; do
		command -v "$name" >/dev/null || echo "$name"
	done
	for name in "${modules[@]}"; do
		pkg-config --exists "$name" 2>/dev/null || echo "$name"
	done
	for name in "${headers[@]}"; do
		g++ -x c++ -E -include "$name" /dev/null >/dev/null 2>&1 || echo "$name"
	done
}

# install_packages NAME...: what is missing; apt-get's hundreds of lines are shown if it fails.
install_packages() {
	local missing log
	if ! command -v dpkg-query >/dev/null; then
		check_parts "this is neither Debian nor Ubuntu; install what their packages have: $*"
		say "all commands and libraries are there (by pkg-config: this is neither Debian nor Ubuntu)"
		return
	fi
	mapfile -t missing < <(missing_packages "$@")
	if [ ${#missing[@]} -eq 0 ]; then
		say "all $# packages are installed"
		return
	fi
	[ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
		die "not root, and no sudo; as root run: apt-get update && apt-get install ${missing[*]}"
	say "installing with apt-get: ${missing[*]}"
	log=$(mktemp)
	{ as_root apt-get -q update && as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -q -y install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 || {
		tail -n 30 "$log" >&2
		rm -f "$log"
		die "apt-get has failed; as root run: apt-get update && apt-get install ${missing[*]}"
	}
	rm -f "$log"
}

# check_parts ADVICE: fails with the advice and the names of what is missing.
check_parts() {
	local missing
	mapfile -t missing < <(missing_parts)
	[ ${#missing[@]} -eq 0 ] || die "missing: ${missing[*]}; $1"
}

# The same places, in the same order, as tests/test_apps/Makefile.
find_nvcc() {
	local n
	for n in "${NVCC:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc $cuda_home/bin/nvcc; do
		[ -n "$n" ] && [ -x "$n" ] && echo "$n" && return
	done
	return 1
}

# Puts the wheels' files where a toolkit has them: bin include lib64 nvvm under build/cuda.
install_cuda() {
	local tmp=$cuda_home.tmp
	python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip
	local py=python3
	$py -m pip --version >/dev/null 2>&1 || py=/usr/bin/python3
	say "downloading ${wheels[*]} into $cuda_home"
	rm -rf "$tmp" $cuda_home
	mkdir -p "$tmp"
	PIP_ROOT_USER_ACTION=ignore $py -m pip install -q --no-deps --only-binary :all: --no-warn-script-location \
		--disable-pip-version-check --target "$tmp" "${wheels[@]}"
	mv "$tmp"/nvidia/cu13 $cuda_home
	rm -rf "$tmp"
	ln -s lib $cuda_home/lib64
	ln -s libcudart.so.13 $cuda_home/lib/libcudart.so
}

# Of names for one package (A/B), the first that this release has.
known_names() {
	local names n
	for names in "$@"; do
		for n in ${names//\// }; do
			apt-cache show "$n" >/dev/null 2>&1 && break
		done
		echo "$n"
	done
}

for arg in "$@"; do
	case $arg in
	--clang) extra+=(clang libclang-rt-dev clang-format) ;;
	--systems) extra+=(debootstrap) ;;
	--portable) extra+=(python3-pip) ;;
	--arm64) extra+=(gcc-aarch64-linux-gnu g++-aarch64-linux-gnu) ;;
	--packages) extra+=(debhelper dpkg-dev fakeroot lintian rpm abigail-tools cmake libopenmpi-dev openmpi-bin libmpich-dev mpich) ;;
	--monitors) extra+=(prometheus chromium openssh-server) ;;
	--slurm) extra+=(libslurm-dev slurmctld slurmd slurm-client munge) ;;
	--containers) extra+=(debootstrap podman runc uidmap) ;;
	--kubernetes) extra+=(python3-grpcio runc iptables) ;;
	--wheels) want_cuda=wheels ;;
	--no-cuda) want_cuda=no ;;
	--demo) choice=demo ;;
	--build | --runtime | --check) choice=${arg#--} want_cuda=no ;;
	-h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
	*) die "unknown option $arg (--build, --demo, --check, --clang, --systems, --portable, --arm64, --packages, --monitors, --slurm, --containers, --kubernetes, --wheels, --no-cuda, --runtime)" ;;
	esac
done
# The submodule's sources come without what configures them.
[ ! -e submodules/libtirpc/configure.ac ] || build+=(autoconf automake libtool)
[ "$choice" = demo ] || modules+=(ncursesw libmicrohttpd) headers+=(fast_float/fast_float.h)
[ "$choice" != all ] || modules+=(cmocka)
case $choice in
check)
	check_parts "'make deps' installs what they need on Debian and Ubuntu"
	exit 0
	;;
all) packages=("${build[@]}" "${tests[@]}" autoconf automake libtool "${extra[@]}") ;;
build) packages=("${build[@]}" "${extra[@]}") ;;
demo) packages=("${demo[@]}") ;;
runtime)
	# A fresh image has no list of packages to look names up in.
	apt-cache show libtirpc-common >/dev/null 2>&1 || as_root apt-get -q update
	mapfile -t packages < <(known_names "${runtime[@]}")
	;;
esac
install_packages "${packages[@]}"
[ $want_cuda != wheels ] || [ -x $cuda_home/bin/nvcc ] || install_cuda
if [ $want_cuda = yes ]; then
	find_nvcc >/dev/null || install_cuda
	say "nvcc: $(find_nvcc), $("$(find_nvcc)" --version | sed -n 's/^Cuda compilation tools, //p')"
fi
