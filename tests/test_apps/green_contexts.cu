/*
 * tests/test_apps/green_contexts.cu - the multiprocessors of a device in two parts, and a green
 * context with one of them. The text is the same whatever their number.
 */
#include <cstring>

#include "entry.h"

__global__ void add(int *data, int what)
{
	data[threadIdx.x] += what;
}

static CUdevResource whole, part, rest;

static void split()
{
	CUdevResource again;
	unsigned int groups = 0, total;

	CHECK_CU(CU(cuDeviceGetDevResource)(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
	total = whole.sm.smCount;
	EXPECT(total > 0);
	CHECK_CU(CU(cuDevSmResourceSplitByCount)(NULL, &groups, &whole, NULL, 0, total / 2));
	EXPECT(groups >= 1 && groups <= 2);
	groups = 1;
	CHECK_CU(CU(cuDevSmResourceSplitByCount)(&part, &groups, &whole, &rest, 0, total / 2));
	EXPECT(groups == 1 && part.sm.smCount >= total / 2);
	EXPECT(part.sm.smCount + (rest.type ? rest.sm.smCount : 0) == total);
	printf("two parts are the whole\n");
	EXPECT(CU(cuDevSmResourceSplitByCount)(&again, &groups, &whole, NULL, 0, total + 1) !=
	       CUDA_SUCCESS);
	EXPECT(CU(cuDeviceGetDevResource)(0, &again, CU_DEV_RESOURCE_TYPE_INVALID) != CUDA_SUCCESS);
	memset(&again, 0, sizeof(again));
	EXPECT_CU(CUDA_ERROR_INVALID_RESOURCE_TYPE,
		  CU(cuDevSmResourceSplitByCount)(NULL, &groups, &again, NULL, 0, 1));
	EXPECT_CU(CUDA_ERROR_INVALID_DEVICE,
		  CU(cuDeviceGetDevResource)(1000, &again, CU_DEV_RESOURCE_TYPE_SM));
	printf("wrong questions are refused\n");
}

static void work(CUgreenCtx green)
{
	cudaEvent_t event;
	CUstream stream;
	CUgreenCtx of;
	int *data, back[32];

	EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
		  CU(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_DEFAULT, 0));
	CHECK_CU(CU(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	CHECK_CU(CU(cuStreamGetGreenCtx)(stream, &of));
	EXPECT(of == green);
	CHECK(cudaMalloc(&data, sizeof(back)));
	CHECK(cudaEventCreate(&event));
	CHECK(cudaMemsetAsync(data, 0, sizeof(back), stream));
	add<<<1, 32, 0, stream>>>(data, 5);
	CHECK(cudaGetLastError());
	CHECK_CU(CU(cuGreenCtxRecordEvent)(green, event));
	CHECK(cudaEventSynchronize(event));
	CHECK(cudaMemcpy(back, data, sizeof(back), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		EXPECT(back[i] == 5);
	CHECK_CU(CU(cuGreenCtxWaitEvent)(green, event));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaEventDestroy(event));
	CHECK(cudaFree(data));
	printf("a stream of a green context computes\n");
}

static void current(CUgreenCtx green)
{
	CUcontext before, context;
	CUdevResource has;
	CUdeviceptr p;
	CUdevice device;
	unsigned int word = 0;

	CHECK_CU(CU(cuCtxGetCurrent)(&before));
	CHECK_CU(CU(cuCtxFromGreenCtx)(&context, green));
	CHECK_CU(CU(cuCtxSetCurrent)(context));
	CHECK_CU(CU(cuCtxGetDevice)(&device));
	EXPECT(device == 0);
	CHECK_CU(CU(cuCtxGetDevResource)(context, &has, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(has.sm.smCount == part.sm.smCount);
	CHECK_CU(CU(cuMemAlloc)(&p, 4));
	CHECK_CU(CU(cuMemsetD32)(p, 7, 1));
	CHECK_CU(CU(cuCtxSynchronize)());
	EXPECT(CU(cuCtxDestroy)(context) != CUDA_SUCCESS);
	CHECK_CU(CU(cuCtxSetCurrent)(before));
	CHECK_CU(CU(cuMemcpyDtoH)(&word, p, 4));
	EXPECT(word == 7);
	CHECK_CU(CU(cuMemFree)(p));
	printf("a green context can be current\n");
}

int main()
{
	CUdevResource has;
	CUdevResourceDesc desc;
	CUgreenCtx green, other;
	unsigned long long id = 0, other_id = 0;

	CHECK(cudaFree(0));
	split();
	if (driver_looks())
		EXPECT(CU(cuDevResourceGenerateDesc)(&desc, &part, 0) != CUDA_SUCCESS);
	CHECK_CU(CU(cuDevResourceGenerateDesc)(&desc, &part, 1));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuGreenCtxCreate)(&green, desc, 0, 0));
	CHECK_CU(CU(cuGreenCtxCreate)(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	CHECK_CU(CU(cuGreenCtxGetDevResource)(green, &has, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(has.sm.smCount == part.sm.smCount);
	CHECK_CU(CU(cuGreenCtxCreate)(&other, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	CHECK_CU(CU(cuGreenCtxGetId)(green, &id));
	CHECK_CU(CU(cuGreenCtxGetId)(other, &other_id));
	EXPECT(id != other_id);
	CHECK_CU(CU(cuGreenCtxDestroy)(other));
	work(green);
	current(green);
	CHECK_CU(CU(cuGreenCtxDestroy)(green));
	CHECK(cudaDeviceSynchronize());
	return 0;
}
