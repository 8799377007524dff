/*
 * emu/memory/vmm.c - virtual memory management: reserved addresses, mappings, access.
 *
 * A mapping is in the table of arena.c, where kernels and copies look; this file knows the
 * reservations.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "emu/memory/arena.h"
#include "emu/core/locks.h"
#include "emu/core/emu.h"
#include "emu/memory/vmm.h"
#include "util/log.h"
#include "util/page.h"
#include "util/range.h"

CK_LOG_DEFINE("emu");

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define PAGE ck_page()
#define RESERVE (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static struct ck_mutex reserved_lock = CK_MUTEX(CK_RANK_RESERVED);
static struct ck_ranges *reserved; /* without values */

/* --- reserved addresses */

/* Addresses at @hint, or at any multiple of @alignment; NULL: there are none. */
static char *addresses_take(size_t size, size_t alignment, uint64_t hint)
{
	char *got, *start;

	if (hint) {
		got = mmap((void *)hint, size, PROT_NONE, RESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (got == (char *)hint)
			return got;
		if (got != MAP_FAILED)
			munmap(got, size);
	}
	got = mmap(NULL, size + alignment, PROT_NONE, RESERVE, -1, 0);
	if (got == MAP_FAILED)
		return NULL;
	start = (char *)CK_ALIGN_UP((uint64_t)got, alignment);
	if (start > got)
		munmap(got, (size_t)(start - got));
	if (got + alignment > start)
		munmap(start + size, (size_t)(got + alignment - start));
	return start;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags)
{
	CUresult result = ck_emu_enter_bare();
	size_t room;
	char *start;
	int ret = -ENOMEM;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ptr || !size || !ck_emu_granular(size) || addr % PAGE || flags ||
	    (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	alignment = ck_max(alignment, CK_EMU_GRANULARITY);
	if (ck_add_overflow(size, alignment, &room))
		return CUDA_ERROR_OUT_OF_MEMORY;
	start = addresses_take(size, alignment, addr % alignment ? 0 : addr);
	if (!start)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_lock(&reserved_lock);
	if (!reserved)
		reserved = ck_ranges_create();
	if (reserved)
		ret = ck_ranges_insert(reserved, (uint64_t)start, (uint64_t)start + size, NULL);
	ck_unlock(&reserved_lock);
	if (ret < 0) {
		munmap(start, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ptr = (CUdeviceptr)start;
	return CUDA_SUCCESS;
}

/* The first mapping that touches [@lo, @hi); false: nothing is mapped there. */
static bool mapping_in(uint64_t lo, uint64_t hi, struct ck_emu_memory *memory)
{
	/* mappings begin and end at multiples of the granularity */
	for (; lo < hi; lo += CK_EMU_GRANULARITY) {
		if (ck_emu_arena_find(lo, memory) && memory->kind == CK_EMU_MEMORY_VIRTUAL)
			return true;
	}
	return false;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	CUresult result = ck_emu_enter_bare();
	const struct ck_range *range;
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	ck_lock(&reserved_lock);
	range = reserved ? ck_ranges_find(reserved, ptr) : NULL;
	if (!range || range->lo != ptr || range->hi - ptr != size ||
	    mapping_in(range->lo, range->hi, &memory)) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		ck_ranges_remove(reserved, ptr, NULL);
		munmap((void *)ptr, size);
	}
	ck_unlock(&reserved_lock);
	return result;
}

/* --- mappings */

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&reserved_lock); /* against an unmapping that would end the memory */
	if (ck_emu_arena_find((uint64_t)addr, &memory) && memory.kind == CK_EMU_MEMORY_VIRTUAL) {
		result = ck_emu_physical_give((void *)(uintptr_t)memory.owner, handle);
	} else {
		result = CUDA_ERROR_INVALID_VALUE;
	}
	ck_unlock(&reserved_lock);
	return result;
}

/* Put @p's bytes at @ptr, which is reserved and empty. Lock held. */
static CUresult map_at(struct ck_emu_physical *p, uint64_t ptr, size_t size, size_t offset)
{
	const struct ck_range *range = reserved ? ck_ranges_find(reserved, ptr) : NULL;
	struct ck_emu_memory memory = {.lo = ptr,
				       .size = size,
				       .kind = CK_EMU_MEMORY_VIRTUAL,
				       .device = p->prop.location.id,
				       .owner = p};
	struct ck_emu_memory other;

	if (!range || size > range->hi - ptr || mapping_in(ptr, ptr + size, &other))
		return CUDA_ERROR_INVALID_VALUE;
	if (mmap((void *)ptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd,
		 (off_t)offset) == MAP_FAILED) {
		ck_err("map %zu bytes at %#lx: %m", size, ptr);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ck_emu_object_ref(&p->base);
	if (ck_emu_arena_add_mapping(&memory) == 0)
		return CUDA_SUCCESS;
	mmap((void *)ptr, size, PROT_NONE, RESERVE | MAP_FIXED, -1, 0);
	ck_emu_object_put(&p->base);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_physical *p;
	size_t end;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ptr || !size || flags || !ck_emu_granular(ptr) || !ck_emu_granular(size) ||
	    !ck_emu_granular(offset) || ck_add_overflow(offset, size, &end))
		return CUDA_ERROR_INVALID_VALUE;
	p = ck_emu_physical_get(handle);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	result = CUDA_ERROR_INVALID_VALUE;
	if (end <= p->size) {
		ck_lock(&reserved_lock);
		result = map_at(p, ptr, size, offset);
		ck_unlock(&reserved_lock);
	}
	ck_emu_object_put(&p->base);
	return result;
}

/* True when [@ptr, +@size) is whole mappings without a gap. */
static bool is_mapped(uint64_t ptr, size_t size)
{
	struct ck_emu_memory memory;

	while (size > 0) {
		if (!ck_emu_arena_find(ptr, &memory) || memory.kind != CK_EMU_MEMORY_VIRTUAL ||
		    memory.lo != ptr || memory.size > size)
			return false;
		ptr += memory.size;
		size -= memory.size;
	}
	return true;
}

static void unmap_at(uint64_t ptr, size_t size)
{
	struct ck_emu_memory memory;

	for (uint64_t at = ptr; at < ptr + size; at += memory.size) {
		ck_emu_arena_remove(at, CK_EMU_MEMORY_VIRTUAL, &memory);
		mmap((void *)at, memory.size, PROT_NONE, RESERVE | MAP_FIXED, -1, 0);
		ck_emu_object_put((struct ck_emu_object *)(uintptr_t)memory.owner);
	}
}

/* Whether the device reaches all memory that is mapped there. Lock held. */
static bool device_reaches_range(CUdevice device, uint64_t ptr, size_t size)
{
	struct ck_emu_memory memory;

	for (uint64_t at = ptr; at < ptr + size && ck_emu_arena_find(at, &memory);
	     at += memory.size) {
		if (!ck_emu_device_reaches(device, memory.device))
			return false;
	}
	return true;
}

/* As on a GPU, it does not wait for work: a kernel that still uses the memory faults. */
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult result = ck_emu_enter_bare();
	uint64_t end;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ptr || !size || ck_add_overflow(ptr, size, &end))
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&reserved_lock);
	if (is_mapped(ptr, size))
		unmap_at(ptr, size);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	ck_unlock(&reserved_lock);
	return result;
}

