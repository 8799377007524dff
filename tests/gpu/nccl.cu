/*
 * tests/gpu/nccl.cu - NCCL inside one process: a communicator over all GPUs (or over one),
 * all-reduce, broadcast, all-gather.
 */
#include <nccl.h>
#include <vector>

#include "check.h"

#define NCCL(call) check_nccl((call), #call, __LINE__)
#define N 1000
#define MOST 8

static void check_nccl(ncclResult_t result, const char *call, int line)
{
	if (result == ncclSuccess)
		return;
	fprintf(stderr, "nccl.cu:%d: %s: %s: %s\n", line, call, ncclGetErrorString(result), ncclGetLastError(NULL));
	exit(1);
}

int main()
{
	ncclComm_t comms[MOST];
	float *in[MOST], *out[MOST], host[N * MOST];
	cudaStream_t s[MOST];
	int n;

	CHECK(cudaGetDeviceCount(&n));
	n = n < MOST ? n : MOST;
	NCCL(ncclCommInitAll(comms, n, NULL));
	for (int i = 0; i < n; i++) {
		CHECK(cudaSetDevice(i));
		CHECK(cudaStreamCreate(&s[i]));
		CHECK(cudaMalloc(&in[i], N * sizeof(float)));
		CHECK(cudaMalloc(&out[i], N * n * sizeof(float)));
		for (int k = 0; k < N; k++)
			host[k] = (float)(k + i);
		CHECK(cudaMemcpy(in[i], host, N * sizeof(float), cudaMemcpyHostToDevice));
	}
	NCCL(ncclGroupStart());
	for (int i = 0; i < n; i++)
		NCCL(ncclAllReduce(in[i], out[i], N, ncclFloat, ncclSum, comms[i], s[i]));
	NCCL(ncclGroupEnd());
	for (int i = 0; i < n; i++)
		CHECK(cudaStreamSynchronize(s[i]));
	CHECK(cudaSetDevice(n - 1));
	CHECK(cudaMemcpy(host, out[n - 1], N * sizeof(float), cudaMemcpyDeviceToHost));
	for (int k = 0; k < N; k++)
		EXPECT(host[k] == (float)(n * k + n * (n - 1) / 2));
	NCCL(ncclGroupStart());
	for (int i = 0; i < n; i++)
		NCCL(ncclBroadcast(in[i], in[i], N, ncclFloat, 0, comms[i], s[i]));
	NCCL(ncclGroupEnd());	/* what is in one group has no order */
	NCCL(ncclGroupStart());
	for (int i = 0; i < n; i++)
		NCCL(ncclAllGather(in[i], out[i], N, ncclFloat, comms[i], s[i]));
	NCCL(ncclGroupEnd());
	for (int i = 0; i < n; i++)
		CHECK(cudaStreamSynchronize(s[i]));
	CHECK(cudaMemcpy(host, out[n - 1], N * n * sizeof(float), cudaMemcpyDeviceToHost));
	for (int k = 0; k < N * n; k++)
		EXPECT(host[k] == (float)(k % N));
	for (int i = 0; i < n; i++)
		NCCL(ncclCommDestroy(comms[i]));
	printf("nccl: %d ranks, all-reduce, broadcast, all-gather right\n", n);
	return 0;
}
