/*
 * client/memory/pinned.h - memory of the host that this process and a worker on the same host share, page
 * for page: the GPU copies from and to the program's own memory, and kernels use it.
 *
 * It is a file in memory whose descriptor the worker is given once. Both sides keep a range of
 * addresses for it, the same on both, and map the pieces that are in use; the worker registers them
 * with the driver. So the program's address is the worker's and the device's. Where the server is
 * on another host, nothing is shared.
 */
#ifndef CK_CLIENT_MEMORY_PINNED_H
#define CK_CLIENT_MEMORY_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/memory/state.h"

/* Agree with the worker on file and addresses, once. False: memory cannot be shared. */
bool ck_pinned_open(void);

/*
 * Pages for @size bytes, open for reading and writing, that the device reaches at the same
 * address: OUT_OF_MEMORY, or what the driver says. They belong to context @ctx. Given back with
 * that size, when nothing of the device uses them any more.
 */
CUresult ck_pinned_take(uint64_t ctx, size_t size, uint64_t *address);
void ck_pinned_give(uint64_t ctx, uint64_t address, size_t size);

/*
 * Room in the file for @size bytes that lie at other addresses than the file's own: false when
 * there is none. Given back, its pages are gone.
 */
bool ck_pinned_reserve(uint64_t ctx, size_t size, size_t *offset);
void ck_pinned_unreserve(size_t offset, size_t size);
int ck_pinned_fd(void);	/* -1: the program has closed it */

/* Is any allocation shared? While there is none, no call need ask whether one is. */
static inline bool ck_pinned_any(const struct ck_client *c)
{
	return c->memory->pinned.count != 0;
}

/* Is all of [p, p+size) in one allocation that is shared? */
bool ck_pinned_holds(const void *p, size_t size);

#endif
