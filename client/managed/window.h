/*
 * client/managed/window.h - addresses that client and server have agreed on: what lies there has the same
 * address in this process and on the device.
 *
 * The pages are of a file in memory that is mapped twice: where the program sees them, and at an
 * alias that only we use. So a page can be filled or read while the program's view of it is shut.
 */
#ifndef CK_CLIENT_MANAGED_WINDOW_H
#define CK_CLIENT_MANAGED_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/managed/space.h"
#include "client/managed/state.h"
#include "cuda/types.h"

/* Agree with the server on a window, once. NOT_SUPPORTED: there is none that suits both. */
CUresult ck_window_open(void);

static inline bool ck_window_has(const struct ck_window *w, uint64_t address)
{
	return address >= w->lo && address < w->hi;
}

static inline bool ck_window_holds(uint64_t address)
{
	const struct ck_managed_state *s = ck_managed_if_any();

	return s && ck_window_has(&s->window, address);
}

/* Where we see the byte that the program sees at @address of the window. */
void *ck_window_alias(uint64_t address);

/* A stretch of pages that have been touched; zero: none is known. */
struct ck_window_extent {
	uint64_t lo, hi;	/* addresses */
};

/*
 * Of *@pages pages from @address on: return how many have not been touched since they were taken, and set
 * *@pages to the number of touched pages that follow. The kernel looks at each page up to the end of a
 * touched stretch, so *@known keeps the last one: a caller that walks upwards passes the same each time.
 */
size_t ck_window_used(uint64_t address, size_t *pages, struct ck_window_extent *known);

/*
 * Whole pages for @size bytes, zeroed and open for reading and writing, that belong to context
 * @ctx: OUT_OF_MEMORY. Give them back by their address.
 */
CUresult ck_window_take(uint64_t ctx, size_t size, uint64_t *address);
void ck_window_give(uint64_t address, size_t size);

/*
 * Put device memory behind the pages of @address: zeros where no page has been touched. Every
 * success is undone by one unback.
 */
CUresult ck_window_back(uint64_t ctx, uint64_t address, size_t size);
void ck_window_unback(uint64_t ctx, uint64_t address, size_t size);

#endif
