/*
 * server/objects/stream_value.c - batches of waits for values and writes of values, in a stream.
 */
#include <string.h>

#include "gen/handlers.h"
#include "server/session/session.h"

#define CK_OPERATIONS_MAX 255

CUresult ck_serve_stream_operations(struct cks_request *q, ck_stream_operations_args *a, void *res)
{
	CUstreamBatchMemOpParams operations[CK_OPERATIONS_MAX];
	size_t size = a->operations.operations_len;
	CUstream stream;

	(void)res;
	if (!ck_driver.cuStreamBatchMemOp_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (size == 0 || size % sizeof(operations[0]) != 0 || size > sizeof(operations))
		return CUDA_ERROR_INVALID_VALUE;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	memcpy(operations, a->operations.operations_val, size);
	return ck_driver.cuStreamBatchMemOp_v2(stream, (unsigned int)(size / sizeof(operations[0])),
					       operations, a->flags);
}
