/*
 * server/memory/decompress.c - decompression by the GPU's engine.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/memory/memory.h"
#include "server/session/session.h"

/* Are all three addresses in device memory? A client must not name addresses of this process. */
static bool params_in_memory(struct cks_memory *m, const CUmemDecompressParams *p)
{
	struct cks_allocation found;

	return cks_memory_find(m, (uintptr_t)p->src, &found) &&
	       cks_memory_covers(m, (uintptr_t)p->src, p->srcNumBytes) &&
	       cks_memory_find(m, (uintptr_t)p->dst, &found) &&
	       cks_memory_covers(m, (uintptr_t)p->dst, p->dstNumBytes ? p->dstNumBytes : 1) &&
	       cks_memory_find(m, (uintptr_t)p->dstActBytes, &found) &&
	       cks_memory_covers(m, (uintptr_t)p->dstActBytes, sizeof(*p->dstActBytes));
}

CUresult ck_serve_decompress(struct cks_request *q, ck_decompress_args *a, void *res)
{
	size_t bytes = a->params.params_len, count = bytes / sizeof(CUmemDecompressParams);
	CUmemDecompressParams *params;
	CUresult err = CUDA_SUCCESS;
	CUstream stream;

	(void)res;
	if (!ck_driver.cuMemBatchDecompressAsync)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (count == 0 || bytes % sizeof(*params))
		return CUDA_ERROR_INVALID_VALUE;
	params = malloc(bytes); /* a copy, because data in a message is unaligned */
	if (!params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(params, a->params.params_val, bytes);
	for (size_t i = 0; i < count && !err; i++)
		err = params_in_memory(q->session->memory, &params[i]) ? CUDA_SUCCESS
								       : CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = ck_driver.cuMemBatchDecompressAsync(params, count, 0, NULL, stream);
	free(params);
	return err;
}
