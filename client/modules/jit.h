/*
 * client/modules/jit.h - options of the compiler in the driver, and its logs.
 */
#ifndef CK_CLIENT_MODULES_JIT_H
#define CK_CLIENT_MODULES_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/object.h"

/* The options as the application passed them. */
struct ckc_jit {
	unsigned int count;
	CUjit_option *options;
	void **values;
};

/* An encoded option. */
struct ckc_jit_option {
	uint32_t option, pad;
	uint64_t value;
};

#define CK_JIT_OPTIONS 64

/* Encode the options that carry a value; returns their number. @target: include the link's
 * target. */
size_t ckc_jit_pack(const struct ckc_jit *jit, bool target,
		    struct ckc_jit_option out[CK_JIT_OPTIONS]);

/* Find the buffers for the logs in the options, to be written later. */
void ckc_jit_logs(const struct ckc_jit *jit, struct ckc_jit_log *info, struct ckc_jit_log *error);
void ckc_jit_log(const struct ckc_jit_log *log, const char *text, size_t size);

/* Compile and load the image with @hash as module @id on the server. Logs and sizes are written
 * where the options say. @jit may be NULL. */
CUresult ckc_jit_build(const struct ckc_jit *jit, uint64_t ctx, uint64_t id, bool library,
		       const unsigned char hash[32]);

/* Nothing was compiled: write an empty log, and @why as that of errors. */
void ckc_jit_no_build(const struct ckc_jit *jit, const char *why);

#endif
