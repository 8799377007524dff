/*
 * client/memory/pinned.h - host memory that this process and a worker on the same host share. The
 * GPU copies from and to the program's own pages, and kernels use them.
 *
 * It is a memory file; the worker gets its descriptor once. Both sides reserve the same range of
 * addresses for it and map the pieces in use; the worker registers them with the driver. So an
 * address is valid in the program, the worker and the device. With a server on another host,
 * nothing is shared.
 */
#ifndef CK_CLIENT_MEMORY_PINNED_H
#define CK_CLIENT_MEMORY_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/memory/state.h"

/* Agree with the worker on a file and addresses, once. False: memory cannot be shared. */
bool ckc_pinned_open(void);

/*
 * Allocate accessible pages for @size bytes that the device sees at the same address:
 * OUT_OF_MEMORY, or the driver's error. They belong to context @ctx. Free them with the same size,
 * when the device no longer uses them.
 */
CUresult ckc_pinned_take(uint64_t ctx, size_t size, uint64_t *address);
void ckc_pinned_give(uint64_t ctx, uint64_t address, size_t size);

/*
 * Reserve @size bytes of the file, to be mapped at other addresses: false if it is full. Unreserve
 * also frees the pages.
 */
bool ckc_pinned_reserve(uint64_t ctx, size_t size, size_t *offset);
void ckc_pinned_unreserve(size_t offset, size_t size);
int ckc_pinned_fd(void); /* -1: the program has closed it */

/* Is any allocation shared? If not, calls need not look one up. */
static inline bool ckc_pinned_any(const struct ckc_client *c)
{
	return c->memory->pinned.count != 0;
}

/* Does one shared allocation contain all of [p, p+size)? */
bool ckc_pinned_holds(const void *p, size_t size);

#endif
