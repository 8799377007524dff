/*
 * client/modules/launch_pack.c - a launch on the wire: its parameters and attributes.
 */
#include <string.h>

#include "client/objects/capture.h"
#include "client/link/client.h"
#include "client/modules/launch.h"
#include "client/managed/managed.h"
#include "client/managed/window.h"
#include "elf/kernels.h"
#include "util/env.h"
#include "util/log.h"

#define STRUCTURE_MIN 256 /* bytes of a large one */

/* Take the whole parameter block from `extra`. */
static CUresult params_of_extra(void **extra, const void **block, size_t *size)
{
	*block = NULL;
	*size = 0;
	for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			*block = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
			*size = *(size_t *)extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if ((*size && !*block) || *size > CK_KERNEL_PARAM_MAX + 4)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Zero the gaps, so that the bytes sent depend on the parameters only. */
static CUresult pack_params(const struct ck_kernel *k, void **params, unsigned char *out)
{
	memset(out, 0, k->param_bytes);
	for (uint32_t i = 0; i < k->param_count; i++) {
		const struct ck_kernel_param *p = &k->params[i];

		if (!params[i] || p->offset + p->size > k->param_bytes)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(out + p->offset, params[i], p->size);
	}
	return CUDA_SUCCESS;
}

CUresult ckc_launch_params(const struct ck_function *f, void **params, void **extra,
			   unsigned char *room, const void **block, size_t *size)
{
	*block = room;
	*size = f->kernel->param_bytes;
	if (extra)
		return params_of_extra(extra, block, size);
	if (*size == 0)
		return CUDA_SUCCESS;
	return params ? pack_params(f->kernel, params, room) : CUDA_ERROR_INVALID_VALUE;
}

/* Does CUDA 13.0 take the attribute at a launch? Others are for streams and nodes, or unknown. */
static bool is_for_launches(CUlaunchAttributeID id)
{
	switch (id) {
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		return false;
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return true;
	default:
		return id <= CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
	}
}

/* Copy the attributes, with ids for event handles, and drop those that request nothing. */
CUresult ckc_launch_attributes(const struct ck_launch *l, CUlaunchAttribute *out, unsigned int *n)
{
	*n = 0;
	if (l->attribute_count > CK_LAUNCH_ATTRIBUTES || (l->attribute_count && !l->attributes))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < l->attribute_count; i++) {
		CUlaunchAttribute *a = &out[*n];
		uint64_t id;

		*a = l->attributes[i];
		if (a->id == CU_LAUNCH_ATTRIBUTE_IGNORE)
			continue;
		if (!is_for_launches(a->id))
			return CUDA_ERROR_INVALID_VALUE;
		if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
		    a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
			if (ckc_event_id(a->value.programmaticEvent.event, &id))
				return CUDA_ERROR_INVALID_HANDLE;
			memcpy(&a->value.programmaticEvent.event, &id, sizeof(id));
		}
		(*n)++;
	}
	return CUDA_SUCCESS;
}

/* Is byte @at of the block of @k in a large structure? Programs often leave parts of those
 * uninitialised. */
static bool is_in_structure(const struct ck_kernel *k, size_t at)
{
	for (uint32_t i = 0; k && i < k->param_count; i++) {
		const struct ck_kernel_param *p = &k->params[i];

		if (at >= p->offset && at - p->offset < p->size)
			return p->size >= STRUCTURE_MIN;
	}
	return false;
}

CUresult ckc_launch_expose(const struct ck_kernel *k, const unsigned char *block, size_t size)
{
	const struct ck_window *w = &ckc_client_current()->managed->window;
	CUresult err = CUDA_SUCCESS;

	for (size_t at = 0; !err && at + 8 <= size; at += 8) {
		uint64_t word;

		memcpy(&word, block + at, sizeof(word));
		if (unlikely(ckc_window_has(w, word)))
			err = ckc_hostmem_expose(word, is_in_structure(k, at));
	}
	return err;
}
