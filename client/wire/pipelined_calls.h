/*
 * client/wire/pipelined_calls.h - calls of one thread that are sent before the replies of earlier
 * ones have come.
 *
 * All are ordered after the commands sent before the first one. Their results are errors only, and
 * the replies must be small: the server sends no copies with them (is_ahead in
 * server/worker/dispatch.c).
 */
#ifndef CK_CLIENT_WIRE_PIPELINED_CALLS_H
#define CK_CLIENT_WIRE_PIPELINED_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"

struct ckc_pipelined {
	struct ckc_client *client;
	struct ckc_lane *lane;
	uint64_t ctx, seq, began;
	uint32_t proc;	      /* of the newest call */
	unsigned int waiting; /* calls without a reply */
	size_t received;      /* bytes of the replies */
	ck_result result;     /* of all replies: the first error, the newest rank */
	CUresult broken;      /* the wire failed */
	int cancel;
};

/* Begin; always followed by ckc_pipelined_end. */
void ckc_pipelined_begin(struct ckc_pipelined *a, struct ckc_client *c, uint64_t ctx);

/* Send one call; @args begins with its head, which this fills in. An error, of this or of an
 * earlier call, says that there is no point in further ones. */
CUresult ckc_pipelined_call(struct ckc_pipelined *a, uint32_t proc, void *args, const void *bulk,
			    size_t size);

/* Note for the terminal, and for those that count, that call @proc with @size bytes was sent on
 * @lane. It began at @began; at @profiled for ckc_profile_begin. */
void ckc_pipelined_note(const struct ckc_lane *lane, uint32_t proc, const void *args, size_t size,
			uint64_t began, uint64_t profiled);

/* Wait for all replies; returns the first error. */
CUresult ckc_pipelined_end(struct ckc_pipelined *a);

#endif
