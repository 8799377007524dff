/*
 * client/memory/physical.h - handles of physical memory, which virtual.c maps.
 */
#ifndef CK_CLIENT_MEMORY_PHYSICAL_H
#define CK_CLIENT_MEMORY_PHYSICAL_H

#include "client/link/object.h"

/* The physical memory of a handle, or NULL. CUDA has no special error for an invalid one. */
struct ckc_physical *ckc_physical_from(CUmemGenericAllocationHandle handle);

/* Part @part of M3 region @rid, which the session has open, as a handle that can be mapped with
 * @access. */
CUresult ckc_physical_import(uint64_t rid, unsigned int part, unsigned int access,
			     CUmemGenericAllocationHandle *handle);

#endif
