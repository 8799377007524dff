/*
 * util/range.c - sorted array of ranges; see range.h.
 *
 * An array rather than a tree: a look-up, which every copy and launch does, is a binary search in
 * contiguous memory. An insertion moves the tail of ten thousand entries in microseconds, far less
 * than the allocation that it records.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/range.h"

struct ck_ranges {
	struct ck_range *items;
	size_t count, capacity;
};

struct ck_ranges *ck_ranges_create(void)
{
	return calloc(1, sizeof(struct ck_ranges));
}

void ck_ranges_destroy(struct ck_ranges *set)
{
	if (!set)
		return;
	free(set->items);
	free(set);
}

/* Index of the first range that ends above `address`; count when there is none. */
static size_t first_above(const struct ck_ranges *set, uint64_t address)
{
	size_t low = 0, left = set->count;

	while (left > 0) {
		size_t half = left / 2;

		if (set->items[low + half].hi <= address) {
			low += half + 1;
			left -= half + 1;
		} else {
			left = half;
		}
	}
	return low;
}

int ck_ranges_insert(struct ck_ranges *set, uint64_t lo, uint64_t hi, void *value)
{
	size_t at;

	if (lo >= hi)
		return -EINVAL;
	at = first_above(set, lo);
	if (at < set->count && set->items[at].lo < hi)
		return -EEXIST;
	if (set->count == set->capacity) {
		size_t capacity = set->capacity ? set->capacity * 2 : 64;
		struct ck_range *items = reallocarray(set->items, capacity, sizeof(*items));

		if (!items)
			return -ENOMEM;
		set->items = items;
		set->capacity = capacity;
	}
	memmove(&set->items[at + 1], &set->items[at], (set->count - at) * sizeof(*set->items));
	set->items[at] = (struct ck_range){.lo = lo, .hi = hi, .value = value};
	set->count++;
	return 0;
}

int ck_ranges_remove(struct ck_ranges *set, uint64_t lo, void **value)
{
	size_t at = first_above(set, lo);

	if (at == set->count || set->items[at].lo != lo)
		return -ENOENT;
	if (value)
		*value = set->items[at].value;
	set->count--;
	memmove(&set->items[at], &set->items[at + 1], (set->count - at) * sizeof(*set->items));
	return 0;
}

const struct ck_range *ck_ranges_find(const struct ck_ranges *set, uint64_t address)
{
	size_t at = first_above(set, address);

	if (at == set->count || set->items[at].lo > address)
		return NULL;
	return &set->items[at];
}

const struct ck_range *ck_ranges_overlap(const struct ck_ranges *set, uint64_t lo, uint64_t hi)
{
	size_t at = first_above(set, lo);

	if (lo >= hi || at == set->count || set->items[at].lo >= hi)
		return NULL;
	return &set->items[at];
}

size_t ck_ranges_count(const struct ck_ranges *set)
{
	return set->count;
}

const struct ck_range *ck_ranges_at(const struct ck_ranges *set, size_t index)
{
	return index < set->count ? &set->items[index] : NULL;
}
