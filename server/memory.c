/*
 * server/memory.c - device allocations of a session, and the messages about them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "gen/handlers.h"
#include "server/memory.h"
#include "server/session.h"
#include "util/log.h"
#include "util/range.h"

CK_LOG_DEFINE("server");

struct ck_memory {
	pthread_mutex_t lock;
	struct ck_ranges *ranges; /* values: struct ck_allocation */
	size_t total;
};

int ck_memory_create(struct ck_memory **out)
{
	struct ck_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->ranges = ck_ranges_create();
	if (!m->ranges) {
		free(m);
		return -ENOMEM;
	}
	pthread_mutex_init(&m->lock, NULL);
	*out = m;
	return 0;
}

void ck_memory_destroy(struct ck_memory *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < ck_ranges_count(m->ranges); i++)
		free(ck_ranges_at(m->ranges, i)->value);
	ck_ranges_destroy(m->ranges);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* Enter new memory in the table, or give it back to the driver. */
static CUresult note(struct ck_memory *m, uint64_t ctx, CUdeviceptr address, size_t size)
{
	struct ck_allocation *a = malloc(sizeof(*a));
	int ret = -ENOMEM;

	if (!a)
		goto give_back;
	*a = (struct ck_allocation){ .address = address, .size = size, .ctx = ctx };
	if (!ck_driver.cuCtxGetDevice || ck_driver.cuCtxGetDevice(&a->device) != CUDA_SUCCESS)
		a->device = -1;
	pthread_mutex_lock(&m->lock);
	ret = ck_ranges_insert(m->ranges, address, address + size, a);
	if (ret == 0)
		m->total += size;
	pthread_mutex_unlock(&m->lock);
	if (ret == 0)
		return CUDA_SUCCESS;
	free(a);
give_back:
	ck_err("allocation of %zu bytes at %#llx: %s", size, address,
	       ret == -ENOMEM ? "no memory for its entry" : "overlaps another");
	ck_driver.cuMemFree_v2(address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ck_memory_alloc(struct ck_memory *m, uint64_t ctx, size_t size, CUdeviceptr *out)
{
	CUdeviceptr address = 0;
	CUresult err;

	if (!ck_driver.cuMemAlloc_v2 || !ck_driver.cuMemFree_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuMemAlloc_v2(&address, size);
	if (!err)
		err = note(m, ctx, address, size);
	if (!err)
		*out = address;
	return err;
}

CUresult ck_memory_alloc_pitch(struct ck_memory *m, uint64_t ctx, size_t width, size_t height,
			       unsigned int element, CUdeviceptr *out, size_t *pitch)
{
	CUdeviceptr address = 0;
	size_t row = 0;
	CUresult err;

	if (!ck_driver.cuMemAllocPitch_v2 || !ck_driver.cuMemFree_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuMemAllocPitch_v2(&address, &row, width, height, element);
	if (!err)
		err = note(m, ctx, address, row * height);
	if (!err) {
		*out = address;
		*pitch = row;
	}
	return err;
}

CUresult ck_memory_free(struct ck_memory *m, CUdeviceptr address)
{
	struct ck_allocation *a = NULL;
	CUresult err;

	if (address == 0)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&m->lock);
	if (ck_ranges_remove(m->ranges, address, (void **)&a) == 0)
		m->total -= a->size;
	pthread_mutex_unlock(&m->lock);
	if (!a)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_driver.cuMemFree_v2(address);
	free(a);
	return err;
}

bool ck_memory_find(struct ck_memory *m, CUdeviceptr address, struct ck_allocation *out)
{
	const struct ck_range *range;

	pthread_mutex_lock(&m->lock);
	range = ck_ranges_find(m->ranges, address);
	if (range)
		*out = *(const struct ck_allocation *)range->value;
	pthread_mutex_unlock(&m->lock);
	return range != NULL;
}

bool ck_memory_covers(struct ck_memory *m, CUdeviceptr address, size_t size)
{
	struct ck_allocation a;
	CUdeviceptr base = 0;
	size_t length = 0;

	if (ck_memory_find(m, address, &a))
		return size <= a.size - (address - a.address);
	if (!ck_driver.cuMemGetAddressRange_v2 ||
	    ck_driver.cuMemGetAddressRange_v2(&base, &length, address) != CUDA_SUCCESS)
		return true;
	return address >= base && address - base <= length && size <= length - (address - base);
}

void ck_memory_drop_context(struct ck_memory *m, uint64_t ctx)
{
	size_t i = 0;

	pthread_mutex_lock(&m->lock);
	while (i < ck_ranges_count(m->ranges)) {
		struct ck_allocation *a = ck_ranges_at(m->ranges, i)->value;

		if (a->ctx != ctx) {
			i++;
			continue;
		}
		ck_ranges_remove(m->ranges, a->address, NULL);
		m->total -= a->size;
		free(a);
	}
	pthread_mutex_unlock(&m->lock);
}

size_t ck_memory_total(struct ck_memory *m)
{
	size_t total;

	pthread_mutex_lock(&m->lock);
	total = m->total;
	pthread_mutex_unlock(&m->lock);
	return total;
}

CUresult ck_serve_cuMemAlloc_v2(struct ck_request *q, cuMemAlloc_v2_args *a,
				cuMemAlloc_v2_res *res)
{
	CUdeviceptr address = 0;
	CUresult err = ck_memory_alloc(q->session->memory, q->ctx, a->bytesize, &address);

	res->dptr = address;
	return err;
}

CUresult ck_serve_cuMemAllocPitch_v2(struct ck_request *q, cuMemAllocPitch_v2_args *a,
				     cuMemAllocPitch_v2_res *res)
{
	CUdeviceptr address = 0;
	size_t pitch = 0;
	CUresult err = ck_memory_alloc_pitch(q->session->memory, q->ctx, a->WidthInBytes, a->Height,
					     a->ElementSizeBytes, &address, &pitch);

	res->dptr = address;
	res->pPitch = pitch;
	return err;
}

CUresult ck_serve_cuMemFree_v2(struct ck_request *q, cuMemFree_v2_args *a, void *res)
{
	(void)res;
	return ck_memory_free(q->session->memory, a->dptr);
}
