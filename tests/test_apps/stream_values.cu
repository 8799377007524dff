/*
 * tests/test_apps/stream_values.cu - streams that wait for values in memory and write them, and
 * events of a whole context.
 */
#include <atomic>
#include <unistd.h>

#include "entry.h"

static std::atomic<bool> gate;

static void wait_at_gate(void *)
{
	while (!gate)
		usleep(100);
}

static CUdeviceptr values;
static cudaStream_t one, two;

static unsigned int value(int index)
{
	unsigned int v;

	CHECK(cudaMemcpyAsync(&v, (void *)(values + 4 * index), 4, cudaMemcpyDeviceToHost, two));
	CHECK(cudaStreamSynchronize(two));
	return v;
}

/* Stream one writes 11 at index 1 behind what it waits for. */
static void expect_waits()
{
	CHECK_CU(CU(cuStreamWriteValue32)(one, values + 4, 11, 0));
	usleep(20000);
	EXPECT(cudaStreamQuery(one) == cudaErrorNotReady);
	EXPECT(value(1) == 0);
}

static void expect_went_on()
{
	CHECK(cudaStreamSynchronize(one));
	EXPECT(value(1) == 11);
	CHECK_CU(CU(cuStreamWriteValue32)(one, values, 0, 0));
	CHECK_CU(CU(cuStreamWriteValue32)(one, values + 4, 0, 0));
	CHECK(cudaStreamSynchronize(one));
}

static void words()
{
	CHECK_CU(CU(cuStreamWaitValue32)(one, values, 5, CU_STREAM_WAIT_VALUE_EQ));
	expect_waits();
	CHECK_CU(CU(cuStreamWriteValue32)(two, values, 4, 0));
	EXPECT(value(1) == 0);
	CHECK_CU(CU(cuStreamWriteValue32)(two, values, 5, 0));
	expect_went_on();
	CHECK_CU(CU(cuStreamWaitValue32)(one, values, 6, CU_STREAM_WAIT_VALUE_GEQ));
	expect_waits();
	CHECK_CU(CU(cuStreamWriteValue32)(two, values, 9, 0));
	expect_went_on();
	CHECK_CU(CU(cuStreamWaitValue32)(one, values, 6, CU_STREAM_WAIT_VALUE_AND));
	expect_waits();
	CHECK_CU(CU(cuStreamWriteValue32)(two, values, 4, 0));
	expect_went_on();
}

static void long_words()
{
	CHECK_CU(CU(cuStreamWaitValue64)(one, values + 8, 1ull << 40, CU_STREAM_WAIT_VALUE_EQ));
	expect_waits();
	CHECK_CU(CU(cuStreamWriteValue64)(two, values + 8, 1ull << 40, 0));
	expect_went_on();
}

static void batch()
{
	CUstreamBatchMemOpParams params[3] = { };

	params[0].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	params[0].waitValue.address = values;
	params[0].waitValue.value = 3;
	params[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	params[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	params[1].writeValue.address = values + 16;
	params[1].writeValue.value = 77;
	params[2].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	params[2].writeValue.address = values + 20;
	params[2].writeValue.value = 78;
	CHECK_CU(CU(cuStreamBatchMemOp)(one, 3, params, 0));
	expect_waits();
	CHECK_CU(CU(cuStreamWriteValue32)(two, values, 3, 0));
	expect_went_on();
	EXPECT(value(4) == 77 && value(5) == 78);
	if (driver_looks()) {
		EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuStreamBatchMemOp)(one, 256, params, 0));
		EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuStreamBatchMemOp)(one, 1, NULL, 0));
	}
}

static void refusals()
{
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuStreamWaitValue32)(one, values + 2, 0, 0));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuStreamWriteValue64)(one, values + 4, 0, 0));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuStreamWriteValue32)(one, 0, 0, 0));
}

static void context_events()
{
	cudaStream_t other;
	cudaEvent_t all, gated;
	CUcontext ctx;
	CUgreenCtx green = (CUgreenCtx)1;

	CHECK_CU(CU(cuCtxGetCurrent)(&ctx));
	CHECK(cudaEventCreate(&all));
	CHECK(cudaEventCreate(&gated));
	CHECK(cudaLaunchHostFunc(one, wait_at_gate, NULL));
	CHECK(cudaEventRecord(gated, one));
	CHECK_CU(CU(cuCtxRecordEvent)(ctx, all));
	EXPECT(cudaEventQuery(all) == cudaErrorNotReady);
	CHECK_CU(CU(cuCtxWaitEvent)(ctx, gated));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	for (cudaStream_t s : { two, other }) {
		CHECK(cudaMemsetAsync((void *)values, 0, 4, s));
		EXPECT(cudaStreamQuery(s) == cudaErrorNotReady);
	}
	gate = true;
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaEventQuery(all));
	if (driver_looks()) {
		EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, CU(cuCtxRecordEvent)((CUcontext)8, all));
		EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, CU(cuCtxWaitEvent)(ctx, (CUevent)8));
	}
	CHECK_CU(CU(cuStreamGetGreenCtx)(one, &green));
	EXPECT(green == NULL);
	CHECK(cudaStreamDestroy(other));
	printf("a context's events are behind and before all its streams\n");
}

int main()
{
	int can = 0;

	CHECK(cudaMalloc((void **)&values, 64));
	CHECK(cudaMemset((void *)values, 0, 64));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
	CHECK_CU(CU(cuDeviceGetAttribute)(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
					  0));
	if (can) {	/* not every GPU can */
		words();
		long_words();
		batch();
		refusals();
	}
	printf("streams wait for values and write them, where the device can\n");
	context_events();
	return 0;
}
