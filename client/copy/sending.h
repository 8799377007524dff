/*
 * client/copy/sending.h - uploads to another machine, compressed where that is faster
 * (client/wire/packing.h).
 */
#ifndef CK_CLIENT_COPY_SENDING_H
#define CK_CLIENT_COPY_SENDING_H

#include <stdbool.h>
#include <stddef.h>

#include "client/copy/stage.h"
#include "client/wire/ahead.h"
#include "client/wire/packing.h"

/* Parts of an upload, by calls of one thread that do not wait for one another's replies. */
struct ckc_sending {
	struct ckc_ahead ahead;
	struct ckc_pack_run run;
	uint64_t stream;
	bool packed;
};

void ckc_sending_begin(struct ckc_sending *s, struct ckc_context *ctx, uint64_t stream,
		       bool packed);
/* An error says that there is no point in further parts. */
CUresult ckc_sending_bytes(struct ckc_sending *s, CUdeviceptr device, const char *bytes,
			   size_t size);
/* Wait for all replies; returns the first error. */
CUresult ckc_sending_end(struct ckc_sending *s);

/* Send the bytes of @copy by one-way messages, if it pays. True: they may be written again, or
 * *@err is set. False: nothing was sent. */
bool ckc_packed_message(const struct ckc_staged *copy, CUresult *err);

#endif
