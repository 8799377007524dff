/*
 * launcher/compile/compiler.h - the compiler on this machine: NVRTC in this process, or nvcc.
 */
#ifndef CK_LAUNCHER_COMPILE_COMPILER_H
#define CK_LAUNCHER_COMPILE_COMPILER_H

#include <limits.h>
#include <stdbool.h>

#include "launcher/compile/compile.h"

struct ckl_compiler {
	bool nvrtc;
	char path[PATH_MAX];	      /* of the library or program */
	char identity[PATH_MAX + 64]; /* changes whenever the compiler does */
};

/* The result of compiling. */
struct ckl_compiled {
	char *ptx; /* malloc'ed, NUL-terminated; NULL: it does not compile */
	size_t size;
	char *log; /* malloc'ed or NULL */
};

/*
 * Find one. @which: "auto" (NVRTC before nvcc), "nvrtc", "nvcc" or a file. Only looks: nothing is
 * loaded or run unless the usual folders have none. False: there is none.
 */
bool ckl_compiler_find(const char *which, struct ckl_compiler *compiler);

/*
 * Compile for the device, or the newest one that the compiler knows below it. 0 with out->ptx, or
 * with only out->log for a text that is wrong; -errno when the compiler itself fails, with a log
 * perhaps.
 */
int ckl_nvrtc_compile(const struct ckl_compiler *compiler, const struct ckl_compile *in,
		      struct ckl_compiled *out);
int ckl_nvcc_compile(const struct ckl_compiler *compiler, const struct ckl_compile *in,
		     struct ckl_compiled *out);

#endif
