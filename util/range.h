/*
 * util/range.h - ordered set of disjoint address ranges [lo, hi), each with a pointer. Not
 * locked: its owner serialises calls.
 */
#ifndef CK_UTIL_RANGE_H
#define CK_UTIL_RANGE_H

#include <stddef.h>
#include <stdint.h>

struct ck_ranges;

struct ck_range {
	uint64_t lo, hi; /* bytes lo to hi - 1 */
	void *value;
};

/* An empty set, or NULL when out of memory. Destroying it does not free the values. */
struct ck_ranges *ck_ranges_create(void);
void ck_ranges_destroy(struct ck_ranges *set);

/* -EINVAL: lo >= hi; -EEXIST: overlaps a range that is there; -ENOMEM. Set unchanged then. */
int ck_ranges_insert(struct ck_ranges *set, uint64_t lo, uint64_t hi, void *value);

/*
 * Take out the range that starts at lo; its value goes to *value unless that is NULL.
 * -ENOENT: no range starts there.
 */
int ck_ranges_remove(struct ck_ranges *set, uint64_t lo, void **value);

/* The range that holds `address`, or NULL. Valid until the set changes. */
const struct ck_range *ck_ranges_find(const struct ck_ranges *set, uint64_t address);

/* The lowest range that overlaps [lo, hi), or NULL. Valid until the set changes. */
const struct ck_range *ck_ranges_overlap(const struct ck_ranges *set, uint64_t lo, uint64_t hi);

/* All ranges in order of address: at(0) to at(count - 1); at() past the end is NULL. */
size_t ck_ranges_count(const struct ck_ranges *set);
const struct ck_range *ck_ranges_at(const struct ck_ranges *set, size_t index);

#endif