static CUresult desc_check(const CUmemAccessDesc *desc)
{
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return ck_emu_device_at(desc->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static void grant_access(uint64_t ptr, size_t size, const CUmemAccessDesc *desc)
{
	struct ck_emu_memory memory;

	for (uint64_t at = ptr; at < ptr + size && ck_emu_arena_find(at, &memory);
	     at += memory.size)
		ck_emu_arena_grant(at, 1u << desc->location.id,
				   desc->flags & CU_MEM_ACCESS_FLAGS_PROT_READ,
				   desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult result = ck_emu_enter_bare();
	uint64_t end;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ptr || !size || !desc || !count || ck_add_overflow(ptr, size, &end))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = desc_check(&desc[i]);
	if (result != CUDA_SUCCESS)
		return result;
	ck_lock(&reserved_lock);
	if (!is_mapped(ptr, size))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (desc[i].flags && !device_reaches_range(desc[i].location.id, ptr, size))
			result = CUDA_ERROR_INVALID_DEVICE;
	}
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		grant_access(ptr, size, &desc[i]);
	ck_unlock(&reserved_lock);
	return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_memory memory;
	unsigned int bit;

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ck_emu_device_at(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!ck_emu_arena_find(ptr, &memory) || memory.kind != CK_EMU_MEMORY_VIRTUAL)
		return CUDA_ERROR_INVALID_VALUE;
	bit = 1u << location->id;
	*flags = memory.writers & bit	? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		 : memory.readers & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
					: CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}
