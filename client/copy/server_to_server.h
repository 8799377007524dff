/*
 * client/copy/server_to_server.h - copies between devices of two servers.
 *
 * The servers' workers copy over connections of their own, a bridge, which this process arranges.
 * Where they cannot reach each other, the bytes travel through this process.
 */
#ifndef CK_CLIENT_COPY_SERVER_TO_SERVER_H
#define CK_CLIENT_COPY_SERVER_TO_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/copy/copy_3d.h"
#include "client/link/client.h"

/* One side. Its stream, of the client's own, waits for no other. */
struct ckc_shore {
	struct ckc_context *context;
	CUdeviceptr at;
	uint64_t stream; /* id */
	uint64_t seq;	 /* the command that must have been carried out before */
};

struct ckc_server_to_server;

/* A box, and its description for the servers. */
struct ckc_server_to_server_box {
	struct ckc_box_copy copy;
	CUDA_MEMCPY3D to, from;					 /* each knows its own side alone */
	CUresult (*relay)(const struct ckc_server_to_server *c); /* through this process */
};

/* A copy of a range; or of a box, whose sides have the addresses. */
struct ckc_server_to_server {
	struct ckc_shore to, from;
	size_t size;				    /* packed bytes */
	const struct ckc_server_to_server_box *box; /* NULL: a range */
};

/* The copy must follow all work that has been enqueued on both servers so far: note that. */
CUresult ckc_server_to_server_begin(struct ckc_server_to_server *c);

/*
 * Copy, and return when the bytes are there. It waits for no stream, and for no command after
 * ckc_server_to_server_begin, so any thread may call it while a stream is blocked until it returns.
 */
CUresult ckc_server_to_server_copy(const struct ckc_server_to_server *c);

/* Wait until command @seq has been carried out, and the work in the stream of @s is done. */
CUresult ckc_server_to_server_wait(const struct ckc_shore *s, uint64_t seq);

/* bridge.c: over a bridge. False: there is none; nothing has been copied, or some of it. */
bool ckc_direct_copy(const struct ckc_server_to_server *c, CUresult *err);
/* Is there a bridge, or can one be made? */
bool ckc_direct_possible(const struct ckc_server_to_server *c);

#endif
