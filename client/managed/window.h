/*
 * client/managed/window.h - the window: addresses that client and server agree on. Memory in it has
 * the same address in this process and on the device.
 *
 * The pages belong to a memory file that is mapped twice: where the program sees them, and at an
 * alias for the client. So the client can access a page while the program cannot.
 */
#ifndef CK_CLIENT_MANAGED_WINDOW_H
#define CK_CLIENT_MANAGED_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/managed/page_allocator.h"
#include "client/managed/state.h"
#include "cuda/types.h"

/* Agree with the server on a window, once. NOT_SUPPORTED: no window suits both. */
CUresult ckc_window_open(void);

static inline bool ckc_window_has(const struct ck_window *w, uint64_t address)
{
	return address >= w->lo && address < w->hi;
}

/* Is it in the part for shadowed memory (shadow.h)? */
static inline bool ckc_window_shadows(const struct ck_window *w, uint64_t address)
{
	return address >= w->shadows && address < w->hi;
}

/* In the window of the current session? */
static inline bool ckc_window_holds(uint64_t address)
{
	return ckc_window_has(&ckc_client_current()->managed->window, address);
}

/* The alias of the byte at @address of the window. */
void *ckc_window_alias(uint64_t address);

/* An extent of touched pages; zero: none is known. */
struct ckc_window_extent {
	uint64_t lo, hi; /* addresses */
};

/*
 * Of *@pages pages from @address on, return the number that is untouched since allocation, and set
 * *@pages to the number of touched pages after them. The kernel scans to the end of a touched
 * extent, so *@known caches the last one: a caller that walks upwards passes the same each time.
 */
size_t ckc_window_used(uint64_t address, size_t *pages, struct ckc_window_extent *known);

/*
 * Allocate zeroed, accessible pages for @size bytes for context @ctx: OUT_OF_MEMORY. Small @pinned
 * memory comes from the part for shadowed memory, if there is one. Free them by their address.
 */
CUresult ckc_window_take(uint64_t ctx, size_t size, bool pinned, uint64_t *address);
void ckc_window_give(uint64_t address, size_t size);

/*
 * Map device memory of @context behind the pages of @address; untouched pages read as zero. Undo
 * each success with one unback.
 */
CUresult ckc_window_back(struct ckc_context *context, uint64_t address, size_t size);
void ckc_window_unback(uint64_t ctx, uint64_t address, size_t size);

#endif
