/*
 * client/objects/context.h - shared by the files on contexts; the rest is in client.h.
 */
#ifndef CK_CLIENT_OBJECTS_CONTEXT_H
#define CK_CLIENT_OBJECTS_CONTEXT_H

#include "client/link/client.h"

/* A new number for cuCtxGetId, from 1: no context of this process has had it. */
uint64_t ckc_context_number(void);

/* Are @flags valid for a context? Known bits only, and at most one scheduling flag. */
bool ckc_context_flags_valid(unsigned int flags);

/*
 * The context of @handle, also if it has been destroyed; NULL: this process never made it. Slots of
 * contexts are not reused, so that stale handles are recognised.
 */
struct ckc_context *ckc_context_known(CUcontext handle);

/* A context ends: run the destructors of its local storage, and forget its objects and
 * allocations. */
void ckc_context_forget(struct ckc_context *context);

static inline bool ckc_context_active(const struct ckc_context *context)
{
	return atomic_load_explicit(&context->active, memory_order_acquire);
}

/* The error of a call that needs @context to be active when it is not. */
static inline CUresult ckc_context_dead(const struct ckc_context *context)
{
	return context->was_active ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

#endif
