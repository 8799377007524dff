/*
 * client/memory/array.h - arrays, and objects that live inside others.
 */
#ifndef CK_CLIENT_MEMORY_ARRAY_H
#define CK_CLIENT_MEMORY_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "client/wire/client.h"

/* The descriptor of the array behind @handle, and its id: INVALID_HANDLE. */
CUresult ck_array_describe(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR *desc, uint64_t *id);
/* Bytes of an element; 0: a format whose elements have no size of their own. */
size_t ck_array_element(const CUDA_ARRAY3D_DESCRIPTOR *desc);
/* The object of @id, which the server has told, lives inside @parent; NULL: out of memory. */
void *ck_inmate_named(enum ck_object_kind kind, uint64_t id, const struct ck_object *parent);
/* What lives inside @parent ends. */
void ck_inmates_end(const struct ck_object *parent);

#endif
