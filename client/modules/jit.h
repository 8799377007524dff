/*
 * client/modules/jit.h - options of the compiler in the driver, and the logs that it leaves.
 */
#ifndef CK_CLIENT_MODULES_JIT_H
#define CK_CLIENT_MODULES_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/object.h"

/* As the application passed them. */
struct ck_jit {
	unsigned int count;
	CUjit_option *options;
	void **values;
};

/* An option as it travels. */
struct ck_jit_option {
	uint32_t option, pad;
	uint64_t value;
};

#define CK_JIT_OPTIONS 64

/* Options that carry a value, packed; their number. @target: the link's own target counts too. */
size_t ck_jit_pack(const struct ck_jit *jit, bool target,
		   struct ck_jit_option out[CK_JIT_OPTIONS]);

/* Where the options want the logs, to write to later. */
void ck_jit_logs(const struct ck_jit *jit, struct ck_jit_log *info, struct ck_jit_log *error);
void ck_jit_log(const struct ck_jit_log *log, const char *text, size_t size);

/* Compile and load the image of @hash as module @id on the server; logs and sizes go where the
 * options say. @jit may be NULL. */
CUresult ck_jit_build(const struct ck_jit *jit, uint64_t ctx, uint64_t id, bool library,
		      const unsigned char hash[32]);

/* Nothing was compiled: empty logs. */
void ck_jit_no_log(const struct ck_jit *jit);

#endif
