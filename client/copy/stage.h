/*
 * client/copy/stage.h - copies of the program's pageable memory by way of pinned memory that is shared with the worker.
 *
 * As the driver does it in the same process: a piece is copied into a window, from where the GPU takes it, while the next
 * piece is copied; and the other way round. Without windows the bytes pass a ring, and are copied once more behind it.
 */
#ifndef CK_CLIENT_COPY_STAGE_H
#define CK_CLIENT_COPY_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/client.h"

#define CK_STAGE_MIN ((size_t)128 << 10) /* bytes of an upload; fewer are better off in a message */

/* The host's side of a copy is @host, @size bytes; it is part of the work of @stream (NULL: legacy) in @ctx. */
struct ck_staged {
	struct ck_context *ctx;
	struct ck_stream *stream;
	CUdeviceptr device;
	void *host;
	size_t size;
	bool waits;		/* for the copy: it may wait for all that is in the stream in front of it */
};

/*
 * The copy is enqueued (upload; @host may be written again), or has been made (download), when they return true, or *@err
 * says what is wrong; false: there is no window to be had, and nothing has been done.
 */
bool ck_stage_upload(const struct ck_staged *copy, CUresult *err);
bool ck_stage_download(const struct ck_staged *copy, CUresult *err);

#endif
