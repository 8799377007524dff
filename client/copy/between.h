/*
 * client/copy/between.h - copies of memory on another server than the current context's, and
 * between two servers.
 *
 * A stream of one server says nothing to another server. A copy between the stream's own server and
 * another one blocks the stream: a thread of the client makes it (client/copy/crossing.h), and the
 * stream goes on when the bytes are there. All other copies first wait for the work in their
 * stream, and are done when the call returns, also in the asynchronous forms.
 */
#ifndef CK_CLIENT_COPY_BETWEEN_H
#define CK_CLIENT_COPY_BETWEEN_H

#include "client/copy/crossing.h"
#include "client/wire/client.h"
#include "client/wire/servers.h"

/* @context, or an active context of the other server that has the memory at @address. NULL: none is
 * active there. */
struct ckc_context *ckc_between_home(struct ckc_context *context, uint64_t address);

/* Is device memory at @address on another server than that of @context? */
static inline bool ckc_between_is(struct ckc_context *context, uint64_t address)
{
	return unlikely(ckc_many) && ckc_between_home(context, address) != context;
}

/* The work in @stream of @context is done on return. NOT_SUPPORTED: the stream is being captured;
 * logged. */
CUresult ckc_between_begin(struct ckc_context *context, struct ckc_stream *stream);

/* Copy between device addresses, the one in @to, the other in @from, after the work in @stream of
 * @context. */
struct ckc_between {
	struct ckc_context *context;
	struct ckc_stream *stream; /* NULL: legacy */
	bool waits;		   /* until the copy is done: a synchronous form */
	struct ckc_context *to, *from;
	CUdeviceptr dst, src;
	size_t size;
};
CUresult ckc_between_copy(const struct ckc_between *b);

/* Make the copy @c between two servers, with contexts and addresses, for @b, which says where and
 * how. */
CUresult ckc_between_cross(const struct ckc_between *b, struct ckc_crossing *c);

#endif
