/*
 * emu/memory/vmm.h - physical memory of cuMemCreate, for the files that map it and hand out
 * handles.
 */
#ifndef CK_EMU_MEMORY_VMM_H
#define CK_EMU_MEMORY_VMM_H

#include "emu/core/emu.h"

#define CK_EMU_GRANULARITY (2ul << 20) /* of physical memory, reservations and mappings */

static inline bool ck_emu_granular(uint64_t value)
{
	return value % CK_EMU_GRANULARITY == 0;
}

struct ck_emu_physical {
	struct ck_emu_object base;
	CUmemAllocationProp prop;
	size_t size;
	int fd;
	bool imported;	      /* from another process, which counts its bytes */
	bool exported;	      /* other processes may have it */
	unsigned int handles; /* given and not released; under physical.c's lock */
};

/* The memory of a handle, with a reference for the caller; NULL: it is none. */
struct ck_emu_physical *ck_emu_physical_get(CUmemGenericAllocationHandle handle);
/* One more handle of @p, which may be the only one: OUT_OF_MEMORY. */
CUresult ck_emu_physical_give(struct ck_emu_physical *p, CUmemGenericAllocationHandle *handle);
/* Physical memory of another process behind its file @fd, which is duplicated; with one handle. */
CUresult ck_emu_physical_import(int fd, CUmemGenericAllocationHandle *handle);

#endif
