/*
 * client/copy/memset.c - fills: checked here, then sent one-way.
 */
#include "client/link/client.h"
#include "client/managed/managed.h"
#include "client/objects/capture.h"
#include "util/util.h"

/*
 * Get the current context, the stream, and the range that a fill of @height rows changes. In a
 * capture the driver takes any address: cuDNN captures fills of memory that does not exist, and
 * reads their nodes.
 */
static CUresult enter_fill(CUstream handle, CUdeviceptr dst, size_t pitch, size_t unit,
			   size_t width, size_t height, uint64_t *ctx, uint64_t *stream)
{
	struct ckc_stream *s;
	size_t row, size;
	CUresult err = ckc_enter(ctx);

	if (!err)
		err = ckc_stream_work(handle, &s, stream);
	if (err || width == 0 || height == 0)
		return err;
	if (dst % unit || ck_mul_overflow(width, unit, &row) ||
	    (height > 1 && (pitch < row || pitch % unit)) ||
	    ck_mul_overflow(height - 1, pitch, &size) || ck_add_overflow(size, row, &size))
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_capturing(s) ? CUDA_SUCCESS : ckc_device_reach(dst, size);
	if (!err)
		ckc_managed_device(dst, size, true);
	return err;
}

/*
 * Finish a synchronous fill with result @err. By CUDA's reference, a fill of pinned host memory is
 * complete on return. Device memory needs no wait here, nor does managed memory that is not
 * attached, since an access by the host waits.
 */
static CUresult finish_sync_fill(CUdeviceptr dst, CUresult err)
{
	struct ckc_allocation a;

	if (err || !ckc_allocation_find(dst, &a) ||
	    (ckc_kind_on_device(a.kind) && !ckc_managed_is_attached(dst)))
		return err;
	return ckc_stream_synchronize(NULL);
}

/* The synchronous forms use the legacy stream; their _ptds forms use the thread's own. */
#define FILL(bits, type, value)                                                                    \
	CK_EXPORT CUresult cuMemsetD##bits##Async(CUdeviceptr dstDevice, type value, size_t N,     \
						  CUstream hStream)                                \
	{                                                                                          \
		uint64_t ctx, stream;                                                              \
		CUresult err = enter_fill(hStream, dstDevice, 0, bits / 8, N, 1, &ctx, &stream);   \
                                                                                                   \
		if (err || N == 0)                                                                 \
			return err;                                                                \
		return ck_wire_cuMemsetD##bits##Async(ctx, dstDevice, value, N, stream);           \
	}                                                                                          \
	CK_EXPORT CUresult cuMemsetD##bits##_v2(CUdeviceptr dstDevice, type value, size_t N)       \
	{                                                                                          \
		uint64_t ctx, stream;                                                              \
		CUresult err = enter_fill(NULL, dstDevice, 0, bits / 8, N, 1, &ctx, &stream);      \
                                                                                                   \
		if (err || N == 0)                                                                 \
			return err;                                                                \
		err = stream ? ck_wire_cuMemsetD##bits##Async(ctx, dstDevice, value, N, stream)    \
			     : ck_wire_cuMemsetD##bits##_v2(ctx, dstDevice, value, N);             \
		return finish_sync_fill(dstDevice, err);                                           \
	}                                                                                          \
	CK_EXPORT CUresult cuMemsetD2D##bits##Async(CUdeviceptr dstDevice, size_t dstPitch,        \
						    type value, size_t Width, size_t Height,       \
						    CUstream hStream)                              \
	{                                                                                          \
		uint64_t ctx, stream;                                                              \
		CUresult err = enter_fill(hStream, dstDevice, dstPitch, bits / 8, Width, Height,   \
					  &ctx, &stream);                                          \
                                                                                                   \
		if (err || !Width || !Height)                                                      \
			return err;                                                                \
		return ck_wire_cuMemsetD2D##bits##Async(ctx, dstDevice, dstPitch, value, Width,    \
							Height, stream);                           \
	}                                                                                          \
	CK_EXPORT CUresult cuMemsetD2D##bits##_v2(CUdeviceptr dstDevice, size_t dstPitch,          \
						  type value, size_t Width, size_t Height)         \
	{                                                                                          \
		uint64_t ctx, stream;                                                              \
		CUresult err = enter_fill(NULL, dstDevice, dstPitch, bits / 8, Width, Height,      \
					  &ctx, &stream);                                          \
                                                                                                   \
		if (err || !Width || !Height)                                                      \
			return err;                                                                \
		err = stream ? ck_wire_cuMemsetD2D##bits##Async(ctx, dstDevice, dstPitch, value,   \
								Width, Height, stream)             \
			     : ck_wire_cuMemsetD2D##bits##_v2(ctx, dstDevice, dstPitch, value,     \
							      Width, Height);                      \
		return finish_sync_fill(dstDevice, err);                                           \
	}

FILL(8, unsigned char, uc)
FILL(16, unsigned short, us)
FILL(32, unsigned int, ui)
