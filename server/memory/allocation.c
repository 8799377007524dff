/*
 * server/memory/allocation.c - the table of a session's device allocations; see memory.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/memory/memory.h"
#include "server/policy/meter.h"
#include "server/session/driver.h"
#include "server/session/locks.h"
#include "util/log.h"
#include "util/range.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

struct cks_memory {
	struct ck_mutex lock;
	struct ck_ranges *ranges;  /* values: struct cks_allocation */
	struct ck_ranges *created; /* by id: the sizes of physical memory */
	size_t total;
	_Atomic size_t peak;
};

int cks_memory_create(struct cks_memory **out)
{
	struct cks_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->ranges = ck_ranges_create();
	m->created = ck_ranges_create();
	if (!m->ranges || !m->created) {
		ck_ranges_destroy(m->ranges);
		ck_ranges_destroy(m->created);
		free(m);
		return -ENOMEM;
	}
	m->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_MEMORY);
	*out = m;
	return 0;
}

void cks_memory_destroy(struct cks_memory *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < ck_ranges_count(m->ranges); i++)
		free(ck_ranges_at(m->ranges, i)->value);
	ck_ranges_destroy(m->ranges);
	ck_ranges_destroy(m->created);
	ck_mutex_destroy(&m->lock);
	free(m);
}

/* Remove the entries in [lo, hi), or only the mapped ones. Call with the lock held. */
static void drop_range(struct cks_memory *m, CUdeviceptr lo, CUdeviceptr hi, bool only_mapped)
{
	const struct ck_range *range;

	while (lo < hi && (range = ck_ranges_overlap(m->ranges, lo, hi)) != NULL) {
		struct cks_allocation *a = range->value;

		lo = range->hi;
		if (only_mapped && !a->mapped)
			continue;
		ck_ranges_remove(m->ranges, range->lo, NULL);
		m->total -= a->size;
		free(a);
	}
}

/*
 * Add new memory to the table, replacing overlapping entries: the driver frees memory of pools and
 * graphs without notice.
 */
static int insert_allocation(struct cks_memory *m, const struct cks_allocation *from)
{
	struct cks_allocation *a = malloc(sizeof(*a));
	CUdeviceptr end;
	int ret = -EINVAL;

	if (!a)
		return -ENOMEM;
	*a = *from;
	if (!a->leased &&
	    (!ck_driver.cuCtxGetDevice || ck_driver.cuCtxGetDevice(&a->device) != CUDA_SUCCESS))
		a->device = -1;
	ck_lock(&m->lock);
	if (!ck_add_overflow(a->address, a->size, &end)) {
		drop_range(m, a->address, end, false);
		ret = ck_ranges_insert(m->ranges, a->address, end, a);
	}
	if (ret == 0)
		m->total += a->size;
	m->peak = ck_max(m->peak, m->total);
	ck_unlock(&m->lock);
	if (ret < 0) {
		ck_err("memory of %zu bytes at %#llx: no entry: %s", a->size, a->address,
		       strerror(-ret));
		free(a);
	}
	return ret;
}

