/*
 * server/modules/jit.h - options of the driver's compiler, as they come off the wire, and its logs.
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

/* The driver writes to the logs: the structure must stay where it is. */
struct ck_build {
	CUjit_option option[CK_BUILD_OPTIONS + CK_OWN_OPTIONS];
	void *value[CK_BUILD_OPTIONS + CK_OWN_OPTIONS];
	unsigned int count;
	char info[CK_LOG_SIZE], error[CK_LOG_SIZE];
};

/* No options but those for the logs, which are empty. */
void ck_build_init(struct ck_build *build);
/* Add options that travelled as @bytes; one that holds a pointer is refused (INVALID_VALUE). */
CUresult ck_build_options(struct ck_build *build, const void *bytes, size_t size);
/* A copy of a log, to be freed. */
char *ck_build_log(const char *log, u_int *size);

#endif
