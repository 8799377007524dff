/*
 * client/copy/memset.c - fills: checked here, then one-way.
 */
#include "client/wire/client.h"
#include "client/managed/managed.h"

/* Current context, stream, and the range that a fill of @height rows touches. */
static CUresult enter(CUstream handle, CUdeviceptr dst, size_t pitch, size_t unit, size_t width,
		      size_t height, uint64_t *ctx, uint64_t *stream)
{
	size_t row, size;
	CUresult err = ck_enter(ctx);

	if (!err)
		err = ck_stream_id(handle, stream);
	if (err || width == 0 || height == 0)
		return err;
	if (dst % unit || __builtin_mul_overflow(width, unit, &row) ||
	    (height > 1 && (pitch < row || pitch % unit)) ||
	    __builtin_mul_overflow(height - 1, pitch, &size) ||
	    __builtin_add_overflow(size, row, &size))
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_device_reach(dst, size);
	if (!err)
		ck_managed_device(dst, size, true);
	return err;
}

/*
 * A synchronous fill, enqueued with result @err. By CUDA's reference it is over when it returns
 * where it fills pinned memory of the host; of managed memory the host's touch waits, and memory
 * of the device needs no wait.
 */
static CUresult over(CUdeviceptr dst, CUresult err)
{
	struct ck_allocation a;

	if (err || !ck_allocation_find(dst, &a) || ck_kind_on_device(a.kind))
		return err;
	return ck_stream_settle(NULL);
}

/* The synchronous forms have no stream: legacy, or the thread's own in their _ptds form. */
#define FILL(bits, type, value)                                                                    \
	CK_EXPORT CUresult cuMemsetD##bits##Async(CUdeviceptr dstDevice, type value, size_t N,     \
						  CUstream hStream)                                \
	{                                                                                          \
		uint64_t ctx, stream;                                                              \
		CUresult err = enter(hStream, dstDevice, 0, bits / 8, N, 1, &ctx, &stream);        \
												   \
		if (err || N == 0)                                                                 \
			return err;                                                                \
		return ck_wire_cuMemsetD##bits##Async(ctx, dstDevice, value, N, stream);           \
	}                                                                                          \
	CK_EXPORT CUresult cuMemsetD##bits##_v2(CUdeviceptr dstDevice, type value, size_t N)       \
	{                                                                                          \
		uint64_t ctx, stream;                                                              \
		CUresult err = enter(NULL, dstDevice, 0, bits / 8, N, 1, &ctx, &stream);           \
												   \
		if (err || N == 0)                                                                 \
			return err;                                                                \
		err = stream ? ck_wire_cuMemsetD##bits##Async(ctx, dstDevice, value, N, stream) :  \
			       ck_wire_cuMemsetD##bits##_v2(ctx, dstDevice, value, N);             \
		return over(dstDevice, err);                                                       \
	}                                                                                          \
	CK_EXPORT CUresult cuMemsetD2D##bits##Async(CUdeviceptr dstDevice, size_t dstPitch,        \
						    type value, size_t Width, size_t Height,       \
						    CUstream hStream)                              \
	{                                                                                          \
		uint64_t ctx, stream;                                                              \
		CUresult err = enter(hStream, dstDevice, dstPitch, bits / 8, Width, Height, &ctx,  \
				     &stream);                                                     \
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
		CUresult err = enter(NULL, dstDevice, dstPitch, bits / 8, Width, Height, &ctx,     \
				     &stream);                                                     \
												   \
		if (err || !Width || !Height)                                                      \
			return err;                                                                \
		err = stream ? ck_wire_cuMemsetD2D##bits##Async(ctx, dstDevice, dstPitch, value,   \
								Width, Height, stream) :           \
			       ck_wire_cuMemsetD2D##bits##_v2(ctx, dstDevice, dstPitch, value,     \
							      Width, Height);                      \
		return over(dstDevice, err);                                                       \
	}

FILL(8, unsigned char, uc)
FILL(16, unsigned short, us)
FILL(32, unsigned int, ui)
