/*
 * util/mappings.h - the mappings of this process, from /proc/self/maps.
 */
#ifndef CK_UTIL_MAPPINGS_H
#define CK_UTIL_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ck_own_mapping {
	uint64_t lo, hi;
	char rights[5]; /* as "rw-p" */
	char name[32];	/* cut off if longer; "": none */
};

/* Are all bytes of [lo, lo+size) mapped, by mappings that satisfy @such? False as well if the file
 * cannot be read. */
bool ck_mappings_all(uint64_t lo, uint64_t size, bool (*such)(const struct ck_own_mapping *m));

/* For ck_mappings_all: the program may read it; read and write it. */
bool ck_mapping_readable(const struct ck_own_mapping *m);
bool ck_mapping_writable(const struct ck_own_mapping *m);

#endif
