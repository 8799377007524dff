/*
 * client/memory/stream_value.c - streams that wait for and write values in device memory.
 */
#include "client/link/client.h"
#include "client/memory/state.h"

#define OPERATIONS_MAX 255 /* the driver's limit per batch */

/* Check a value's address: aligned, and reachable by the device. */
static CUresult check_address(CUdeviceptr at, size_t size)
{
	return at % size ? CUDA_ERROR_INVALID_VALUE : ckc_device_reach(at, size);
}

static CUresult enter_stream(CUstream handle, uint64_t *ctx, uint64_t *stream)
{
	CUresult err = ckc_enter(ctx);

	return err ? err : ckc_stream_id(handle, stream);
}

/* A stream may wait for the program's next call. */
static void note_wait(void)
{
	atomic_store(&ckc_client_current()->memory->arena.values, true);
}

/* The flush flag concerns writes by other devices: no device here supports it. */
static CUresult check_wait(unsigned int flags)
{
	note_wait();
	if ((flags & ~CU_STREAM_WAIT_VALUE_FLUSH) > CU_STREAM_WAIT_VALUE_NOR)
		return CUDA_ERROR_INVALID_VALUE;
	return flags & CU_STREAM_WAIT_VALUE_FLUSH ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

/* The only flag belongs to the first version of these calls. */
static CUresult check_write(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

#define VALUE(name, type, check_flags)                                                             \
	CK_EXPORT CUresult name(CUstream stream, CUdeviceptr addr, type value, unsigned int flags) \
	{                                                                                          \
		uint64_t ctx, id;                                                                  \
		CUresult err = enter_stream(stream, &ctx, &id);                                    \
                                                                                                   \
		if (!err)                                                                          \
			err = check_flags(flags);                                                  \
		if (!err)                                                                          \
			err = check_address(addr, sizeof(value));                                  \
		return err ? err : ck_wire_##name(ctx, id, addr, value, flags);                    \
	}

VALUE(cuStreamWaitValue32_v2, cuuint32_t, check_wait)
VALUE(cuStreamWaitValue64_v2, cuuint64_t, check_wait)
VALUE(cuStreamWriteValue32_v2, cuuint32_t, check_write)
VALUE(cuStreamWriteValue64_v2, cuuint64_t, check_write)

static CUresult check_operation(const CUstreamBatchMemOpParams *p)
{
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return check_address(p->waitValue.address, sizeof(cuuint32_t));
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return check_address(p->waitValue.address, sizeof(cuuint64_t));
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return check_address(p->writeValue.address, sizeof(cuuint32_t));
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return check_address(p->writeValue.address, sizeof(cuuint64_t));
	case CU_STREAM_MEM_OP_BARRIER:
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CK_EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
					 CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	uint64_t ctx, id;
	CUresult err = enter_stream(stream, &ctx, &id);

	if (err)
		return err;
	if (count == 0 && !flags)
		return CUDA_SUCCESS;
	if (!paramArray || count > OPERATIONS_MAX || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count && !err; i++)
		err = check_operation(&paramArray[i]);
	if (err)
		return err;
	note_wait();
	return ck_wire_stream_operations(ctx, id, paramArray, count * sizeof(*paramArray), flags);
}
