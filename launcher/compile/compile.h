/*
 * launcher/compile/compile.h - CUDA C++ to PTX and PTX to machine code, through the kernel cache.
 */
#ifndef CK_LAUNCHER_COMPILE_COMPILE_H
#define CK_LAUNCHER_COMPILE_COMPILE_H

#include <jansson.h>
#include <stddef.h>

#include "launcher/compile/cache.h"
#include "launcher/compile/includes.h"
#include "launcher/driver/driver.h"
#include "launcher/text/failure.h"

/* A text to compile. */
struct ckl_compile {
	const char *text;	       /* NUL-terminated */
	size_t size;		       /* without the NUL */
	const char *path;	       /* its file, to find its includes; NULL: none */
	const char *name;	       /* its name in the cache when it has no file */
	json_t *options;	       /* list of strings for the compiler, or NULL */
	const char *compiler;	       /* auto, nvrtc, nvcc, or a file */
	unsigned sm;		       /* 10 * major + minor of the device it is for */
	struct ck_hash *key;	       /* set to the name of its entry; may be NULL */
	struct ckl_includes *includes; /* empty; set to its includes, the caller frees it */
};

/*
 * PTX of it: from the cache, else compiled now, by one process of several that ask. malloc'ed,
 * *size bytes and a NUL behind. A text that does not compile is CK_EXIT_FILE with the compiler's
 * log; that is in the cache too. @cache may be NULL.
 */
int ckl_compile_ptx(struct ckl_cache *cache, const struct ckl_compile *in, char **ptx, size_t *size,
		    struct ckl_fail *fail);

/*
 * Machine code of PTX for the driver's device, from the cache, else made by the driver's linker.
 * malloc'ed; NULL if there is none (the source is not PTX, the device is emulated, or an error):
 * load the PTX then.
 */
char *ckl_compile_cubin(struct ckl_cache *cache, const struct ckl_driver *driver, const char *ptx,
			size_t size);

#endif
