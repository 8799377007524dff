/*
 * emu/objects/resource.h - parts of a device's multiprocessors, which green contexts have.
 */
#ifndef CK_EMU_OBJECTS_RESOURCE_H
#define CK_EMU_OBJECTS_RESOURCE_H

#include "emu/core/emu.h"

/* The object behind a CUdevResourceDesc. */
struct ck_emu_resources {
	struct ck_emu_object base;
	int device;
	unsigned int count; /* multiprocessors */
};

/* Describe @count multiprocessors of @device, as a resource that can be split. */
CUresult ck_emu_resource_get(CUdevResource *resource, CUdevResourceType type, int device,
			     unsigned int count);

#endif
