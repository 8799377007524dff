/*
 * rpc/compress.c - see rpc/compress.h.
 *
 * Level 1 is the fastest at which zstd also codes the bytes' frequencies: weights of a model, in
 * which nothing repeats, become 7 % (float) to 22 % (bfloat16) shorter. On bytes that it cannot
 * compress, it runs at more than 3 GB/s.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "rpc/compress.h"

#define LEVEL 1
#define LEAST_GAIN 16 /* a block must become shorter by this part, to be worth its expansion */

struct ck_packer {
	ZSTD_CCtx *context;
	unsigned char bytes[CK_PACK_BLOCK];
};

struct ck_unpacker {
	ZSTD_DCtx *context;
	unsigned char bytes[CK_PACK_BLOCK];
};

int ck_packer_create(struct ck_packer **out)
{
	struct ck_packer *p = malloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->context = ZSTD_createCCtx();
	if (!p->context) {
		free(p);
		return -ENOMEM;
	}
	*out = p;
	return 0;
}

void ck_packer_destroy(struct ck_packer *p)
{
	if (!p)
		return;
	ZSTD_freeCCtx(p->context);
	free(p);
}

int ck_unpacker_create(struct ck_unpacker **out)
{
	struct ck_unpacker *u = malloc(sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->context = ZSTD_createDCtx();
	if (!u->context) {
		free(u);
		return -ENOMEM;
	}
	*out = u;
	return 0;
}

void ck_unpacker_destroy(struct ck_unpacker *u)
{
	if (!u)
		return;
	ZSTD_freeDCtx(u->context);
	free(u);
}

size_t ck_pack(struct ck_packer *p, const void *bytes, size_t size, const void **packed)
{
	size_t n;

	if (size > sizeof(p->bytes))
		return 0;
	n = ZSTD_compressCCtx(p->context, p->bytes, size - size / LEAST_GAIN, bytes, size, LEVEL);
	if (ZSTD_isError(n))
		return 0; /* it does not fit, or there is no memory */
	*packed = p->bytes;
	return n;
}

void *ck_unpack_room(struct ck_unpacker *u)
{
	return u->bytes;
}

/* The library may also know the formats of its first releases, whose decoders hardly anybody
 * tests. */
static int is_frame(const unsigned char *bytes, size_t size)
{
	static const unsigned char magic[] = {0x28, 0xb5, 0x2f, 0xfd};

	return size >= sizeof(magic) && memcmp(bytes, magic, sizeof(magic)) == 0 &&
	       ZSTD_findFrameCompressedSize(bytes, size) == size;
}

int ck_unpack(struct ck_unpacker *u, size_t packed, void *to, size_t size)
{
	if (packed > sizeof(u->bytes) || !is_frame(u->bytes, packed))
		return -EBADMSG;
	return ZSTD_decompressDCtx(u->context, to, size, u->bytes, packed) == size ? 0 : -EBADMSG;
}
