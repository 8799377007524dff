# Makefile - one line of delegation for everything that is built, checked or cleaned here.
# SAN=1 builds and checks with ASan and UBSan (cpu/build-san, build/tests-san): the unit tests and the end-to-end ones,
# without documents, images and kernel-loader. TSAN=1 with TSan: the unit tests and those
# that are marked `threads`.

JOBS ?= $(shell n=$$(nproc); [ $$n -gt 4 ] && echo 4 || echo $$n)
# The python that has pytest: make deps installs it for the system's, which need not come first in PATH.
# It is looked for when a recipe needs it, which may be after `deps`.
PYTHON = $(shell for p in python3 /usr/bin/python3; do $$p -c 'import pytest' 2>/dev/null && echo $$p && exit; done; echo python3)
PYTEST = $(PYTHON) -m pytest -q -ra -p no:cacheprovider
# Tests mostly wait, so there are more of them at a time than processors; one after another without pytest-xdist.
BESIDE = $(shell $(PYTHON) -c 'import xdist' 2>/dev/null && echo "-n $$((2 * $(JOBS)))")
# A choice of end-to-end tests: words (K=...), or what is marked `threads` in TSan builds.
CHOICE := $(if $(K),-k '$(K)',$(if $(TSAN),-m threads))
# Documents and images do not depend on how the programs were compiled.
ASIDE := $(if $(SAN),--ignore=tests/e2e/test_docs.py --ignore=tests/e2e/test_docker.py)
E2E = $(PYTEST) $(BESIDE) --durations=10 --durations-min=10 $(or $(FILES),tests/e2e) $(ASIDE) $(CHOICE)

help:		## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*##/  make \1\t/p' Makefile | expand -t 24
all: cpu $(if $(filter x86_64,$(shell uname -m)),loader) test-apps	## client, server, emulated driver, loader; the test programs where nvcc is
deps:		## install what is missing (Debian, Ubuntu); nvcc too
	tools/deps.sh
libtirpc:	## build the submodule where it is checked out, else say which one is used
	@tools/libtirpc.sh submodules/libtirpc build/libtirpc
cpu:		## cpu/cricket-rpc-server, cpu/cricket-client.so (libnvidia-ml.so.1), cpu/libcuda-emu.so, cpu/gpu_launcher
	@tools/deps.sh --check
	@$(MAKE) -j$(JOBS) --no-print-directory -C cpu SAN=$(SAN) TSAN=$(TSAN)
portable:	## client, server, emulated driver, cricket, gpu_launcher, libm3.so, libwcm.so for glibc 2.17 and later, into cpu/build-portable
	@JOBS=$(JOBS) tools/portable.sh
arm64:		## client, server, emulated driver, commands, libraries for aarch64, into cpu/build-arm64
	@JOBS=$(JOBS) tools/arm64.sh
loader: cpu	## loader/kernel-loader, lower halves for CUDA and MPI, their stubs
	@$(MAKE) -j$(JOBS) --no-print-directory -C loader
test-apps: $(if $(SAN)$(TSAN),,cpu)	## CUDA programs, into tests/test_apps/bin; wcm/examples/bin
	@$(MAKE) -j$(JOBS) --no-print-directory -C tests/test_apps
	@$(MAKE) -j$(JOBS) --no-print-directory -C wcm/examples

check: deps $(if $(SAN)$(TSAN),,check-gen check-style) check-unit $(if $(SAN)$(TSAN),,check-conformance) check-e2e	## all tests that need no GPU
	@echo "check: everything passed$(if $(SAN)$(TSAN), (with sanitizers))"
# What takes seconds after `make`: not the slow unit tests, and few whole programs.
check-quick: check-gen check-style	## the quick part of check: about a minute, after make
	@$(MAKE) -j$(JOBS) --no-print-directory -C tests check-unit QUICK=1 JOBS=$(JOBS)
	$(PYTEST) $(BESIDE) tests/e2e -m quick
	@echo "check-quick: everything passed"
check-style:	## who may include and call whom; the client's state and locks; headers; hardening; one version in all files
	@$(MAKE) -j$(JOBS) --no-print-directory -C cpu SAN= TSAN=
	tools/check-includes && tools/check-layers && tools/check-names && tools/check-state && tools/check-waits && tools/check-rows && tools/check-cuda && tools/check-headers && tools/check-format && \
		tools/check-hardening && tools/check-tls && tools/check-version
check-reproducible: cpu	## a second build, in another folder, is equal byte by byte
	tools/check-reproducible
check-abi: cpu	## libm3 and libwcm have all that programs of the last release need; needs abigail-tools
	tools/check-abi
check-gen:	## the generator against its goldens; what it made is not stale
	$(PYTEST) $(BESIDE) tests/gen
