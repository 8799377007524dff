/*
 * libcuda/advice.c - advice on managed memory: stored and reported; it has no effect here.
 *
 * Stored as stretches of pages with the same advice. A page outside all stretches has no advice.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcuda/advice.h"
#include "libcuda/locks.h"
#include "util/range.h"
#include "util/util.h"

#define CPU_BIT 31
#define PAGE 4096ull /* advice holds for whole pages */

struct advice {
	bool read_mostly;
	CUmemLocation preferred, prefetched; /* type INVALID: none */
	uint32_t accessed_by;		     /* a bit for each device, and CPU_BIT */
};

static const struct advice nothing = {.preferred.id = CU_DEVICE_INVALID,
				      .prefetched.id = CU_DEVICE_INVALID};
static struct ck_mutex stretches_lock = CK_MUTEX(CK_RANK_ADVICE);
static struct ck_ranges *stretches;

static CUresult insert_stretch(uint64_t lo, uint64_t hi, const struct advice *advice)
{
	struct advice *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *advice;
	if (copy && ck_ranges_insert(stretches, lo, hi, copy) == 0)
		return CUDA_SUCCESS;
	free(copy);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* See to it that no stretch crosses @at. */
static CUresult split_stretch(uint64_t at)
{
	const struct ck_range *r = ck_ranges_find(stretches, at);
	struct ck_range was;
	CUresult err;

	if (!r || r->lo == at)
		return CUDA_SUCCESS;
	was = *r;
	ck_ranges_remove(stretches, was.lo, NULL);
	err = insert_stretch(was.lo, at, was.value);
	if (!err)
		err = insert_stretch(at, was.hi, was.value);
	free(was.value);
	return err;
}

/* Cut [lo, hi) out of its surroundings and have stretches all over it. The lock is held. */
static CUresult cover_range(uint64_t lo, uint64_t hi)
{
	CUresult err;

	if (!stretches)
		stretches = ck_ranges_create();
	err = stretches ? split_stretch(lo) : CUDA_ERROR_OUT_OF_MEMORY;
	if (!err)
		err = split_stretch(hi);
	while (!err && lo < hi) {
		const struct ck_range *r = ck_ranges_overlap(stretches, lo, hi);
		uint64_t next = r ? r->hi : hi, gap = r ? r->lo : hi;

		if (lo < gap)
			err = insert_stretch(lo, gap, &nothing);
		lo = next;
	}
	return err;
}

static uint32_t bit_of(const CUmemLocation *l)
{
	return 1u << (l->type == CU_MEM_LOCATION_TYPE_DEVICE ? l->id : CPU_BIT);
}

static void apply_advice(struct advice *a, CUmem_advise advice, const CUmemLocation *location)
{
	switch (advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		a->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		a->preferred = *location;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		a->preferred = nothing.preferred;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		a->accessed_by |= bit_of(location);
		break;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		a->accessed_by &= ~bit_of(location);
		break;
	}
}

static uint64_t first_page(uint64_t at)
{
	return at & ~(PAGE - 1);
}

/* Do @advice, or note a prefetch when that is 0. */
static CUresult change_advice(uint64_t at, size_t size, CUmem_advise advice,
			      const CUmemLocation *location)
{
	uint64_t lo = first_page(at), hi = CK_ALIGN_UP(at + size, PAGE);
	CUresult err;

	ck_lock(&stretches_lock);
	err = cover_range(lo, hi);
	while (!err && lo < hi) {
		const struct ck_range *r = ck_ranges_find(stretches, lo);
		struct advice *a = r->value;

		if (advice)
			apply_advice(a, advice, location);
		else
			a->prefetched = *location;
		lo = r->hi;
	}
	ck_unlock(&stretches_lock);
	return err;
}

CUresult ck_advice_set(uint64_t at, size_t size, CUmem_advise advice, const CUmemLocation *location)
{
	return change_advice(at, size, advice, location);
}

CUresult ck_advice_prefetched(uint64_t at, size_t size, const CUmemLocation *location)
{
	return change_advice(at, size, 0, location);
}

void ck_advice_forget(uint64_t at, size_t size)
{
	uint64_t lo = first_page(at), hi = CK_ALIGN_UP(at + size, PAGE);
	const struct ck_range *r;

	ck_lock(&stretches_lock);
	while (stretches && (r = ck_ranges_overlap(stretches, lo, hi)) != NULL) {
		free(r->value);
		ck_ranges_remove(stretches, r->lo, NULL);
	}
	ck_unlock(&stretches_lock);
}

static bool locations_are_equal(const CUmemLocation *a, const CUmemLocation *b)
{
	return a->type == b->type && a->id == b->id;
}

static void merge_location(CUmemLocation *all, const CUmemLocation *one)
{
	if (!locations_are_equal(all, one))
		*all = nothing.preferred;
}

/* The advice that every page of the range has. */
static struct advice get_common_advice(uint64_t at, size_t size)
{
	uint64_t lo = first_page(at), hi = at + size;
	struct advice all = nothing;
	bool first = true;

	ck_lock(&stretches_lock);
	while (lo < hi) {
		const struct ck_range *r = stretches ? ck_ranges_overlap(stretches, lo, hi) : NULL;
		const struct advice *a = r && r->lo <= lo ? r->value : &nothing;

		if (first)
			all = *a;
		first = false;
		all.read_mostly &= a->read_mostly;
		all.accessed_by &= a->accessed_by;
		merge_location(&all.preferred, &a->preferred);
		merge_location(&all.prefetched, &a->prefetched);
		lo = !r ? hi : r->lo <= lo ? r->hi : r->lo;
	}
	ck_unlock(&stretches_lock);
	return all;
}

/* A location as a device: the CPU is one of the old form's. */
static int device_of(const CUmemLocation *l)
{
	if (l->type == CU_MEM_LOCATION_TYPE_INVALID)
		return CU_DEVICE_INVALID;
	return l->type == CU_MEM_LOCATION_TYPE_DEVICE ? l->id : CU_DEVICE_CPU;
}

/* The devices of the mask, then INVALID. */
static CUresult list_devices(uint32_t mask, int *out, size_t room)
{
	size_t n = 0;

	if (room == 0 || room % sizeof(*out))
		return CUDA_ERROR_INVALID_VALUE;
	room /= sizeof(*out);
	for (int bit = 0; bit <= CPU_BIT && n < room; bit++) {
		if (mask >> bit & 1)
			out[n++] = bit == CPU_BIT ? CU_DEVICE_CPU : bit;
	}
	while (n < room)
		out[n++] = CU_DEVICE_INVALID;
	return CUDA_SUCCESS;
}

CUresult ck_advice_get(uint64_t at, size_t size, CUmem_range_attribute attribute, void *data,
		       size_t room)
{
	struct advice all = get_common_advice(at, size);
	int value;

	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		value = all.read_mostly;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		value = device_of(&all.preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		return list_devices(all.accessed_by, data, room);
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		value = device_of(&all.prefetched);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		value = (int)all.preferred.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		value = all.preferred.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		value = (int)all.prefetched.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		value = all.prefetched.id;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (room != sizeof(value))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(data, &value, sizeof(value));
	return CUDA_SUCCESS;
}
