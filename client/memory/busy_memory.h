/*
 * client/memory/busy_memory.h - device memory that a copy between two servers uses. Such a copy
 * waits in a stream of one of them; the other one knows nothing of it, and would give the memory to
 * the next allocation when it is freed. And the copy may see the other one's work until then: a
 * wait for that is no longer a matter of the order of messages alone.
 */
#ifndef CK_CLIENT_MEMORY_BUSY_MEMORY_H
#define CK_CLIENT_MEMORY_BUSY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"

/* [at, at+size) of the session @client; its owner's memory. */
struct ckc_busy_memory {
	struct ckc_client *client;
	struct ckc_context *context; /* of the stream in which the copy waits */
	uint64_t at;
	size_t size;
	struct ckc_busy_memory *next;
};

/* The range is in use until the end. */
void ckc_busy_memory_begin(struct ckc_busy_memory *busy);
void ckc_busy_memory_end(struct ckc_busy_memory *busy);

/*
 * Wait until no byte of [at, at+size) of @client is in use, or the copy's context has failed, so
 * that the copy may never begin. Nearly free if nothing is in use.
 */
void ckc_busy_memory_wait(struct ckc_client *client, uint64_t at, size_t size);

#endif
