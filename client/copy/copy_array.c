/*
 * client/copy/copy_array.c - copies to and from the first row of an array, as for 1D arrays: boxes
 * of one row.
 */
#include "client/link/client.h"

#define ROW(size) .WidthInBytes = (size), .Height = 1, .Depth = 1
#define FROM_ARRAY(array, at)                                                                      \
	.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = (array), .srcXInBytes = (at)
#define TO_ARRAY(array, at)                                                                        \
	.dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = (array), .dstXInBytes = (at)

CK_EXPORT CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray,
				   size_t srcOffset, size_t ByteCount)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), FROM_ARRAY(srcArray, srcOffset),
				 TO_ARRAY(dstArray, dstOffset)};

	return cuMemcpy3D_v2(&c);
}

CK_EXPORT CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
				   size_t ByteCount)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), FROM_ARRAY(srcArray, srcOffset),
				 .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = dstDevice};

	return cuMemcpy3D_v2(&c);
}

CK_EXPORT CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
				   size_t ByteCount)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), TO_ARRAY(dstArray, dstOffset),
				 .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = srcDevice};

	return cuMemcpy3D_v2(&c);
}

CK_EXPORT CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
					size_t ByteCount, CUstream hStream)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), FROM_ARRAY(srcArray, srcOffset),
				 .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = dstHost};

	return cuMemcpy3DAsync_v2(&c, hStream);
}

CK_EXPORT CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
				   size_t ByteCount)
{
	CUresult err = cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount, NULL);

	return err ? err : ckc_stream_synchronize(NULL);
}

CK_EXPORT CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
					size_t ByteCount, CUstream hStream)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), TO_ARRAY(dstArray, dstOffset),
				 .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = srcHost};

	return cuMemcpy3DAsync_v2(&c, hStream);
}

CK_EXPORT CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
				   size_t ByteCount)
{
	CUresult err = cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount, NULL);

	return err ? err : ckc_stream_synchronize(NULL);
}
