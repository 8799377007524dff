/*
 * rpc/compress.h - payload that travels compressed, in blocks: each is one frame of zstd (RFC
 * 8878), without a dictionary.
 *
 * The message says how many bytes the block becomes; it becomes exactly these, or it is refused. So
 * a peer can make the reader neither write nor allocate more than CK_PACK_BLOCK.
 */
#ifndef CK_RPC_COMPRESS_H
#define CK_RPC_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "util/hash.h"

#define CK_PACK_BLOCK (512u << 10) /* most bytes of a block, before and after */

struct ck_packer;
struct ck_unpacker;

/* 0, or -ENOMEM. A packer or unpacker serves one thread at a time. */
int ck_packer_create(struct ck_packer **packer);
void ck_packer_destroy(struct ck_packer *packer);
int ck_unpacker_create(struct ck_unpacker **unpacker);
void ck_unpacker_destroy(struct ck_unpacker *unpacker);

/* Compress @size bytes, at most CK_PACK_BLOCK. Returns the length of *@packed, which the next call
 * overwrites; 0: they hardly become shorter, so send them as they are. */
size_t ck_pack(struct ck_packer *packer, const void *bytes, size_t size, const void **packed);

/* Where to receive a block: CK_PACK_BLOCK bytes. */
void *ck_unpack_room(struct ck_unpacker *unpacker);

/* Expand the first @packed bytes there to @size bytes at @to. -EBADMSG: they are no block of that
 * size; then @to may hold anything. */
int ck_unpack(struct ck_unpacker *unpacker, size_t packed, void *to, size_t size);

/* Parts of uploads that the server keeps for the next start of a program (docs/protocol.md,
 * "Uploads that are kept"): each travels as it is, or in blocks. */
#define CK_CHUNK ((size_t)2 << 20) /* most bytes of a chunk; it begins at a multiple in its file */
#define CK_STORED_MOST 64u	   /* chunks in one ck_upload_stored */

/* One of the parts of ck_upload_stored, as it travels: a chunk that is kept, or a part of one. */
struct ck_stored_part {
	uint64_t offset; /* from the destination */
	uint64_t size;	 /* bytes, 1 to CK_CHUNK */
	struct ck_hash hash;
	uint64_t chunk_size; /* of all that has the hash */
	uint64_t begin;	     /* of the part in the chunk */
};

/* A chunk that the server holds in memory for the copies that follow (ck_store_hold). */
struct ck_held_chunk {
	struct ck_hash hash;
	uint64_t size; /* bytes, for so many of which the promise lasts */
};
#define CK_HELD_MOST 1024u /* chunks in one ck_store_hold, and in its reply */

#endif
