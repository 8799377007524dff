/*
 * server/memory/pinned.h - memory of a client on this host, mapped and registered here.
 */
#ifndef CK_SERVER_MEMORY_PINNED_H
#define CK_SERVER_MEMORY_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cks_pinned;

int cks_pinned_create(struct cks_pinned **pinned);
void cks_pinned_destroy(struct cks_pinned *pinned); /* for tests: unregisters nothing */

/* Limit registered memory to @most bytes. Call before the session's first message. */
void cks_pinned_bound(struct cks_pinned *pinned, size_t most);

/* The context has ended: unmap all that was registered in it. */
void cks_pinned_drop_context(struct cks_pinned *pinned, uint64_t ctx);

/* Does one piece of the client's memory contain all of [address, address+size)? */
bool cks_pinned_covers(struct cks_pinned *pinned, uint64_t address, size_t size);

/* Until the release, no piece is unmapped: while a copy is checked and enqueued, or waited for. */
void cks_pinned_hold(struct cks_pinned *pinned);
void cks_pinned_release(struct cks_pinned *pinned);

#endif
