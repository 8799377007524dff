/*
 * server/store/stored_files.c - messages about the store itself, for which no program need run:
 * fill it, ask what it has, empty it. All concern the store of the session's identity only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "rpc/compress.h"
#include "server/session/session.h"
#include "server/store/chunk_store.h"

static CUresult result_of(int ret)
{
	switch (ret) {
	case 0:
		return CUDA_SUCCESS;
	case -EBADMSG:
		return CUDA_ERROR_INVALID_VALUE;
	case -ENOSPC:
	case -EDQUOT:
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -ENOENT:
		return CUDA_ERROR_NOT_SUPPORTED; /* nothing is kept */
	default:
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
}

CUresult ck_serve_store_find(struct cks_request *q, ck_store_find_args *a, ck_store_find_res *res)
{
	size_t count = a->hashes.hashes_len / sizeof(struct ck_hash);
	struct ck_hash hash;

	if (count == 0 || count > CK_STORED_MOST || a->hashes.hashes_len % sizeof(hash) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	res->missing.missing_val = calloc(count, 1);
	if (!res->missing.missing_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res->missing.missing_len = (u_int)count;
	for (size_t i = 0; i < count; i++) {
		memcpy(&hash, a->hashes.hashes_val + i * sizeof(hash), sizeof(hash));
		res->missing.missing_val[i] = !cks_chunk_store_has(q->session->store, &hash);
	}
	return CUDA_SUCCESS;
}

CUresult ck_serve_store_keep(struct cks_request *q, ck_store_keep_args *a, ck_store_keep_res *res)
{
	struct ck_hash hash;
	void *bytes;
	int ret;

	(void)res;
	if (a->size == 0 || a->size > CK_CHUNK || q->bulk_size != a->size)
		return CUDA_ERROR_INVALID_VALUE;
	bytes = malloc(a->size);
	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	q->broken = ck_reader_bulk_begin(q->reader, q->bulk_offset);
	if (!q->broken)
		q->broken = ck_reader_bulk(q->reader, bytes, a->size);
	memcpy(hash.bytes, a->hash, sizeof(hash.bytes));
	ret = q->broken ? -EIO : cks_chunk_store_put(q->session->store, &hash, bytes, a->size);
	free(bytes);
	return result_of(ret);
}

CUresult ck_serve_store_state(struct cks_request *q, ck_store_state_args *a,
			      ck_store_state_res *res)
{
	struct cks_chunk_store_state state;
	int ret = cks_chunk_store_state(q->session->store, &state);

	(void)a;
	res->count = state.count;
	res->bytes = state.bytes;
	res->limit = state.limit;
	return result_of(ret);
}

CUresult ck_serve_store_empty(struct cks_request *q, ck_store_empty_args *a,
			      ck_store_empty_res *res)
{
	(void)a;
	(void)res;
	return result_of(cks_chunk_store_empty(q->session->store));
}
