/*
 * client/copy/multi_server.h - copies of memory on another server than the current context's, and
 * between two servers.
 *
 * A stream of one server says nothing to another server. A copy between the stream's own server and
 * another one blocks the stream: a thread of the client makes it (client/copy/server_to_server.h),
 * and the stream goes on when the bytes are there. All other copies first wait for the work in
 * their stream, and are done when the call returns, also in the asynchronous forms.
 */
#ifndef CK_CLIENT_COPY_MULTI_SERVER_H
#define CK_CLIENT_COPY_MULTI_SERVER_H

#include "client/copy/server_to_server.h"
#include "client/link/client.h"
#include "client/link/session_list.h"

/* @context, or an active context of the other server that has the memory at @address. NULL: none is
 * active there. */
struct ckc_context *ckc_multi_server_home(struct ckc_context *context, uint64_t address);

/* Is device memory at @address on another server than that of @context? */
static inline bool ckc_multi_server_is(struct ckc_context *context, uint64_t address)
{
	return unlikely(ckc_many) && ckc_multi_server_home(context, address) != context;
}

/* The work in @stream of @context is done on return. NOT_SUPPORTED: the stream is being captured;
 * logged. */
CUresult ckc_multi_server_begin(struct ckc_context *context, struct ckc_stream *stream);

/* Copy between device addresses, the one in @to, the other in @from, after the work in @stream of
 * @context. */
struct ckc_multi_server {
	struct ckc_context *context;
	struct ckc_stream *stream; /* NULL: legacy */
	bool waits;		   /* until the copy is done: a synchronous form */
	struct ckc_context *to, *from;
	CUdeviceptr dst, src;
	size_t size;
};
CUresult ckc_multi_server_copy(const struct ckc_multi_server *b);

/* Make the copy @c between two servers, with contexts and addresses, for @b, which says where and
 * how. */
CUresult ckc_multi_server_cross(const struct ckc_multi_server *b, struct ckc_server_to_server *c);

#endif
