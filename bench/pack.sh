#!/bin/bash
# bench/pack.sh [ARCHIVE] - what has been built here, in one archive (build/carry/all.txz), for a machine with a GPU that
# cannot build it: products, benches, test programs, kernel-loader, and the libraries that such a machine may lack.
# There, in a checkout of the same commit:
#
#   python3 -c 'import tarfile; tarfile.open("build/carry/all.txz").extractall(".")'
#   export LD_LIBRARY_PATH=$PWD/build/lib; bench/gpu.sh
#
# Needs `make && make -C cpu bench && make test-apps && make loader && make -C tests/loader && make -C tests far`.
set -eu
cd "$(dirname "$0")/.."
archive=${1:-build/carry/all.txz}
mkdir -p "$(dirname "$archive")" build/lib
ldd cpu/cricket-rpc-server cpu/gpu_launcher | awk '/libtirpc|libjansson|libssl|libcrypto/ { print $3 }' | sort -u |
	while read -r library; do cp -L "$library" build/lib; done
# What git ignores, less what it takes only to build.
git ls-files --others --ignored --exclude-standard -- cpu loader tests/test_apps/bin wcm/examples/bin |
	grep -v -e '\.o$' -e '\.d$' -e '\.a$' -e '/gen/' -e '^cpu/build-' -e '^loader/build/' -e __pycache__ > build/carry/list
find build/lib build/tests-loader build/tests/far -type f -o -type l >> build/carry/list
XZ_OPT=-T0 tar -cJf "$archive" -T build/carry/list
ls -l "$archive"
