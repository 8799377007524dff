/*
 * emu/copy/copy.c - copies of one dimension.
 */
#include "emu/copy/box.h"
#include "emu/core/emu.h"
#include "emu/core/hooks.h"

/* One row; the stream of a synchronous call is the legacy one. */
static CUresult copy_row(struct ck_emu_box box, enum ck_emu_side dst_side,
			 enum ck_emu_side src_side, CUstream stream, bool sync)
{
	static const CUmemorytype types[] = {[CK_EMU_SIDE_HOST] = CU_MEMORYTYPE_HOST,
					     [CK_EMU_SIDE_DEVICE] = CU_MEMORYTYPE_DEVICE,
					     [CK_EMU_SIDE_ANY] = CU_MEMORYTYPE_UNIFIED};
	CUDA_MEMCPY3D node = {.srcMemoryType = types[src_side],
			      .dstMemoryType = types[dst_side],
			      .WidthInBytes = box.width,
			      .Height = 1,
			      .Depth = 1};
	CUresult result;

	node.srcHost = src_side == CK_EMU_SIDE_HOST ? (const void *)box.src : NULL;
	node.srcDevice = src_side == CK_EMU_SIDE_HOST ? 0 : box.src;
	node.dstHost = dst_side == CK_EMU_SIDE_HOST ? (void *)box.dst : NULL;
	node.dstDevice = dst_side == CK_EMU_SIDE_HOST ? 0 : box.dst;
	if (!sync && ck_emu_hooks->capture_copy(stream, &node, &result))
		return result;
	return ck_emu_box_copy(&box, dst_side, src_side, stream, sync);
}

static CUresult copy_bytes(uint64_t dst, enum ck_emu_side dst_side, uint64_t src,
			   enum ck_emu_side src_side, size_t size, CUstream stream, bool sync)
{
	const struct ck_emu_box box = {
		.dst = dst, .src = src, .width = size, .height = 1, .depth = 1};

	return copy_row(box, dst_side, src_side, stream, sync);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return copy_bytes(dst, CK_EMU_SIDE_ANY, src, CK_EMU_SIDE_ANY, ByteCount, NULL, true);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return copy_bytes(dst, CK_EMU_SIDE_ANY, src, CK_EMU_SIDE_ANY, ByteCount, hStream, false);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return copy_bytes(dstDevice, CK_EMU_SIDE_DEVICE, (uint64_t)srcHost, CK_EMU_SIDE_HOST,
			  ByteCount, NULL, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
			      CUstream hStream)
{
	return copy_bytes(dstDevice, CK_EMU_SIDE_DEVICE, (uint64_t)srcHost, CK_EMU_SIDE_HOST,
			  ByteCount, hStream, false);
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy_bytes((uint64_t)dstHost, CK_EMU_SIDE_HOST, srcDevice, CK_EMU_SIDE_DEVICE,
			  ByteCount, NULL, true);
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
			      CUstream hStream)
{
	return copy_bytes((uint64_t)dstHost, CK_EMU_SIDE_HOST, srcDevice, CK_EMU_SIDE_DEVICE,
			  ByteCount, hStream, false);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy_bytes(dstDevice, CK_EMU_SIDE_DEVICE, srcDevice, CK_EMU_SIDE_DEVICE, ByteCount,
			  NULL, true);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
			      CUstream hStream)
{
	return copy_bytes(dstDevice, CK_EMU_SIDE_DEVICE, srcDevice, CK_EMU_SIDE_DEVICE, ByteCount,
			  hStream, false);
}

/*
 * Between contexts. The stream orders the copy in the caller's context; a synchronous one is
 * ordered in both others as well.
 */
static CUresult copy_peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
			  CUcontext src_context, size_t size, CUstream stream, bool sync)
{
	const struct ck_emu_box box = {
		.dst = dst, .src = src, .width = size, .height = 1, .depth = 1, .peer = true};
	CUcontext handles[2] = {dst_context, src_context};
	CUresult result = ck_emu_enter_bare();

	for (int i = 0; result == CUDA_SUCCESS && i < 2; i++) {
		struct ck_emu_context *context = ck_emu_object_get(handles[i], CK_EMU_CONTEXT);

		if (!context)
			return CUDA_ERROR_INVALID_CONTEXT;
		result = sync ? ck_emu_context_wait(context) : ck_emu_context_state(context);
		ck_emu_object_put(&context->base);
	}
	if (result != CUDA_SUCCESS)
		return result;
	result = copy_row(box, CK_EMU_SIDE_DEVICE, CK_EMU_SIDE_DEVICE, stream, sync);
	return sync && result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
		      CUcontext srcContext, size_t ByteCount)
{
	return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
			   CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, false);
}
