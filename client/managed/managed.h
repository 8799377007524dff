/*
 * client/managed/managed.h - memory that program and device both use: each page knows where it is newest.
 *
 * A page here is invalid (the device may have written it: no access), clean (the same on both
 * sides: reading) or dirty (written here: both). What is about to run on the device first gets
 * the dirty pages; what it may write becomes invalid. The first touch of an invalid page fetches
 * it and some behind it; see client/managed/fault.c for who calls us then.
 *
 * The lock of these tables is the outermost of the client. Whoever holds it touches no memory of
 * the program and waits for no kernel.
 */
#ifndef CK_CLIENT_MANAGED_MANAGED_H
#define CK_CLIENT_MANAGED_MANAGED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/client.h"
#include "client/managed/window.h"

/* Track whole pages of the window that lie at the same address on the device. */
CUresult ck_managed_track(uint64_t base, size_t size, struct ck_context *context,
			  unsigned int attach);
/*
 * Track a variable that is [at, at+size) on the device, whatever else is in its pages: these
 * addresses become ours. NOT_SUPPORTED: something of this process lies there. Undone by leave.
 */
CUresult ck_managed_adopt(uint64_t at, size_t size, struct ck_context *context);
void ck_managed_leave(uint64_t at, size_t size);
/* The pages become plain memory of the host again, with what is in them; false: not tracked. */
bool ck_managed_untrack(uint64_t base, bool keep);
bool ck_managed_is(uint64_t address);

/* A kernel is about to be sent to @stream. Nearly free while no page is in use here. */
void ck_managed_launch(uint64_t stream);
/* Something is loaded onto the device, as a kernel is by its first launch: functions that run may need their pages first. */
void ck_managed_loading(void);
/* The device is about to read, or to write, a range, as a copy does. */
void ck_managed_device(uint64_t address, size_t size, bool write);
/*
 * We are about to read, or to write, memory of the program, which may be tracked: its pages are
 * fetched, and the address is given by which we reach them whatever other threads do. NULL: some of
 * them are lost, and the call must fail.
 */
void *ck_managed_host(const void *p, size_t size, bool write);
/* The same for memory that the kernel is about to use at the program's own address. */
void ck_managed_need(uint64_t address, size_t size, bool write);
/*
 * A touch of the program at @address: 0, or -ENOENT when that is not tracked memory. A host
 * function (@inside) is part of the device's work: it waits for none.
 */
int ck_managed_touch(uint64_t address, bool write, bool inside);

/* From now on only @stream (SINGLE), no stream (HOST) or every stream (GLOBAL) uses the memory. */
void ck_managed_attach(uint64_t base, unsigned int attach, uint64_t stream);
/* Bring a range here, as a prefetch to the host does. */
void ck_managed_fetch(uint64_t address, size_t size);

/* Is @address in a range outside of the window? Takes no lock. */
bool ck_managed_foreign(const struct ck_managed_state *s, uint64_t address);
/* Can @address be tracked? Two comparisons while there is no variable. */
static inline bool ck_managed_may_be(uint64_t address)
{
	const struct ck_managed_state *s = ck_managed_if_any();

	return s && (ck_window_has(&s->window, address) ||
		     (unlikely(atomic_load_explicit(&s->variables.ranges,
						    memory_order_relaxed) > 0) &&
		      ck_managed_foreign(s, address)));
}

#endif
