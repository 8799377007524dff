/*
 * client/managed/managed.h - memory that program and device share, with a state for each page.
 *
 * A page is invalid here (the device may have written it: no access), clean (equal on both sides:
 * read access) or dirty (written here: read and write access). Before work starts on the device,
 * the dirty pages are sent; pages that the work may write become invalid. The first access to an
 * invalid page fetches it and some pages after it; see client/managed/fault.c.
 *
 * The lock of these tables is the outermost of the client. A thread that holds it must not touch
 * the program's memory or wait for a kernel.
 */
#ifndef CK_CLIENT_MANAGED_MANAGED_H
#define CK_CLIENT_MANAGED_MANAGED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"
#include "client/managed/window.h"
#include "client/link/session_list.h"

/* Track whole pages of the window, behind which ckc_window_back has mapped memory of the device. */
CUresult ckc_managed_track(uint64_t base, size_t size, struct ckc_context *context,
			   unsigned int attach);
/* Track pinned memory in the part of the window for shadowed memory (shadow.h), and have the server
 * map memory for it. */
CUresult ckc_managed_track_pinned(uint64_t base, size_t size, struct ckc_context *context);
/*
 * Track a variable at [at, at+size) on the device, along with anything else in its pages: the
 * client takes these addresses. NOT_SUPPORTED: the addresses are in use here. Undone by leave.
 */
CUresult ckc_managed_adopt(uint64_t at, size_t size, struct ckc_context *context);
void ckc_managed_leave(uint64_t at, size_t size);
/* Track the memory at @base no longer; its contents on the host are lost. False: it was not
 * tracked. */
bool ckc_managed_untrack(uint64_t base);
bool ckc_managed_is(uint64_t address);
/* Is @address in memory that the device of @client has at the same address? */
bool ckc_managed_backs(const struct ckc_client *client, uint64_t address);
/* Is [address, address+size) in one range whose pages move to and from the device of @client, so
 * that a copy there can write them? */
bool ckc_managed_moves(const struct ckc_client *client, uint64_t address, size_t size);

/* A kernel is about to be sent. Nearly free while no page is valid here. */
void ckc_managed_launch(void);
/* The device is about to load something, as at a kernel's first launch. Host functions that run may
 * need their pages first. */
void ckc_managed_loading(void);
/* The device is about to read, or write, a range, as in a copy. */
void ckc_managed_device(uint64_t address, size_t size, bool write);
/*
 * The client is about to read, or write, memory of the program, which may be tracked. Fetches the
 * pages, and returns an address that works whatever protection other threads' calls set. NULL: some
 * pages are lost, and the call must fail.
 */
void *ckc_managed_host(const void *p, size_t size, bool write);
/*
 * For system calls on the program's behalf; all keep errno. Is @address in tracked memory, whose
 * pages can be fetched?
 */
bool ckc_managed_keeps(uint64_t address);
/* Where the kernel can read [address, address+size), whatever other threads launch; NULL: nowhere,
 * or the range is not in one allocation. */
const void *ckc_managed_source(uint64_t address, size_t size);
/* Store bytes for the program, as its own instructions would. False: pages are lost, or some of the
 * range is not tracked. */
bool ckc_managed_put(uint64_t address, const void *bytes, size_t size);
/* Make a range accessible at the program's own address, until work is launched. */
void ckc_managed_need(uint64_t address, size_t size, bool write);
/*
 * The program accessed @address: 0, or -ENOENT if it is not tracked memory. A host function
 * (@inside) is part of the device's work, so it waits for no work.
 */
int ckc_managed_touch(uint64_t address, bool write, bool inside);

/*
 * From now on, an access waits for @stream (SINGLE), for no work (HOST) or for all work (GLOBAL).
 * This is a promise of the program about its other kernels, but GPUs of today do not need it, and
 * programs break it. So all kernels may use the memory; see ckc_pages_invalidate_clean.
 */
void ckc_managed_attach(uint64_t base, unsigned int attach, uint64_t stream);
/* Is the memory attached to a stream or to the host? Then an access does not wait for copies and
 * fills. */
bool ckc_managed_is_attached(uint64_t address);
/* Fetch a range, as a prefetch to the host does. */
void ckc_managed_fetch(uint64_t address, size_t size);

/* Is @address in a range outside the window? Takes no lock. */
bool ckc_managed_foreign(const struct ckc_managed_state *s, uint64_t address);
/* Can @address be tracked in this part of a session? Two comparisons while there is no variable. */
static inline bool ckc_managed_has(const struct ckc_managed_state *s, uint64_t address)
{
	return ckc_window_has(&s->window, address) ||
	       (unlikely(atomic_load_explicit(&s->variables.ranges, memory_order_relaxed) > 0) &&
		ckc_managed_foreign(s, address));
}
/* The same of several sessions: the one that may track @address, or NULL. Takes no lock. */
struct ckc_client *ckc_managed_session(uint64_t address);
/* Can @address be tracked? */
static inline bool ckc_managed_may_be(uint64_t address)
{
	const struct ckc_managed_state *s = ckc_managed_if_any();

	if (unlikely(ckc_many))
		return ckc_managed_session(address) != NULL;
	return s && ckc_managed_has(s, address);
}

#endif
