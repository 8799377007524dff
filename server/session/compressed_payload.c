/*
 * server/session/compressed_payload.c - see server/session/compressed_payload.h.
 */
#include "rpc/compress.h"
#include "rpc/record.h"
#include "server/session/compressed_payload.h"
#include "server/session/session.h"

CUresult cks_unpack(struct cks_request *q, struct ck_unpacker **unpacker, void *to, size_t size)
{
	if (size == 0 || size > CK_PACK_BLOCK || q->bulk_size > size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!*unpacker && ck_unpacker_create(unpacker) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	q->broken = ck_reader_bulk_begin(q->reader, q->bulk_offset);
	if (!q->broken)
		q->broken = ck_reader_bulk(q->reader, ck_unpack_room(*unpacker), q->bulk_size);
	if (q->broken)
		return CUDA_ERROR_UNKNOWN;
	return ck_unpack(*unpacker, q->bulk_size, to, size) < 0 ? CUDA_ERROR_INVALID_VALUE
								: CUDA_SUCCESS;
}
