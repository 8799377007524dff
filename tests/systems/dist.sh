#!/usr/bin/env bash
# tests/systems/dist.sh [SUITE] - what `make dist` makes: checksums; the source is complete; on an older system the tarball
# of the client works where it is unpacked, and the wheel after `pip install`; two commands lead to a green pytest. Then the
# same two for aarch64, under qemu-user with the C library of that system.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
suite=${1:-bullseye}
packages=$top/build/packages

# tag_of WHEEL: the oldest systems that auditwheel finds it fit for.
tag_of() {
	PYTHONPATH=$top/build/auditwheel /usr/bin/python3 -m auditwheel show "$1" | tr '\n' ' ' |
		sed -n 's/.*consistent with[^"]*"\([^"]*\)".*/\1/p'
}

# The C library of the suite for aarch64, in $libc: packages are unpacked, and nothing of them is run.
libc_for_arm64() {
	local mirror
	libc=$roots/$suite-arm64
	[ ! -d "$libc" ] || return 0
	mirror=$(mirror_of "$suite")
	rm -rf "$libc.new"
	debootstrap --foreign --arch=arm64 --variant=minbase "$suite" "$libc.new" "$mirror" >"$libc.log" 2>&1 || return 1
	mv "$libc.new" "$libc"
}

# Tarball and wheel for aarch64; only what this machine lacks for them is left out, and said.
try_arm64() {
	local status=0 home
	"$top/tools/arm64.sh" --tools || status=$?
	[ $status -ne 77 ] || { echo "dist.sh: aarch64: skipped: the reason is above"; return 0; }
	[ $status -eq 0 ] && libc_for_arm64 || die "no libraries for aarch64"
	make -C "$top" --no-print-directory -s dist-arm64
	(cd "$packages" && sha256sum --quiet -c SHA256SUMS)
	[ "$(tag_of "$packages"/cricket_gpu-*_aarch64.whl)" = manylinux_2_17_aarch64 ] || die "auditwheel sees another tag for aarch64"
	home=$(mktemp -d "$roots/use.XXXXXX")
	used+=("$home")
	tar -C "$home" --strip-components=1 -xzf "$packages"/cricket-client-*-aarch64.tar.gz
	grep -q openssl "$home/sbom.cdx.json" && grep -q 'Linked statically: libtirpc' "$home/LICENCES" || die "no contents or licences"
	# Taken by a pip of such a machine; but installed for another one, it would lose its data files.
	/usr/bin/python3 -m pip download -q --no-index --no-deps --disable-pip-version-check --only-binary :all: \
		--platform manylinux2014_aarch64 --find-links "$packages" -d "$home/found" cricket-gpu
	/usr/bin/python3 -m zipfile -e "$home"/found/*.whl "$home/wheel"
	chmod +x "$home"/wheel/*.data/data/bin/cricket
	"$top/build/arm64/cc" -std=gnu11 -O2 -I"$top" -o "$home/driver_ptx" "$top/tests/test_apps/driver_ptx.c" -ldl
	export QEMU_LD_PREFIX=$libc
	for command in "$home/bin/cricket" "$home"/wheel/*.data/data/bin/cricket; do
		"$top/tools/arm64.sh" --run "$command" check -s "$server"
	done
	unset QEMU_LD_PREFIX	# the program is for a newer one
	"$top/tools/arm64.sh" --run "$home/bin/cricket" run -s "$server" -- "$home/driver_ptx"
	echo "dist.sh: aarch64, $suite: checksums, tarball, wheel: ok"
}

make_root "$suite"	# nothing is built where no root can be made
make -C "$top" --no-print-directory -s portable dist
(cd "$packages" && sha256sum --quiet -c SHA256SUMS)
tar -tzf "$packages"/cricket-[0-9]*.tar.gz | sed -n 's|^[^/]*/||p' | grep -v '/$' | grep . | sort >"$packages/files"
git -C "$top" ls-tree -r HEAD | awk -F '\t' '$1 !~ / commit / { print $2 }' | sort | diff - "$packages/files" ||
	die "the source tarball is not the commit"
rm "$packages/files"

[ -x "$top/build/auditwheel/bin/auditwheel" ] || {
	/usr/bin/python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore \
		--target "$top/build/auditwheel" auditwheel==6.8.2
}
[ "$(tag_of "$packages"/cricket_gpu-*_x86_64.whl)" = manylinux_2_17_x86_64 ] || die "auditwheel sees another tag than manylinux_2_17"

make -j2 --no-print-directory -C "$top/cpu" cricket-rpc-server
serve
fresh "$suite"
mkdir "$root/packages"
cp "$packages"/*_x86_64.whl "$packages"/cricket-client-*-x86_64.tar.gz "$root/packages/"
cat >"$root/packages/use.py" <<'END'
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
print("devices:", count.value)
END
cp "$top/docs/examples/add_one.ptx" "$root/packages/"
cat >"$root/packages/test_add_one.py" <<'END'
import ctypes


def test_add_one():
    cuda, context, module, kernel, memory = ctypes.CDLL("libcuda.so.1"), *(ctypes.c_void_p() for _ in range(4))
    numbers, n = (ctypes.c_int * 4)(1, 2, 3, 4), ctypes.c_int(4)
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuModuleLoad(ctypes.byref(module), b"/packages/add_one.ptx") == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"add_one") == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), 16) == 0 and cuda.cuMemcpyHtoD_v2(memory, numbers, 16) == 0
    words = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.byref(x), ctypes.c_void_p) for x in (memory, n)))
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 4, 1, 1, 0, None, words, None) == 0
    assert cuda.cuMemcpyDtoH_v2(numbers, memory, 16) == 0 and list(numbers) == [2, 3, 4, 5]
END
inside apt-get -q update >/dev/null
inside apt-get -q -y install --no-install-recommends python3-venv python3-pip >/dev/null 2>&1
inside sh -euc '
	tar -C /opt -xzf /packages/cricket-client-*.tar.gz
	/opt/cricket-client-*/bin/cricket check -s "$1"
	/opt/cricket-client-*/bin/cricket run -s "$1" -- python3 /packages/use.py
	python3 -m json.tool /opt/cricket-client-*/sbom.cdx.json | grep -q openssl
	grep -q "Linked statically: libtirpc" /opt/cricket-client-*/LICENCES
	python3 -m venv /opt/venv
	/opt/venv/bin/pip install -q --no-index --disable-pip-version-check /packages/cricket_gpu-*.whl
	/opt/venv/bin/cricket run -s "$1" -- python3 /packages/use.py
	/opt/cricket-client-*/bin/cricket run -s emu -- python3 /packages/use.py
	/opt/venv/bin/cricket run -s emu -- python3 /packages/use.py
	PATH=/usr/bin:/bin /opt/venv/bin/python3 -c "import cricket_gpu; cricket_gpu.emulate(); exec(open(\"/packages/use.py\").read())"
	/opt/venv/bin/python3 -m cricket_gpu check -s "$1"
	LD_LIBRARY_PATH=$(/opt/venv/bin/python3 -c "import cricket_gpu; print(cricket_gpu.folder())") \
		REMOTE_GPU_ADDRESS=$1 /opt/venv/bin/python3 /packages/use.py' use "$server"
# From here on the two commands of docs/ci.md, with the packages at hand.
inside sh -euc 'python3 -m venv /opt/tests; /opt/tests/bin/pip download -q --disable-pip-version-check -d /packages pytest' 2>"$root/pip.log" ||
	die "no pytest: $(cat "$root/pip.log")"
began=$(date +%s%N)
inside env PATH=/opt/tests/bin:/usr/bin:/bin sh -euc '
	pip install -q --no-index --disable-pip-version-check --find-links /packages "cricket-gpu[emu]" pytest
	cd /packages
	cricket run -s emu -- pytest -q test_add_one.py' || die "no green pytest"
printf 'dist.sh: pip install and a green pytest: %d ms after the download\n' $((($(date +%s%N) - began) / 1000000))
echo "dist.sh: $suite: checksums, source, tarball, wheel: ok"
try_arm64
