/*
 * client/memory/array.h - arrays, and objects that belong to others.
 */
#ifndef CK_CLIENT_MEMORY_ARRAY_H
#define CK_CLIENT_MEMORY_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "client/wire/client.h"

/* Get the descriptor of an array handle, and its id: INVALID_HANDLE. */
CUresult ck_array_describe(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR *desc, uint64_t *id);
/* Bytes per element; 0: the format has no fixed element size. */
size_t ck_array_element(const CUDA_ARRAY3D_DESCRIPTOR *desc);
/* The object for @id from the server, which belongs to @parent; NULL: out of memory. */
void *ck_inmate_named(enum ck_object_kind kind, uint64_t id, const struct ck_object *parent);
/* End the objects that belong to @parent. */
void ck_inmates_end(const struct ck_object *parent);

#endif
