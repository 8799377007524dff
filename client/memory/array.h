/*
 * client/memory/array.h - arrays, and objects that belong to others.
 */
#ifndef CK_CLIENT_MEMORY_ARRAY_H
#define CK_CLIENT_MEMORY_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"

/* Get the descriptor of an array handle, and its id: INVALID_HANDLE. */
CUresult ckc_array_describe(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR *desc, uint64_t *id);
/* Bytes per element; 0: the format has no fixed element size. */
size_t ckc_array_element(const CUDA_ARRAY3D_DESCRIPTOR *desc);
/* The object for @id from the server, which belongs to @parent; NULL: out of memory. */
void *ckc_inmate_named(enum ckc_object_kind kind, uint64_t id, const struct ckc_object *parent);
/* End the objects that belong to @parent. */
void ckc_inmates_end(const struct ckc_object *parent);

#endif
