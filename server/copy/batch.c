/*
 * server/copy/batch.c - copies between device addresses: many per message, and boxes between two
 * contexts.
 */
#include <string.h>

#include "gen/handlers.h"
#include "server/session/session.h"

/* An encoded copy of a batch. */
struct item {
	uint64_t dst, src, size;
};

/* Copies run in sequence in the stream: a batch only promises that all are done at its end. */
CUresult ck_serve_copy_batch(struct cks_request *q, ck_copy_batch_args *a, void *res)
{
	size_t count = a->copies.copies_len / sizeof(struct item);
	CUresult err = CUDA_SUCCESS;
	CUstream stream;

	(void)res;
	if (!ck_driver.cuMemcpyDtoDAsync_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (a->copies.copies_len % sizeof(struct item))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !err; i++) {
		struct item item;

		memcpy(&item, a->copies.copies_val + i * sizeof(item), sizeof(item));
		err = ck_driver.cuMemcpyDtoDAsync_v2(item.dst, item.src, item.size, stream);
	}
	return err;
}

CUresult ck_serve_copy_3d_peer(struct cks_request *q, ck_copy_3d_peer_args *a, void *res)
{
	CUDA_MEMCPY3D_PEER copy;
	CUcontext dst, src;
	CUstream stream;

	(void)res;
	_Static_assert(sizeof(copy) == sizeof(a->copy), "it differs in the contexts");
	memcpy(&copy, a->copy, sizeof(copy));
	if (copy.srcMemoryType != CU_MEMORYTYPE_DEVICE ||
	    copy.dstMemoryType != CU_MEMORYTYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ck_driver.cuMemcpy3DPeerAsync)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_context_find(q, a->dst_context, &dst) ||
	    !cks_context_find(q, a->src_context, &src))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	/* The driver gets only the two device addresses from the client, no other pointers. */
	copy.srcHost = NULL;
	copy.dstHost = NULL;
	copy.srcArray = copy.dstArray = NULL;
	copy.dstContext = dst;
	copy.srcContext = src;
	return ck_driver.cuMemcpy3DPeerAsync(&copy, stream);
}
