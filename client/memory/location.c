/*
 * client/memory/location.c - memory locations with the server's device numbers.
 */
#include <stdlib.h>

#include "client/link/client.h"
#include "client/memory/location.h"

#define ACCESS_MAX 1024 /* descriptors in one call; CUDA names no limit */

CUresult ckc_location_id(const CUmemLocation *location, CUmemLocation *out)
{
	*out = *location;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_SUCCESS;
	return ckc_device_id(location->id, &out->id);
}

CUresult ckc_access_ids(const CUmemAccessDesc *desc, size_t count, CUmemAccessDesc **out,
			uint64_t *gained, uint64_t *lost)
{
	CUresult err = CUDA_SUCCESS;

	*gained = *lost = 0;
	if (!desc || count == 0 || count > ACCESS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*out = calloc(count, sizeof(**out));
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count && !err; i++) {
		unsigned int bit = (unsigned int)desc[i].location.id & 63;

		(*out)[i].flags = desc[i].flags;
		err = ckc_location_id(&desc[i].location, &(*out)[i].location);
		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			continue;
		*(desc[i].flags ? gained : lost) |= (uint64_t)1 << bit;
	}
	if (err)
		free(*out);
	return err;
}
