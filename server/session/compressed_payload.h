/*
 * server/session/compressed_payload.h - the payload of a message that is one compressed block
 * (rpc/compress.h).
 */
#ifndef CK_SERVER_SESSION_COMPRESSED_PAYLOAD_H
#define CK_SERVER_SESSION_COMPRESSED_PAYLOAD_H

#include <stddef.h>

#include "cuda/types.h"

struct cks_request;
struct ck_unpacker;

/*
 * Receive the payload of @q and expand it to @size bytes at @to. *@unpacker is made when it is
 * needed first; the caller owns it, and lets one thread use it at a time. INVALID_VALUE: it is no
 * block of that size.
 */
CUresult cks_unpack(struct cks_request *q, struct ck_unpacker **unpacker, void *to, size_t size);

#endif
