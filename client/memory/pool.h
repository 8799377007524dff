/*
 * client/memory/pool.h - where memory lies, as the server counts devices.
 */
#ifndef CK_CLIENT_MEMORY_POOL_H
#define CK_CLIENT_MEMORY_POOL_H

#include "cuda/types.h"

/* The location with the server's number of its device: INVALID_DEVICE. Others are unchanged. */
CUresult ck_location_id(const CUmemLocation *location, CUmemLocation *out);

/*
 * The same for a list of who may use memory, to be freed by the caller, and the bits of the devices
 * that gain and lose it: INVALID_VALUE, OUT_OF_MEMORY.
 */
CUresult ck_access_ids(const CUmemAccessDesc *desc, size_t count, CUmemAccessDesc **out,
		       uint64_t *gained, uint64_t *lost);

#endif
