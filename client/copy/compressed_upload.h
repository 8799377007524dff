/*
 * client/copy/compressed_upload.h - uploads to another machine, compressed where that is faster
 * (client/wire/compression.h).
 */
#ifndef CK_CLIENT_COPY_COMPRESSED_UPLOAD_H
#define CK_CLIENT_COPY_COMPRESSED_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "client/copy/staging.h"
#include "client/wire/compression.h"
#include "client/wire/pipelined_calls.h"

/* Parts of an upload, by calls of one thread that do not wait for one another's replies. */
struct ckc_compressed_upload {
	struct ckc_pipelined ahead;
	struct ckc_pack_run run;
	uint64_t stream;
	bool packed;
};

void ckc_compressed_upload_begin(struct ckc_compressed_upload *s, struct ckc_context *ctx,
				 uint64_t stream, bool packed);
/* An error says that there is no point in further parts. */
CUresult ckc_compressed_upload_bytes(struct ckc_compressed_upload *s, CUdeviceptr device,
				     const char *bytes, size_t size);
/* Wait for all replies; returns the first error. */
CUresult ckc_compressed_upload_end(struct ckc_compressed_upload *s);

/* Send the bytes of @copy by one-way messages, if it pays. True: they may be written again, or
 * *@err is set. False: nothing was sent. */
bool ckc_packed_message(const struct ckc_staged *copy, CUresult *err);

#endif
