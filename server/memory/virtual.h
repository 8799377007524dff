/*
 * server/memory/virtual.h - the driver's functions for addresses and physical memory.
 */
#ifndef CK_SERVER_MEMORY_VIRTUAL_H
#define CK_SERVER_MEMORY_VIRTUAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/* Can the driver reserve addresses, and map and unmap physical memory there? */
bool cks_virtual_supported(void);

/* Reserve [at, at+size), exactly there. False: something is there. */
bool cks_virtual_reserve(CUdeviceptr at, size_t size);

/* Let the devices of @writers use [at, at+size), and those of @readers read it: a bit each. */
CUresult cks_virtual_grant(CUdeviceptr at, size_t size, uint64_t writers, uint64_t readers);

#endif
