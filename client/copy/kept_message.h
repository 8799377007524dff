/*
 * client/copy/kept_message.h - uploads of a few MiB that the server keeps, as one-way commands: to
 * wait for a reply to each would take longer than to send them.
 */
#ifndef CK_CLIENT_COPY_KEPT_MESSAGE_H
#define CK_CLIENT_COPY_KEPT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/copy/staging.h"
#include "rpc/compress.h"

struct ckc_chunk_lookup;
struct ckc_pack_run;

/* Shorter uploads are not kept. */
#define CKC_KEPT_MIN ((size_t)1 << 20)

/* Lengths of blocks of a chunk that is sent compressed. */
#define CKC_KEPT_BLOCKS (CK_CHUNK / CK_PACK_BLOCK)

/* Compress a chunk to @to, which has room for CK_CHUNK bytes: its size there, and @lengths of its
 * blocks. */
size_t ckc_kept_pack(struct ckc_pack_run *run, const char *bytes, size_t size, uint32_t *lengths,
		     unsigned char *to);

/* Does it pay for an upload of at least CKC_KEPT_MIN bytes, which is one message otherwise? */
bool ckc_kept_message_pays(struct ckc_client *c);

/* Upload bytes that the index does not know. */
CUresult ckc_kept_message(const struct ckc_staged *copy, const struct ckc_chunk_lookup *lookup);

#endif
