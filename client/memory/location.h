/*
 * client/memory/location.h - memory locations with the server's device numbers.
 */
#ifndef CK_CLIENT_MEMORY_LOCATION_H
#define CK_CLIENT_MEMORY_LOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

static inline bool ckc_location_in_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* Translate the device of a location to the server's number: INVALID_DEVICE. Others are
 * unchanged. */
CUresult ckc_location_id(const CUmemLocation *location, CUmemLocation *out);

/*
 * The same for a list of access descriptors, which the caller frees. Also returns a bit for each
 * device that gains or loses access: INVALID_VALUE, OUT_OF_MEMORY.
 */
CUresult ckc_access_ids(const CUmemAccessDesc *desc, size_t count, CUmemAccessDesc **out,
			uint64_t *gained, uint64_t *lost);

#endif
