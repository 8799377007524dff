/*
 * client/jit.h - options of the compiler in the driver, and the logs that it leaves.
 */
#ifndef CK_CLIENT_JIT_H
#define CK_CLIENT_JIT_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

/* As the application passed them. */
struct ck_jit {
	unsigned int count;
	CUjit_option *options;
	void **values;
};

/* Compile and load the image of @hash as module @id on the server; logs and sizes go where the
 * options say. @jit may be NULL. */
CUresult ck_jit_build(const struct ck_jit *jit, uint64_t ctx, uint64_t id, bool library,
		      const unsigned char hash[32]);

/* Nothing was compiled: empty logs. */
void ck_jit_no_log(const struct ck_jit *jit);

#endif
