/*
 * client/modules/launch.h - what launches and kernel nodes of graphs have in common.
 */
#ifndef CK_CLIENT_MODULES_LAUNCH_H
#define CK_CLIENT_MODULES_LAUNCH_H

#include "client/wire/client.h"
#include "client/managed/managed.h"

/* What every form of launch comes down to. */
struct ck_launch {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
	const CUlaunchAttribute *attributes;
	unsigned int attribute_count;
	void **params, **extra;
};

/* Whether the device and the kernel take these dimensions: INVALID_VALUE, OUT_OF_RESOURCES. */
CUresult ck_launch_check(const struct ck_launch *l, struct ck_function *f, CUdevice device);
/* All blocks must fit on the current device at once; the driver says so at the call, and so do
 * we: COOPERATIVE_LAUNCH_TOO_LARGE. */
CUresult ck_launch_check_cooperative(CUfunction f, const struct ck_launch *l);
/* Tells a device's context from those before it, but for every 128th; never 0. */
static inline uint8_t ck_launch_mark(const struct ck_context *ctx)
{
	return (uint8_t)(ctx->unique_id * 2 + 1);
}

/* Before a launch of @f in @ctx: the first one there has the driver load it. And after one that is to run. */
static inline void ck_launch_loading(const struct ck_function *f, const struct ck_context *ctx)
{
	if (unlikely(f->launched[ctx->device % CK_LAUNCHED] != ck_launch_mark(ctx)))
		ck_managed_loading();
}

static inline void ck_launch_loaded(struct ck_function *f, const struct ck_context *ctx)
{
	_Atomic uint8_t *launched = &f->launched[ctx->device % CK_LAUNCHED];

	if (unlikely(*launched != ck_launch_mark(ctx)))
		*launched = ck_launch_mark(ctx);
}

/* A parameter may be the address of pinned memory: any aligned word may be. */
CUresult ck_launch_expose(const unsigned char *block, size_t size);
/* CUDA_LAUNCH_BLOCKING=1: a launch returns when the kernel has run, with its error. */
bool ck_launch_blocking(void);

/*
 * The parameter block of @f, *@size bytes at *@block: packed from @params into @room, which has
 * CK_KERNEL_PARAM_MAX + 4 bytes, or as @extra gives it. INVALID_VALUE.
 */
CUresult ck_launch_params(const struct ck_function *f, void **params, void **extra,
			  unsigned char *room, const void **block, size_t *size);

#endif
