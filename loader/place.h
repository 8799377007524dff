/*
 * loader/place.h - the checks before the start, and the choice of windows.
 */
#ifndef CK_LOADER_PLACE_H
#define CK_LOADER_PLACE_H

#include "loader/half.h"

/* The path of the program @name, found as a shell finds it. */
void ck_place_find(const char *name, char *path, size_t size);

/*
 * Reads every half's program and ld.so and gives it a window. An error ends the loader, before
 * anything has been mapped.
 */
void ck_place_all(void);

#endif
