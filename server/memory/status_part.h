/*
 * server/memory/status_part.h - beginning to watch, for status.c and status_calls.c alone.
 */
#ifndef CK_SERVER_MEMORY_STATUS_PART_H
#define CK_SERVER_MEMORY_STATUS_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

struct cks_session;
struct cks_status;

struct cks_watch {
	CUevent event; /* if NULL: */
	CUstream stream;
	CUcontext context; /* for querying the stream */
	uint64_t object;   /* the client's id of the watched object */
	uint64_t number;
};

/* Begin to watch; false: the client has to ask again. */
bool cks_status_watch(struct cks_session *session, const struct cks_watch *watch);

/* The same without a reply: where it cannot be watched, the client hears that it has to ask. */
void cks_status_follow(struct cks_session *session, const struct cks_watch *watch);

/* Report in the @size bytes of the client's memory file @fd from now on; the caller closes
 * @fd. INVALID_VALUE: it can change its size, or something is watched already; OUT_OF_MEMORY. */
CUresult cks_status_use_file(struct cks_status *status, int fd, size_t size);

#endif
