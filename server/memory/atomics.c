/*
 * server/memory/atomics.c - the atomic operations that a device supports in another device's
 * memory.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/session/session.h"

#define CK_OPERATIONS_MAX 4096

CUresult ck_serve_p2p_atomics(struct cks_request *q, ck_p2p_atomics_args *a,
			      ck_p2p_atomics_res *res)
{
	CUatomicOperation operations[CK_OPERATIONS_MAX];
	size_t size = a->operations.operations_len;
	unsigned int count = (unsigned int)(size / sizeof(operations[0]));
	unsigned int *capabilities;
	CUresult err;

	(void)q;
	if (!ck_driver.cuDeviceGetP2PAtomicCapabilities)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (count == 0 || size % sizeof(operations[0]) != 0 || size > sizeof(operations))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(operations, a->operations.operations_val, size);
	capabilities = calloc(count, sizeof(*capabilities));
	if (!capabilities)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_driver.cuDeviceGetP2PAtomicCapabilities(capabilities, operations, count, a->from,
							 a->to);
	res->capabilities.capabilities_val = (char *)capabilities;
	res->capabilities.capabilities_len = (u_int)(count * sizeof(*capabilities));
	return err;
}
