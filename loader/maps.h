/*
 * loader/maps.h - reading /proc/self/maps.
 */
#ifndef CK_LOADER_MAPS_H
#define CK_LOADER_MAPS_H

#include "loader/sys.h"

struct ck_mapping {
	uint64_t start, end, offset;
	const char *access; /* "r-xp" */
	const char *name;   /* a file, "[stack]", or empty */
};

/* Calls each(mapping, argument) for every line. */
void ck_maps_each(void (*each)(const struct ck_mapping *m, void *argument), void *argument);

#endif
