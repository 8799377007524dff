/*
 * libcuda/local.h - context-local storage: a value for each pair of a context and a key.
 *
 * Each copy of the CUDA runtime keeps its state of a context here, and looks it up in every call
 * that it gets. Safe from all threads. @handle NULL or -1 means the calling thread's current
 * context; without one the result is INVALID_CONTEXT.
 */
#ifndef CK_LIBCUDA_LOCAL_H
#define CK_LIBCUDA_LOCAL_H

#include "cuda/types.h"

typedef void (*ck_local_destructor)(CUcontext context, void *key, void *value);

/* Store or replace; the destructor of a value that is replaced is not called. OUT_OF_MEMORY. */
CUresult ck_local_put(CUcontext handle, void *key, void *value, ck_local_destructor destructor);
/* Drop without calling the destructor. INVALID_HANDLE: nothing is stored. */
CUresult ck_local_delete(CUcontext handle, void *key);
/* INVALID_HANDLE: nothing is stored, *@value is as it was. */
CUresult ck_local_get(void **value, CUcontext handle, void *key);

/* Forget all of @context, and call the destructors, with no lock held: they come back to us. */
void ck_local_forget(CUcontext context);

#endif
