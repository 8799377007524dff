/*
 * server/evacuation/host_pool.h - host memory for the session's device memory while it is parked.
 *
 * It consists of pieces with huge pages, which the driver knows (cuMemHostRegister), so that copies
 * run at the rate of the bus. Making a piece takes longer than copying it: several threads make
 * them while the first ones are filled already, and they stay for the next time.
 */
#ifndef CK_SERVER_EVACUATION_HOST_POOL_H
#define CK_SERVER_EVACUATION_HOST_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "server/processes/pool_table.h"

struct cks_host_pool;

int cks_host_pool_create(struct cks_host_pool **pool);
void cks_host_pool_destroy(struct cks_host_pool *pool); /* accepts NULL; unregisters nothing */

/*
 * Begin to make the pool at least @size bytes large. @context is where the driver learns of it;
 * @ctx is its number in the session. End with cks_host_pool_finish(), before the next call. Without
 * memory for all of it, the pool is smaller.
 */
void cks_host_pool_grow(struct cks_host_pool *pool, size_t size, uint64_t ctx, CUcontext context);
void cks_host_pool_finish(struct cks_host_pool *pool);

/*
 * Before it grows: from now on its memory is in a file, which cks_host_pool_drop() lets go, and
 * cks_host_pool_take() takes back: meanwhile the process may be written into files without it. The
 * pool's content is lost then. A context is current. False: no file can be made.
 */
bool cks_host_pool_use_file(struct cks_host_pool *pool);
/* Its descriptor; -1: there is none. */
int cks_host_pool_file(const struct cks_host_pool *pool);
/* @shared: other processes have it too, so nothing may be written into the pool's memory. */
void cks_host_pool_take(struct cks_host_pool *pool, int fd, bool shared);
bool cks_host_pool_shared(const struct cks_host_pool *pool);

/* The memory at @offset, as soon as it is there, and into *@room how much is in one piece. NULL:
 * the pool ends before. */
char *cks_host_pool_at(struct cks_host_pool *pool, size_t offset, size_t *room);

/* Bytes that it has of the host's memory. From any thread. */
size_t cks_host_pool_size(const struct cks_host_pool *pool);

/* For another process, which is to save the first @used bytes; when it has: drop all pages. They
 * are undefined until that process has filled them again, or they are released. */
const struct cks_pool_table *cks_host_pool_table(struct cks_host_pool *pool, size_t used);
void cks_host_pool_drop(struct cks_host_pool *pool);
/* Wait until it has, for a minute at most. False: it has not. */
bool cks_host_pool_filled(const struct cks_host_pool *pool);

/* Give all of it back. A context is current. */
void cks_host_pool_release(struct cks_host_pool *pool);

#endif
