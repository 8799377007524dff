/*
 * emu/physical.c - physical memory of cuMemCreate: a memfd, so that each of its mappings shows the
 * same bytes. Both its handle and its mappings keep it; the handle counts how often it was given.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/vmm.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* counts of handles; vmm.c's is outside */

static void physical_free(struct ck_emu_object *object)
{
	struct ck_emu_physical *p = (struct ck_emu_physical *)object;

	ck_emu_arena_give(p->prop.location.id, p->size);
	close(p->fd);
	free(p);
}

static CUresult prop_check(const CUmemAllocationProp *prop)
{
	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST ||
	    prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ck_emu_device_at(prop->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!granularity || !prop || (unsigned int)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	result = prop_check(prop);
	if (result == CUDA_SUCCESS)
		*granularity = CK_EMU_GRANULARITY;
	return result;
}

/* Physical memory with one handle; NULL: out of memory. */
static struct ck_emu_physical *physical_create(const CUmemAllocationProp *prop, size_t size)
{
	struct ck_emu_physical *p;

	if (!ck_emu_arena_take(prop->location.id, size))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		goto give;
	p->prop = *prop;
	p->size = size;
	p->handles = 1;
	p->fd = memfd_create("cricket device memory", MFD_CLOEXEC);
	if (p->fd < 0)
		goto free_p;
	if (ftruncate(p->fd, (off_t)size) < 0)
		goto close_fd;
	ck_emu_object_init(&p->base, CK_EMU_PHYSICAL, NULL, physical_free);
	return p;
close_fd:
	close(p->fd);
free_p:
	free(p);
give:
	ck_emu_arena_give(prop->location.id, size);
	return NULL;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_physical *p;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !prop || !size || !ck_emu_granular(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = prop_check(prop);
	if (result != CUDA_SUCCESS)
		return result;
	p = physical_create(prop, size);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = ck_emu_object_publish(&p->base);
	if (result == CUDA_SUCCESS)
		*handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
	else
		ck_emu_object_put(&p->base);
	return result;
}

struct ck_emu_physical *ck_emu_physical_get(CUmemGenericAllocationHandle handle)
{
	return ck_emu_object_get((const void *)(uintptr_t)handle, CK_EMU_PHYSICAL);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_physical *p;
	bool given;

	if (result != CUDA_SUCCESS)
		return result;
	p = ck_emu_physical_get(handle);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	given = p->handles > 0;
	if (given && --p->handles == 0)
		ck_emu_object_retract(&p->base);
	pthread_mutex_unlock(&lock);
	if (given)
		ck_emu_object_put(&p->base); /* the handle's own */
	ck_emu_object_put(&p->base);
	return given ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_physical *p;

	if (result != CUDA_SUCCESS)
		return result;
	p = prop ? ck_emu_physical_get(handle) : NULL;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = p->prop;
	ck_emu_object_put(&p->base);
	return CUDA_SUCCESS;
}

/* Lock held. */
static CUresult give(struct ck_emu_physical *p, CUmemGenericAllocationHandle *handle)
{
	CUresult result = CUDA_SUCCESS;

	if (p->handles == 0)
		result = ck_emu_object_publish(&p->base);
	if (result != CUDA_SUCCESS)
		return result;
	p->handles++;
	ck_emu_object_ref(&p->base);
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult ck_emu_physical_give(struct ck_emu_physical *p, CUmemGenericAllocationHandle *handle)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	result = give(p, handle);
	pthread_mutex_unlock(&lock);
	return result;
}
