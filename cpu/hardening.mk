# cpu/hardening.mk - what the compiler and the linker add to everything that ships; cpu/ and loader/ include it.
# tools/check-hardening checks the result.
#
#   HARDEN_CFLAGS      objects: canaries in stack frames, large frames touched page by page, indirect branches that must
#                      land on a marked instruction, the C library's checks of buffer sizes
#   HARDEN_LDFLAGS     all outputs: relocations read-only before main, no executable stack
#   HARDEN_PIE         programs: loaded at a random address

# Sanitizers have checks of their own for buffers; without optimisation the C library has none; zig's clang refuses the
# client's own functions of the C library beside them. Old compilers and C
# libraries know level 2 only, and say so.
HARDEN_FORTIFY := $(if $(SAN)$(TSAN)$(PORTABLE)$(filter -O0,$(OPT)),,$(shell echo '\#include <features.h>' | \
	$(CC) -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -Werror -E -xc - >/dev/null 2>&1 && echo 3 || echo 2))
# Marks of indirect branches (CET, BTI); on aarch64 return addresses are signed too.
HARDEN_BRANCHES := $(if $(ARM64)$(filter aarch64,$(shell uname -m)),-mbranch-protection=standard,-fcf-protection)
HARDEN_CFLAGS := -fstack-protector-strong -fstack-clash-protection $(HARDEN_BRANCHES) -Wformat=2 -U_FORTIFY_SOURCE \
	$(if $(HARDEN_FORTIFY),-D_FORTIFY_SOURCE=$(HARDEN_FORTIFY))
HARDEN_LDFLAGS := -Wl,-z,relro,-z,now,-z,noexecstack
HARDEN_PIE := -pie

# The folder in which something is built is no part of it, so that two builds are equal byte by byte.
SAME_EVERYWHERE := -ffile-prefix-map=$(abspath $(ROOT))=.
