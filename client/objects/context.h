/*
 * client/objects/context.h - what the files on contexts share; the rest is in client.h.
 */
#ifndef CK_CLIENT_OBJECTS_CONTEXT_H
#define CK_CLIENT_OBJECTS_CONTEXT_H

#include "client/wire/client.h"

/* A number for cuCtxGetId that no context of this process has had before; from 1. */
uint64_t ck_context_number(void);

/* Are these flags that a context can have? Flag bits, and at most one way of waiting. */
bool ck_context_flags_valid(unsigned int flags);

/*
 * The context of @handle if this process ever made it, one that has been destroyed included;
 * NULL otherwise. Contexts' slots are never used again, so that a stale handle is told apart.
 */
struct ck_context *ck_context_known(CUcontext handle);

/* Destructors of context-local storage, objects and allocations of a context that goes. */
void ck_context_forget(struct ck_context *context);

static inline bool ck_context_active(const struct ck_context *context)
{
	return atomic_load_explicit(&context->active, memory_order_acquire);
}

/* What a call gets that needs @context, which is not active, to be. */
static inline CUresult ck_context_dead(const struct ck_context *context)
{
	return context->was_active ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

#endif
