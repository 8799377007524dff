/*
 * server/memory/pinned.h - memory of a client on this host, mapped and registered here; and
 * shadowed memory (rpc/pinned.h), for clients on other hosts.
 */
#ifndef CK_SERVER_MEMORY_PINNED_H
#define CK_SERVER_MEMORY_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

struct cks_pinned;

int cks_pinned_create(struct cks_pinned **pinned);
void cks_pinned_destroy(struct cks_pinned *pinned); /* for tests: unregisters nothing */

/* Limit registered memory to @most bytes. Call before the session's first message. */
void cks_pinned_bound(struct cks_pinned *pinned, size_t most);

/* Other memory of this host that is pinned for a client counts within that limit: take @size
 * bytes of it, or give them back. False: there are not so many left. Takes no lock. */
bool cks_pinned_charge(struct cks_pinned *pinned, size_t size);
void cks_pinned_refund(struct cks_pinned *pinned, size_t size);
/* The limit was reached: for the log, and the program's user. */
void cks_pinned_report(const struct cks_pinned *pinned);

/* The context has ended: unmap all that was registered in it. */
void cks_pinned_drop_context(struct cks_pinned *pinned, uint64_t ctx);

/*
 * Map memory of this process at [address, address+size), which is reserved for shadowed memory, and
 * register it: whole pages, zeros at first. It is a piece like those that the client shares.
 */
CUresult cks_pinned_add_own(struct cks_pinned *pinned, uint64_t ctx, uint64_t address, size_t size);

/* Does one piece of the client's memory contain all of [address, address+size)? */
bool cks_pinned_covers(struct cks_pinned *pinned, uint64_t address, size_t size);

/* Until the release, no piece is unmapped: while a copy is checked and enqueued, or waited for. */
void cks_pinned_hold(struct cks_pinned *pinned);
void cks_pinned_release(struct cks_pinned *pinned);

/* --- shadow.c
 *
 * Pinned memory of a client on another host that kernels use is a piece of pinned memory here, with
 * a shadow. Changes of the client arrive ahead of the launches and copies that may read them.
 * Changes of the device are found by comparison with the shadow, before any reply or news that may
 * tell the client that work is done, and are delivered first. Nothing here calls the driver, so a
 * reply never waits for it.
 */

struct cks_session;
struct cks_shadows;

/* Reserve addresses in this process, before there is a session. */
void cks_shadows_prepare(void);
/* The reserved addresses, for the reply to hello. 0: none. */
uint64_t cks_shadows_place(uint64_t *size);
bool cks_shadows_reserved(uint64_t address, uint64_t size);

int cks_shadows_create(struct cks_shadows **shadows);
void cks_shadows_destroy(struct cks_shadows *shadows); /* for tests */

/* Deliver the changes since the last comparison. @by_reply: cks_deliveries_take follows. */
void cks_shadows_compare(struct cks_session *session, bool by_reply);

/* The memory at @address, or all of context @ctx, is about to be unregistered. */
void cks_shadows_drop(struct cks_shadows *shadows, uint64_t address);
void cks_shadows_drop_context(struct cks_shadows *shadows, uint64_t ctx);

#endif
