/*
 * server/door/memory_need.h - memory that must be free when a session begins (ck_hello_need).
 *
 * A client that has chosen this server by its offer (offers.h) states the resources that it counts
 * on: meanwhile, another program may have taken the memory.
 */
#ifndef CK_SERVER_DOOR_MEMORY_NEED_H
#define CK_SERVER_DOOR_MEMORY_NEED_H

#include <stddef.h>
#include <stdint.h>

#include "cricket.h"
#include "server/policy/terms.h"

struct cks_offers;

/* Is the memory there that @need names, on the GPUs of @terms, after @since (ms)? 0; -EAGAIN: they
 * are being looked at, so ask again in a moment; -ENOSPC: no, and @why says what lacks. */
int cks_memory_need_check(struct cks_offers *offers, const ck_hello_need *need,
			  const struct cks_terms *terms, int64_t since, char *why, size_t size);

#endif
