/*
 * server/modules/image.c - assemble an image from its pieces and pass it to the module cache.
 *
 * One image arrives at a time: the command connection is ordered, and the client sends the pieces
 * of an image in sequence.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "rpc/compress.h"
#include "server/modules/modcache.h"
#include "server/modules/module.h"
#include "server/session/compressed_payload.h"
#include "server/session/session.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

struct cks_assembly {
	struct ck_hash hash;
	unsigned char *data; /* NULL: no image is arriving */
	size_t size, have;
	struct ck_unpacker *unpacker; /* NULL until needed */
};

int cks_assembly_create(struct cks_assembly **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static void assembly_drop(struct cks_assembly *a)
{
	free(a->data);
	*a = (struct cks_assembly){.unpacker = a->unpacker};
}

void cks_assembly_destroy(struct cks_assembly *a)
{
	if (!a)
		return;
	assembly_drop(a);
	ck_unpacker_destroy(a->unpacker);
	free(a);
}

/* All pieces have arrived: check the hash, and store the image. */
static CUresult assembly_finish(struct cks_request *q, struct cks_assembly *a)
{
	struct ck_hash found;
	CUresult err = CUDA_SUCCESS;
	char text[CK_HASH_TEXT];

	ck_hash(a->data, a->size, &found);
	ck_hash_print(&a->hash, text);
	if (!ck_hash_equal(&found, &a->hash)) {
		ck_warn("image %.16s: %zu bytes with another hash", text, a->size);
		err = CUDA_ERROR_INVALID_IMAGE;
	} else if (cks_modcache_put(q->session->modules, &a->hash, a->data, a->size) < 0) {
		err = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		ck_debug("image %.16s: %zu bytes arrived", text, a->size);
	}
	assembly_drop(a);
	return err;
}

static CUresult assembly_begin(struct cks_assembly *a, const struct ck_hash *hash, size_t size)
{
	assembly_drop(a);
	if (size == 0 || size > CK_IMAGE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	a->data = malloc(size);
	if (!a->data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->hash = *hash;
	a->size = size;
	return CUDA_SUCCESS;
}

/* A piece of @length bytes at @offset of an image of @size bytes has come: make room for it. */
static CUresult piece_begin(struct cks_assembly *a, const char *hash_bytes, size_t size,
			    size_t offset, size_t length)
{
	struct ck_hash hash;
	CUresult err;

	memcpy(hash.bytes, hash_bytes, sizeof(hash.bytes));
	if (offset == 0) {
		err = assembly_begin(a, &hash, size);
		if (err)
			return err;
	}
	if (a->data && ck_hash_equal(&hash, &a->hash) && size == a->size && offset == a->have &&
	    length <= a->size - a->have)
		return CUDA_SUCCESS;
	assembly_drop(a);
	return CUDA_ERROR_INVALID_IMAGE;
}

static CUresult piece_end(struct cks_request *q, struct cks_assembly *a, size_t length)
{
	a->have += length;
	return a->have == a->size ? assembly_finish(q, a) : CUDA_SUCCESS;
}

CUresult ck_serve_image(struct cks_request *q, ck_image_args *args, void *res)
{
	struct cks_assembly *a = q->session->assembly;
	CUresult err = piece_begin(a, args->hash, args->size, args->offset, q->bulk_size);

	(void)res;
	_Static_assert(sizeof(a->hash.bytes) == sizeof(args->hash), "one kind of hash");
	if (err)
		return err;
	q->broken = ck_reader_bulk_begin(q->reader, q->bulk_offset);
	if (!q->broken)
		q->broken = ck_reader_bulk(q->reader, a->data + a->have, q->bulk_size);
	return q->broken ? CUDA_ERROR_UNKNOWN : piece_end(q, a, q->bulk_size);
}

CUresult ck_serve_image_packed(struct cks_request *q, ck_image_packed_args *args, void *res)
{
	struct cks_assembly *a = q->session->assembly;
	CUresult err = piece_begin(a, args->hash, args->size, args->offset, args->expanded);

	(void)res;
	if (err)
		return err;
	err = cks_unpack(q, &a->unpacker, a->data + a->have, args->expanded);
	if (!err)
		return piece_end(q, a, args->expanded);
	assembly_drop(a);
	return q->broken ? err : CUDA_ERROR_INVALID_IMAGE;
}
