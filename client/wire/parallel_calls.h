/*
 * client/wire/parallel_calls.h - a call on a lane of its own, whose reply is taken later. So one
 * thread can have calls on several servers in progress.
 */
#ifndef CK_CLIENT_WIRE_PARALLEL_CALLS_H
#define CK_CLIENT_WIRE_PARALLEL_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"
#include "client/link/lane.h"

struct ckc_parallel {
	struct ckc_client *client;
	struct ckc_lane *lane; /* NULL: the call has not begun */
	struct ckc_exchange x;
	struct ckc_sink sink;
	int cancel;
};

/* A call of message @proc; @args and @res are its structures, valid until the end. */
struct ckc_parallel_call {
	struct ckc_client *client;
	uint32_t proc;
	uint64_t seq; /* the command that must have been carried out before; 0: none */
	uint64_t ctx;
	void *args, *res;
	const void *bulk; /* payload after the arguments; NULL: none */
	size_t bulk_size;
	struct ckc_sink *sink; /* for payload after the results; NULL: none */
};

/*
 * Send the call. OPERATING_SYSTEM: there is no connection for it; DEVICE_UNAVAILABLE: the server is
 * lost. ckc_parallel_end waits for the reply, and returns that error again if there was one. Always
 * call both.
 */
CUresult ckc_parallel_begin(struct ckc_parallel *b, const struct ckc_parallel_call *call);
CUresult ckc_parallel_end(struct ckc_parallel *b);

#endif
