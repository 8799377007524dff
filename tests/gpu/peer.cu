/*
 * tests/gpu/peer.cu - two GPUs: copies between them, and a kernel that reads the other's memory.
 * With one GPU, the copies within it.
 */
#include "check.h"

#define N (1 << 20)

__global__ void twice(int *to, const int *from)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	to[i] = 2 * from[i];
}

static void expect_all(const int *at, int value)
{
	static int host[N];

	CHECK(cudaMemcpy(host, at, sizeof(host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		EXPECT(host[i] == value);
}

int main()
{
	int count, last, can = 0, *a, *b;

	CHECK(cudaGetDeviceCount(&count));
	last = count > 1;
	CHECK(cudaSetDevice(last));
	CHECK(cudaMalloc(&b, N * sizeof(int)));
	CHECK(cudaMemset(b, 0, N * sizeof(int)));
	CHECK(cudaSetDevice(0));
	CHECK(cudaMalloc(&a, N * sizeof(int)));
	CHECK(cudaMemset(a, 1, N * sizeof(int)));
	CHECK(cudaMemcpyPeer(b, last, a, 0, N * sizeof(int)));
	expect_all(b, 0x01010101);
	CHECK(cudaMemset(a, 2, N * sizeof(int)));
	CHECK(cudaMemcpyPeerAsync(b, last, a, 0, N * sizeof(int), 0));
	CHECK(cudaDeviceSynchronize());
	expect_all(b, 0x02020202);
	CHECK(cudaMemcpy(b, a, N * sizeof(int), cudaMemcpyDefault));
	printf("copies: right\n");
	if (last)
		CHECK(cudaDeviceCanAccessPeer(&can, 1, 0));
	if (can) {
		CHECK(cudaSetDevice(1));
		CHECK(cudaDeviceEnablePeerAccess(0, 0));
		twice<<<N / 256, 256>>>(b, a);
		CHECK(cudaDeviceSynchronize());
		expect_all(b, 0x04040404);
		CHECK(cudaDeviceDisablePeerAccess(0));
		printf("peer access: right\n");
	}
	printf("of itself: %s\n", cudaGetErrorName(cudaDeviceEnablePeerAccess(last, 0)));
	return 0;
}
