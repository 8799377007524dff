/*
 * emu/vmm.h - physical memory of cuMemCreate, for the files that hand out handles of it.
 */
#ifndef CK_EMU_VMM_H
#define CK_EMU_VMM_H

#include "emu/emu.h"

struct ck_emu_physical {
	struct ck_emu_object base;
	CUmemAllocationProp prop;
	size_t size;
	int fd;
	unsigned int handles; /* given and not released; under vmm.c's lock */
};

/* One more handle of @p: OUT_OF_MEMORY. */
CUresult ck_emu_physical_give(struct ck_emu_physical *p, CUmemGenericAllocationHandle *handle);

#endif