check-unit: cpu	## unit tests (cmocka); one alone: make -C tests unit/test_NAME.run
	@$(MAKE) -j$(JOBS) --no-print-directory -C tests check-unit SAN=$(SAN) TSAN=$(TSAN) JOBS=$(JOBS)
check-conformance: cpu	## nearly every instruction on the emulated GPU against a real one's answers
	$(PYTEST) tests/conformance
	tests/conformance/conformance compare tests/conformance/hardware/sm_90.answers --driver cpu/libcuda-emu.so
check-e2e: cpu test-apps $(if $(SAN)$(TSAN),,loader)	## whole programs (pytest); a choice: make check-e2e K=WORDS
	@$(MAKE) --no-print-directory -C tests throw far random pauses nccl SAN=$(SAN) TSAN=$(TSAN)
	$(if $(SAN)$(TSAN),,@$(MAKE) --no-print-directory -C cpu bench)
	$(if $(SAN)$(TSAN),,@$(MAKE) -j$(JOBS) --no-print-directory -C tests/loader)
	CRICKET_TEST_SAN=$(SAN) CRICKET_TEST_TSAN=$(TSAN) $(E2E)
check-arm64:	## unit tests for aarch64 under qemu-user, and each wire between it and this machine
	@tests/systems/arm64.sh
check-portable: portable cpu test-apps	## the CUDA programs of check-e2e with the client that `make portable` builds
	CRICKET_TEST_CLIENT=cpu/build-portable $(PYTEST) $(BESIDE) tests/e2e/test_apps.py tests/e2e/test_managed.py tests/e2e/test_nvml.py
gen:		## rpc/cricket.x, docs/coverage*.md, from rpc/*.api; docs/ptx-coverage.md, docs/troubleshooting.md, docs/policy.md
	tools/apigen.py rpc/driver.api --x rpc/cricket.x --coverage docs/coverage.md \
		--coverage-nvml docs/coverage-nvml.md --coverage-nccl docs/coverage-nccl.md
	tests/conformance/coverage.py
	tools/troubleshooting
	tools/policy-keys
fuzz:		## each fuzz target for FUZZ_SECONDS (20); needs clang
	@$(MAKE) -j$(JOBS) --no-print-directory -C tests fuzz
demo:		## from nothing: install, build, run a CUDA program through the server
	@tools/demo.sh
install: cpu loader	## all of it, below PREFIX (/usr/local); DESTDIR=FOLDER for packages; tools/install.sh installs parts
	DESTDIR="$(DESTDIR)" tools/install.sh all "$(or $(PREFIX),/usr/local)"
uninstall: cpu loader	## removes what `make install` has put below PREFIX; DESTDIR as there
	DESTDIR="$(DESTDIR)" tools/uninstall.sh "$(or $(PREFIX),/usr/local)"
dist: portable	## source, and the portable client as tarball and wheel, with checksums, into build/packages
	@tools/dist.sh
dist-arm64:	## the portable client for aarch64 as tarball and wheel, into build/packages; needs tools/deps.sh --arm64
	@JOBS=$(JOBS) tools/portable.sh --arm64 && tools/dist.sh --arm64
deb:		## Debian packages, into build/packages; needs tools/deps.sh --packages
	@tools/deb.sh
rpm: portable cpu	## RPM packages of client and server, into build/packages; needs tools/deps.sh --packages
	@tools/rpm.sh
release:	## dist, dist-arm64, deb and rpm, with checksums of all, in build/packages alone
	tools/check-version --tag
	$(PYTHON) tests/gen/test_releases.py --check tests/data/protocol/$$(sed -n 's/^RELEASE := //p' cpu/Makefile).txt
	@rm -rf build/packages
	@for goal in dist dist-arm64 deb rpm; do $(MAKE) --no-print-directory $$goal || exit; done
	@cd build/packages && rm -f SHA256SUMS *-dbgsym_*.deb && sha256sum -- * >SHA256SUMS && cat SHA256SUMS
format:		## clang-format over the C sources
	tools/check-format --fix
clean:		## what was built here; build/cuda stays
	@for d in cpu loader tests tests/test_apps wcm/examples; do $(MAKE) --no-print-directory -C $$d clean; done

.DEFAULT_GOAL := all
.PHONY: help all deps libtirpc cpu portable arm64 loader test-apps check check-quick check-style check-reproducible check-abi check-gen check-unit check-conformance check-e2e check-arm64 check-portable gen fuzz demo install uninstall dist dist-arm64 deb rpm release format clean
.DELETE_ON_ERROR:
# What installs ends before what compiles begins; each goal gives its own make a number of jobs.
.NOTPARALLEL:
