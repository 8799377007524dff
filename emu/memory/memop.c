/*
 * emu/memory/memop.c - stream memory operations: write a word, or wait for one to have a value.
 *
 * The writes of other streams wake a waiter. Kernels and the CPU may write memory at any time, so
 * it also polls now and then.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/memory/arena.h"
#include "emu/core/locks.h"
#include "emu/core/hooks.h"
#include "util/until.h"
#include "util/wait.h"

#define LOOK_FIRST 20000l  /* ns until a wait looks again: from here, doubling, */
#define LOOK_LAST 1000000l /* up to here */

struct batch {
	struct ck_emu_command command;
	unsigned int count;
	CUstreamBatchMemOpParams operations[];
};

static struct ck_mutex words_lock = CK_MUTEX(CK_RANK_MEMOPS);
static struct ck_cond written;

/* --- running --- */

static uint64_t word_read(uint64_t address, bool wide)
{
	if (wide)
		return __atomic_load_n((const uint64_t *)address, __ATOMIC_ACQUIRE);
	return __atomic_load_n((const uint32_t *)address, __ATOMIC_ACQUIRE);
}

static void word_write(uint64_t address, uint64_t value, bool wide)
{
	ck_lock(&words_lock);
	if (wide)
		__atomic_store_n((uint64_t *)address, value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)address, (uint32_t)value, __ATOMIC_RELEASE);
	ck_cond_broadcast(&written);
	ck_unlock(&words_lock);
}

/* Comparisons of 32 bits are made in 32 bits: "greater or equal" is of the signed difference. */
static bool wait_is_satisfied(uint64_t now, uint64_t value, unsigned int flags, bool wide)
{
	uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;

	value &= mask;
	switch (flags & ~(unsigned int)CU_STREAM_WAIT_VALUE_FLUSH) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return wide ? (int64_t)(now - value) >= 0
			    : (int32_t)((uint32_t)now - (uint32_t)value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return now == value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (now & value) != 0;
	default: /* NOR */
		return (~(now | value) & mask) != 0;
	}
}

static bool wait_is_aborted(const struct ck_emu_context *context)
{
	return atomic_load(&context->cancelled) || ck_emu_exiting() ||
	       atomic_load(&context->fault) != CUDA_SUCCESS;
}

static void word_wait(const CUstreamBatchMemOpParams *operation, bool wide,
		      const struct ck_emu_context *context)
{
	uint64_t address = operation->waitValue.address;
	uint64_t value = wide ? operation->waitValue.value64 : operation->waitValue.value;
	long look = LOOK_FIRST;
	struct timespec until;

	ck_lock(&words_lock);
	while (!wait_is_satisfied(word_read(address, wide), value, operation->waitValue.flags,
				  wide) &&
	       !wait_is_aborted(context)) {
		until = ck_until((uint64_t)look);
		ck_cond_timedwait(&written, &words_lock, &until);
		look = ck_min(2 * look, LOOK_LAST);
	}
	ck_unlock(&words_lock);
}

static void operation_run(const CUstreamBatchMemOpParams *operation,
			  const struct ck_emu_context *context)
{
	switch (operation->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		word_wait(operation, false, context);
		return;
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		word_wait(operation, true, context);
		return;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		word_write(operation->writeValue.address, operation->writeValue.value, false);
		return;
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		word_write(operation->writeValue.address, operation->writeValue.value64, true);
		return;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: /* all memory is this process's */
	case CU_STREAM_MEM_OP_BARRIER:
		atomic_thread_fence(memory_order_seq_cst);
		return;
	}
}

static CUresult batch_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	const struct batch *batch = (struct batch *)command;

	for (unsigned int i = 0; i < batch->count && !wait_is_aborted(context); i++)
		operation_run(&batch->operations[i], context);
	return CUDA_SUCCESS;
}

static void batch_free(struct ck_emu_command *command)
{
	free(command);
}

/* --- queuing --- */

/* A word that the device knows, where words are. */
static CUresult word_check(uint64_t address, size_t size, const struct ck_emu_context *context)
{
	struct ck_emu_memory memory;

	return address % size == 0 && ck_emu_arena_covers(address, size) &&
			       ck_emu_arena_find(address, &memory) &&
			       ck_emu_memory_fillable(&memory, context)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult operation_check(const CUstreamBatchMemOpParams *operation,
				const struct ck_emu_context *context)
{
	unsigned int flags = operation->waitValue.flags;
	size_t size = 4;

	switch (operation->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		size = 8;
		/* fall through */
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		if ((flags & ~(unsigned int)CU_STREAM_WAIT_VALUE_FLUSH) > CU_STREAM_WAIT_VALUE_NOR)
			return CUDA_ERROR_INVALID_VALUE;
		if (flags & CU_STREAM_WAIT_VALUE_FLUSH)
			return CUDA_ERROR_NOT_SUPPORTED;
		return word_check(operation->waitValue.address, size, context);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		size = 8;
		/* fall through */
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		if (operation->writeValue.flags)
			return CUDA_ERROR_INVALID_VALUE;
		return word_check(operation->writeValue.address, size, context);
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return operation->flushRemoteWrites.flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_BARRIER:
		return operation->memoryBarrier.flags > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Queue operations that have been checked. */
static CUresult batch_queue(struct ck_emu_stream *stream,
			    const CUstreamBatchMemOpParams *operations, unsigned int count)
{
	struct batch *batch = calloc(1, sizeof(*batch) + count * sizeof(*operations));

	if (!batch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	batch->command.run = batch_run;
	batch->command.free = batch_free;
	batch->count = count;
	memcpy(batch->operations, operations, count * sizeof(*operations));
	return ck_emu_stream_submit(stream, &batch->command, NULL, NULL);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
			       CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	const CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
					.memOp = {.count = count, .paramArray = paramArray}};
	struct ck_emu_context *context;
	struct ck_emu_stream *found;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!count && !flags)
		return CUDA_SUCCESS;
	if (flags || count > CK_EMU_MEMORY_OPERATIONS || !paramArray)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_stream_get(stream, context, &found);
	if (result != CUDA_SUCCESS)
		return result;
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < count; i++)
		result = operation_check(&paramArray[i], found->base.context);
	if (result != CUDA_SUCCESS)
		goto put_stream;
	if (ck_emu_capturing(found))
		result = ck_emu_hooks->capture_node(found, &node, NULL, 0);
	else
		result = batch_queue(found, paramArray, count);
put_stream:
	ck_emu_object_put(&found->base);
	return result;
}

static CUresult enqueue_wait_value(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr addr,
				   cuuint64_t value, unsigned int flags)
{
	CUstreamBatchMemOpParams operation = {0};

	operation.waitValue.operation = type;
	operation.waitValue.address = addr;
	operation.waitValue.value64 = value;
	operation.waitValue.flags = flags;
	return cuStreamBatchMemOp_v2(stream, 1, &operation, 0);
}

static CUresult enqueue_write_value(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr addr,
				    cuuint64_t value, unsigned int flags)
{
	CUstreamBatchMemOpParams operation = {0};

	operation.writeValue.operation = type;
	operation.writeValue.address = addr;
	operation.writeValue.value64 = value;
	operation.writeValue.flags = flags;
	return cuStreamBatchMemOp_v2(stream, 1, &operation, 0);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				unsigned int flags)
{
	return enqueue_wait_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				unsigned int flags)
{
	return enqueue_wait_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				 unsigned int flags)
{
	return enqueue_write_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				 unsigned int flags)
{
	return enqueue_write_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

/* The older names, of drivers that had these calls as an option. */

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
			    CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	return cuStreamBatchMemOp_v2(stream, count, paramArray, flags);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
			     unsigned int flags)
{
	return cuStreamWaitValue32_v2(stream, addr, value, flags);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
			     unsigned int flags)
{
	return cuStreamWaitValue64_v2(stream, addr, value, flags);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
			      unsigned int flags)
{
	return cuStreamWriteValue32_v2(stream, addr, value, flags);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
			      unsigned int flags)
{
	return cuStreamWriteValue64_v2(stream, addr, value, flags);
}
