/*
 * client/modules/launch.h - shared by launches and kernel nodes of graphs.
 */
#ifndef CK_CLIENT_MODULES_LAUNCH_H
#define CK_CLIENT_MODULES_LAUNCH_H

#include "client/link/client.h"
#include "client/managed/managed.h"
#include "client/modules/code.h"
#include "client/modules/printing.h"
#include "cuda/types.h"
#include "rpc/launch.h"

struct ck_kernel;

/* The common form of all launches. */
struct ck_launch {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
	const CUlaunchAttribute *attributes;
	unsigned int attribute_count;
	void **params, **extra;
};

/* Check that the device and the kernel accept these dimensions: INVALID_VALUE, OUT_OF_RESOURCES. */
CUresult ckc_launch_check(const struct ck_launch *l, struct ck_function *f, CUdevice device);
/* Check that all blocks fit on the current device at once. Reported at the call, as by the driver:
 * COOPERATIVE_LAUNCH_TOO_LARGE. */
CUresult ckc_launch_check_cooperative(CUfunction f, const struct ck_launch *l);
/* A mark for a device's context; only every 128th one has the same. Never 0. */
static inline uint8_t ckc_launch_mark(const struct ckc_context *ctx)
{
	return (uint8_t)(ctx->unique_id * 2 + 1);
}

/* Call before a launch of @f in @ctx: the first one there makes the driver load it. Call the second
 * function after a launch, in @stream (0: legacy), that will run. */
static inline void ckc_launch_loading(const struct ck_function *f, const struct ckc_context *ctx)
{
	if (unlikely(f->launched[ctx->device % CK_LAUNCHED] != ckc_launch_mark(ctx)))
		ckc_managed_loading();
}

static inline void ckc_launch_loaded(struct ck_function *f, struct ckc_context *ctx,
				     uint64_t stream)
{
	_Atomic uint8_t *launched = &f->launched[ctx->device % CK_LAUNCHED];

	if (unlikely(*launched != ckc_launch_mark(ctx)))
		*launched = ckc_launch_mark(ctx);
	if (unlikely(f->module->code->kernels.print))
		ckc_printing_launched(ctx, stream);
}

/* Any aligned word may be the address of pinned memory: map it for the device if so. @k: whose
 * parameters they are; or NULL. */
CUresult ckc_launch_expose(const struct ck_kernel *k, const unsigned char *block, size_t size);
/* CUDA_LAUNCH_BLOCKING=1: a launch returns after the kernel has run, with its error. */
bool ckc_launch_blocking(void);
/* Wait so for the launch in @stream, and say which line of the program it was if it has failed. */
CUresult ckc_launch_wait(CUstream stream);

/* The attributes that are sent, in @out, and their number. */
CUresult ckc_launch_attributes(const struct ck_launch *l, CUlaunchAttribute *out, unsigned int *n);

/*
 * The parameter block of @f, *@size bytes at *@block: packed from @params into @room, which has
 * CK_KERNEL_PARAM_MAX + 4 bytes, or as given by @extra. INVALID_VALUE.
 */
CUresult ckc_launch_params(const struct ck_function *f, void **params, void **extra,
			   unsigned char *room, const void **block, size_t *size);

/* --- the line of a Python program (launch_site.c) */

/* The calling thread's launch has returned @err: if a kernel has failed, and Python runs in this
 * process, say where the thread is. It waits for a second at most if other threads keep Python's
 * lock. With CUDA_LAUNCH_BLOCKING=1 the launch itself returns the error, so the program is still at
 * that line. */
void ckc_launch_site_report(CUresult err);

#endif