CUresult cks_memory_note(struct cks_memory *m, uint64_t ctx, CUdeviceptr address, size_t size)
{
	const struct cks_allocation a = {.address = address, .size = size, .ctx = ctx};

	if (insert_allocation(m, &a) == 0)
		return CUDA_SUCCESS;
	ck_driver.cuMemFree_v2(address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void cks_memory_graph(struct cks_memory *m, CUdeviceptr address, size_t size)
{
	const struct cks_allocation a = {.address = address, .size = size, .graph = true};

	insert_allocation(m, &a);
}

CUresult cks_memory_import(struct cks_memory *m, uint64_t ctx, CUdeviceptr address, size_t size)
{
	const struct cks_allocation a = {
		.address = address, .size = size, .ctx = ctx, .mapped = true};

	return insert_allocation(m, &a) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

size_t cks_memory_mappings(struct cks_memory *m, CUmemGenericAllocationHandle physical)
{
	size_t count = 0;

	ck_lock(&m->lock);
	for (size_t i = 0; i < ck_ranges_count(m->ranges); i++) {
		const struct cks_allocation *a = ck_ranges_at(m->ranges, i)->value;

		count += a->mapped && a->physical == physical;
	}
	ck_unlock(&m->lock);
	return count;
}

void cks_memory_created(struct cks_memory *m, uint64_t id, size_t size)
{
	ck_lock(&m->lock);
	/* without an entry its mappings stay on the GPU */
	ck_ranges_insert(m->created, id, id + 1, (void *)size);
	ck_unlock(&m->lock);
}

void cks_memory_released(struct cks_memory *m, uint64_t id)
{
	ck_lock(&m->lock);
	ck_ranges_remove(m->created, id, NULL);
	ck_unlock(&m->lock);
}

bool cks_memory_is_whole(struct cks_memory *m, uint64_t id, size_t size)
{
	const struct ck_range *range;
	bool whole;

	ck_lock(&m->lock);
	range = ck_ranges_find(m->created, id);
	whole = range && (size_t)range->value == size;
	ck_unlock(&m->lock);
	return whole;
}

void cks_memory_tie(struct cks_memory *m, uint64_t id, CUmemGenericAllocationHandle physical)
{
	ck_lock(&m->lock);
	ck_ranges_remove(m->created, id, NULL);
	for (size_t i = 0; i < ck_ranges_count(m->ranges); i++) {
		struct cks_allocation *a = ck_ranges_at(m->ranges, i)->value;

		if (a->mapped && a->physical == physical)
			a->whole = false;
	}
	ck_unlock(&m->lock);
}

CUresult cks_memory_map(struct cks_memory *m, CUdeviceptr address, size_t size,
			CUmemGenericAllocationHandle physical, bool whole)
{
	const struct cks_allocation a = {.address = address,
					 .size = size,
					 .mapped = true,
					 .physical = physical,
					 .whole = whole};

	return insert_allocation(m, &a) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cks_memory_lease(struct cks_memory *m, CUdevice device, CUdeviceptr address, size_t size,
			  CUmemGenericAllocationHandle physical)
{
	const struct cks_allocation a = {.address = address,
					 .size = size,
					 .device = device,
					 .mapped = true,
					 .leased = true,
					 .physical = physical};

	return insert_allocation(m, &a) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool cks_memory_after(struct cks_memory *m, CUdeviceptr from, struct cks_allocation *out)
{
	const struct ck_range *range;

	ck_lock(&m->lock);
	range = ck_ranges_overlap(m->ranges, from, UINT64_MAX);
	if (range)
		*out = *(const struct cks_allocation *)range->value;
	ck_unlock(&m->lock);
	return range != NULL;
}

void cks_memory_renew(struct cks_memory *m, CUdeviceptr address,
		      CUmemGenericAllocationHandle physical)
{
	const struct ck_range *range;

	ck_lock(&m->lock);
	range = ck_ranges_find(m->ranges, address);
	if (range)
		((struct cks_allocation *)range->value)->physical = physical;
	ck_unlock(&m->lock);
}

bool cks_memory_overlaps(struct cks_memory *m, CUdeviceptr address, size_t size)
{
	bool any;

	ck_lock(&m->lock);
	any = ck_ranges_overlap(m->ranges, address, address + size) != NULL;
	ck_unlock(&m->lock);
	return any;
}

bool cks_memory_leased(struct cks_memory *m, CUdeviceptr address, size_t size)
{
	CUdeviceptr end = address + size;
	const struct ck_range *range;
	bool any = false;

	ck_lock(&m->lock);
	while (!any && (range = ck_ranges_overlap(m->ranges, address, end)) != NULL) {
		any = ((const struct cks_allocation *)range->value)->leased;
		address = range->hi;
	}
	ck_unlock(&m->lock);
	return any;
}

void cks_memory_unmap(struct cks_memory *m, CUdeviceptr address, size_t size)
{
	ck_lock(&m->lock);
	drop_range(m, address, address + size, true);
	ck_unlock(&m->lock);
}

bool cks_memory_take(struct cks_memory *m, CUdeviceptr address)
{
	struct cks_allocation *a = NULL;
	const struct ck_range *range;
	bool found;

	ck_lock(&m->lock);
	range = ck_ranges_find(m->ranges, address);
	if (range && range->lo == address)
		a = range->value;
	found = a && !a->mapped;
	/* keep memory of a graph: the next launch allocates it again, and only the driver knows its
	 * state */
	if (found && !a->graph) {
		ck_ranges_remove(m->ranges, address, NULL);
		m->total -= a->size;
	} else {
		a = NULL;
	}
	ck_unlock(&m->lock);
	free(a);
	return found;
}

bool cks_memory_find(struct cks_memory *m, CUdeviceptr address, struct cks_allocation *out)
{
	const struct ck_range *range;

	ck_lock(&m->lock);
	range = ck_ranges_find(m->ranges, address);
	if (range)
		*out = *(const struct cks_allocation *)range->value;
	ck_unlock(&m->lock);
	return range != NULL;
}

bool cks_memory_covers(struct cks_memory *m, CUdeviceptr address, size_t size)
{
	struct cks_allocation a;
	CUdeviceptr base = 0;
	size_t length = 0;

	while (cks_memory_find(m, address, &a)) {
		size_t room = a.size - (address - a.address);

		if (size <= room)
			return true;
		if (!a.mapped)
			return false;
		address += room;
		size -= room;
	}
	if (!ck_driver.cuMemGetAddressRange_v2 ||
	    ck_driver.cuMemGetAddressRange_v2(&base, &length, address) != CUDA_SUCCESS)
		return true;
	return address >= base && address - base <= length && size <= length - (address - base);
}

void cks_memory_drop_context(struct cks_memory *m, uint64_t ctx)
{
	struct cks_allocation *lost = NULL;
	size_t i = 0;

	ck_lock(&m->lock);
	while (i < ck_ranges_count(m->ranges)) {
		struct cks_allocation *a = ck_ranges_at(m->ranges, i)->value;

		if (a->ctx != ctx) {
			i++;
			continue;
		}
		ck_ranges_remove(m->ranges, a->address, NULL);
		m->total -= a->size;
		a->next = lost;
		lost = a;
	}
	ck_unlock(&m->lock);
	while (lost) {
		struct cks_allocation *a = lost;

		lost = a->next;
		cks_meter_lost(a->address);
		free(a);
	}
}

size_t cks_memory_total(struct cks_memory *m)
{
	size_t total;

	ck_lock(&m->lock);
	total = m->total;
	ck_unlock(&m->lock);
	return total;
}

size_t cks_memory_peak(struct cks_memory *m)
{
	return m->peak;
}
