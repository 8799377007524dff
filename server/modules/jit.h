/*
 * server/modules/jit.h - decoded options of the driver's compiler, and its logs.
 */
#ifndef CK_SERVER_MODULES_JIT_H
#define CK_SERVER_MODULES_JIT_H

#include <stddef.h>
#include <stdint.h>
#include <rpc/rpc.h>

#include "cuda/types.h"

#define CK_LOG_SIZE 8192 /* bytes of each log */
#define CK_BUILD_OPTIONS 64
#define CK_OWN_OPTIONS 4

/* The driver writes to the logs, so the structure must not move. */
struct cks_build {
	CUjit_option option[CK_BUILD_OPTIONS + CK_OWN_OPTIONS];
	void *value[CK_BUILD_OPTIONS + CK_OWN_OPTIONS];
	unsigned int count;
	char info[CK_LOG_SIZE], error[CK_LOG_SIZE];
};

/* Start with only the options for the logs, which are empty. */
void cks_build_init(struct cks_build *build);
/* Add the encoded options in @bytes; refuse one that contains a pointer (INVALID_VALUE). */
CUresult cks_build_options(struct cks_build *build, const void *bytes, size_t size);
/* Copy a log; the caller frees it. */
char *cks_build_log(const char *log, u_int *size);

#endif
