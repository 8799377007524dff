/*
 * client/memory/decompress.c - decompression by the GPU's engine, many operations per message.
 *
 * The messages are one-way, in stream order. Invalid operations are refused here, with their index.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/managed/managed.h"

#define COLLECT 256 /* operations in one message */

static CUresult check_params(const CUmemDecompressParams *p, CUdevice device)
{
	static const unsigned char unused[sizeof(p->padding)];
	unsigned int algo = (unsigned int)p->algo;
	unsigned int known = (unsigned)ckc_gpu_attribute(
		device, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK);
	unsigned int longest = (unsigned)ckc_gpu_attribute(
		device, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH);
	CUresult err;

	if (!algo || algo & (algo - 1) || !(algo & known) || p->srcNumBytes == 0 ||
	    p->srcNumBytes > longest || p->dstNumBytes > longest ||
	    memcmp(p->padding, unused, sizeof(unused)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_device_reach((uintptr_t)p->src, p->srcNumBytes);
	if (!err)
		err = ckc_device_reach((uintptr_t)p->dst, p->dstNumBytes ? p->dstNumBytes : 1);
	if (!err)
		err = ckc_device_reach((uintptr_t)p->dstActBytes, sizeof(*p->dstActBytes));
	return err;
}

/* @fail: index of the refused operation; SIZE_MAX: the error concerns none of them. */
static CUresult decompress_batch(const CUmemDecompressParams *params, size_t count,
				 unsigned int flags, size_t *fail, CUstream handle)
{
	struct ckc_context *ctx;
	CUdevice device;
	uint64_t stream;
	CUresult err = ckc_stream_uncaptured(handle, &ctx, &stream, &device);

	*fail = SIZE_MAX;
	if (!err && !ckc_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK))
		err = CUDA_ERROR_NOT_SUPPORTED;
	if (err)
		return err;
	if (!params || count == 0 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		err = check_params(&params[i], device);
		if (err) {
			*fail = i;
			return err;
		}
	}
	for (size_t i = 0; i < count && !err; i += COLLECT) {
		size_t n = count - i < COLLECT ? count - i : COLLECT;

		err = ck_wire_decompress(ctx->object.id, stream, &params[i], n * sizeof(params[0]));
	}
	return err;
}

CK_EXPORT CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray, size_t count,
					     unsigned int flags, size_t *errorIndex,
					     CUstream stream)
{
	size_t fail;
	CUresult err = decompress_batch(paramsArray, count, flags, &fail, stream);

	if (err && errorIndex)
		*errorIndex = fail;
	return err;
}
