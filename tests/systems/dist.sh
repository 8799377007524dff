#!/usr/bin/env bash
# tests/systems/dist.sh [SUITE] - what `make dist` makes: checksums; the source is complete; on an older system the tarball
# of the client works where it is unpacked, and the wheel after `pip install`.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
suite=${1:-bullseye}
packages=$top/build/packages

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
PYTHONPATH=$top/build/auditwheel /usr/bin/python3 -m auditwheel show "$packages"/cricket_gpu-*.whl | tr '\n' ' ' |
	grep -q 'consistent with.*"manylinux_2_17_x86_64"' || die "auditwheel sees another tag than manylinux_2_17"

make -j2 --no-print-directory -C "$top/cpu" cricket-rpc-server
serve
fresh "$suite"
mkdir "$root/packages"
cp "$packages"/*.whl "$packages"/cricket-client-*.tar.gz "$root/packages/"
cat >"$root/packages/use.py" <<'END'
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
print("devices:", count.value)
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
	/opt/venv/bin/python3 -m cricket_gpu check -s "$1"
	LD_LIBRARY_PATH=$(/opt/venv/bin/python3 -c "import cricket_gpu; print(cricket_gpu.folder())") \
		REMOTE_GPU_ADDRESS=$1 /opt/venv/bin/python3 /packages/use.py' use "$server"
echo "dist.sh: $suite: checksums, source, tarball, wheel: ok"
