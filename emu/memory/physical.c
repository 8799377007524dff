/*
 * emu/memory/physical.c - physical memory of cuMemCreate: a memfd, so that each of its mappings
 * shows the same bytes, in other processes too. Both its handle and its mappings keep it; the
 * handle counts how often it was given.
 *
 * A descriptor carries all that another process needs: its file's name has the device and the ways
 * to share it, its seal prevents truncation.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/memory/arena.h"
#include "emu/core/locks.h"
#include "emu/memory/vmm.h"
#include "util/env.h"
#include "util/process/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("emu");

#define NAME "cricket device memory"

static struct ck_mutex handles_lock = CK_MUTEX(CK_RANK_PHYSICAL);

static void physical_free(struct ck_emu_object *object)
{
	struct ck_emu_physical *p = (struct ck_emu_physical *)object;

	if (!p->imported)
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

/* Programs must not rely on the content of new memory: CRICKET_EMU=dirty finds those that do. */
static void make_dirty(int fd, size_t size)
{
	char page[4096];

	memset(page, 0xdb, sizeof(page));
	for (size_t at = 0; at < size; at += sizeof(page)) {
		if (pwrite(fd, page, sizeof(page), (off_t)at) != (ssize_t)sizeof(page))
			return;
	}
}

/* The file of @size bytes behind new memory, or -1. */
static int file_create(const CUmemAllocationProp *prop, size_t size)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), NAME " %d %d", prop->location.id, prop->requestedHandleTypes);
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ck_fd_resize(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		ck_err("no file of %zu bytes for device memory: %m", size);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (ck_env_word_number("CRICKET_EMU", "dirty"))
		make_dirty(fd, size);
	return fd;
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
	p->fd = file_create(prop, size);
	if (p->fd < 0)
		goto free_p;
	ck_emu_object_init(&p->base, CK_EMU_PHYSICAL, NULL, physical_free);
	return p;
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
	ck_lock(&handles_lock);
	given = p->handles > 0;
	if (given && --p->handles == 0)
		ck_emu_object_retract(&p->base);
	ck_unlock(&handles_lock);
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
static CUresult create_handle(struct ck_emu_physical *p, CUmemGenericAllocationHandle *handle)
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

	ck_lock(&handles_lock);
	result = create_handle(p, handle);
	ck_unlock(&handles_lock);
	return result;
}

/* Whether this driver, in any process, made the file @fd; its properties then. */
static bool file_read(int fd, CUmemAllocationProp *prop, size_t *size)
{
	char link[32], name[128];
	struct stat st;
	ssize_t n;
	int device, types;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name) - 1);
	if (n < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 ||
	    !ck_emu_granular((uint64_t)st.st_size))
		return false;
	name[n] = '\0';
	if (sscanf(name, "/memfd:" NAME " %d %d", &device, &types) != 2 ||
	    !ck_emu_device_at(device) || !(types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
	    !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
		return false;
	memset(prop, 0, sizeof(*prop));
	prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
	prop->requestedHandleTypes = (CUmemAllocationHandleType)types;
	*size = (size_t)st.st_size;
	return true;
}

CUresult ck_emu_physical_import(int fd, CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp prop;
	struct ck_emu_physical *p;
	CUresult result;
	size_t size;

	if (!file_read(fd, &prop, &size))
		return CUDA_ERROR_INVALID_VALUE;
	p = calloc(1, sizeof(*p));
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->prop = prop;
	p->size = size;
	p->imported = true;
	p->handles = 1;
	p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (p->fd < 0) {
		free(p);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	ck_emu_object_init(&p->base, CK_EMU_PHYSICAL, NULL, physical_free);
	result = ck_emu_object_publish(&p->base);
	if (result == CUDA_SUCCESS)
		*handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
	else
		ck_emu_object_put(&p->base);
	return result;
}
