/*
 * client/chunks/source_mapping.h - the mapping of this process that contains given addresses, and
 * the file behind it.
 */
#ifndef CK_CLIENT_CHUNKS_SOURCE_MAPPING_H
#define CK_CLIENT_CHUNKS_SOURCE_MAPPING_H

#include <limits.h>
#include <stdint.h>

struct ckc_mapping {
	uint64_t lo, hi, offset, inode;
	unsigned int major, minor;
	char rights[5];	     /* as "rw-p" */
	char path[PATH_MAX]; /* "": none */
};

/* Find the mapping that contains all of [@lo, @hi); the caller frees it. NULL: there is none, or no
 * memory. */
struct ckc_mapping *ckc_mapping_find(uintptr_t lo, uintptr_t hi);

/* The same by the list of all mappings, as for a kernel before 6.11. */
struct ckc_mapping *ckc_mapping_find_in_list(uintptr_t lo, uintptr_t hi);

#endif
