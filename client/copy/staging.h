/*
 * client/copy/staging.h - copy pageable memory through pinned memory that the worker shares.
 *
 * The driver does the same within one process: a piece is copied into a window, and the GPU takes
 * it from there while the next piece is copied; downloads work the other way round. Without
 * windows, the bytes pass through a ring, which takes one more copy.
 */
#ifndef CK_CLIENT_COPY_STAGING_H
#define CK_CLIENT_COPY_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"

#define CK_STAGE_MIN ((size_t)128 << 10) /* bytes of an upload; fewer go faster in a message */

/* A copy whose host side is [@host, @host+@size), in @stream (NULL: legacy) of @ctx. */
struct ckc_staged {
	struct ckc_context *ctx;
	struct ckc_stream *stream;
	CUdeviceptr device;
	void *host;
	size_t size;
	bool waits; /* for the copy: it may wait for earlier work */
};

/*
 * True: the upload is enqueued and @host may be written again, or the download is done; or *@err is
 * set. False: no window is available, and nothing was done.
 */
bool ckc_staging_upload(const struct ckc_staged *copy, CUresult *err);
bool ckc_staging_download(const struct ckc_staged *copy, CUresult *err);

#endif
