/*
 * zero_copy.cu - pinned memory of the host that kernels use directly: by its device address, by
 * its own address, small and large pieces, and freed and allocated again.
 */
#include <cstring>

#include "check.h"

__global__ void square(int *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = p[i] * p[i];
}

int main()
{
	const int n = 2000;
	int *mapped, *device, *plain, *registered, wrong = 0;

	CHECK(cudaHostAlloc(&mapped, n * sizeof(int), cudaHostAllocMapped));
	for (int i = 0; i < n; i++)
		mapped[i] = i;
	CHECK(cudaHostGetDevicePointer(&device, mapped, 0));
	square<<<(n + 127) / 128, 128>>>(device, n);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		wrong += mapped[i] != i * i;
	printf("mapped: %d wrong\n", wrong);

	/* with unified addresses a kernel takes the host's pointer, and one into the middle of
	 * it */
	CHECK(cudaMallocHost(&plain, n * sizeof(int)));
	for (int i = 0; i < n; i++)
		plain[i] = i + 1;
	square<<<1, 128>>>(plain + 1000, 100);
	CHECK(cudaDeviceSynchronize());
	printf("pinned: %d %d %d %d\n", plain[999], plain[1000], plain[1099], plain[1100]);
	plain[1000] = 3;
	plain[1001] = 4;
	square<<<1, 128>>>(plain + 1000, 2);
	CHECK(cudaDeviceSynchronize());
	printf("again: %d %d\n", plain[1000], plain[1001]);

	/* copies from and to pinned memory that is mapped */
	CHECK(cudaMalloc(&device, n * sizeof(int)));
	CHECK(cudaMemcpy(device, plain, n * sizeof(int), cudaMemcpyHostToDevice));
	square<<<1, 128>>>(plain, 10);
	CHECK(cudaMemcpy(plain, device, 5 * sizeof(int), cudaMemcpyDeviceToHost));
	CHECK(cudaDeviceSynchronize());
	printf("copied: %d %d %d\n", plain[4], plain[5], plain[9]);

	/* a fill, of pinned memory that no kernel has seen yet */
	int *filled;
	CHECK(cudaMallocHost(&filled, n * sizeof(int)));
	filled[0] = filled[n - 1] = 5;
	CHECK(cudaMemsetAsync(filled + 1, 1, (n - 2) * sizeof(int), 0));
	CHECK(cudaDeviceSynchronize());
	printf("filled: %d %x %x %d\n", filled[0], filled[1], filled[n - 2], filled[n - 1]);
	/* and copies that are told that it is the device's */
	int found[2] = { 0, 0 };
	CHECK(cudaMemcpyAsync(found, filled + 1, sizeof(found), cudaMemcpyDeviceToHost, 0));
	CHECK(cudaDeviceSynchronize());
	printf("read: %x %x\n", found[0], found[1]);
	/* a synchronous fill waits for it, and for what was in the stream before */
	int late = 0;
	for (int i = 0; i < 100; i++) {
		square<<<(n + 127) / 128, 128>>>(device, n);
		CHECK(cudaMemset(filled, i, n * sizeof(int)));
		late += (filled[n - 1] & 255) != i;
	}
	printf("filled at once: %d late\n", late);
	CHECK(cudaFreeHost(filled));

	for (int i = 0; i < 20; i++) {
		int *p;

		CHECK(cudaHostAlloc(&p, 5000 << (i % 12), cudaHostAllocMapped));
		p[1] = i;
		p[1249] = 7;
		square<<<1, 2>>>(p, 2);
		CHECK(cudaDeviceSynchronize());
		wrong += p[1] != i * i || p[1249] != 7;
		CHECK(cudaFreeHost(p));
	}
	printf("allocated anew: %d wrong\n", wrong);
	registered = (int *)malloc(1 << 20);
	memset(registered, 0, 1 << 20);
	CHECK(cudaHostRegister(registered, 1 << 20, 0));
	CHECK(cudaHostUnregister(registered));
	CHECK(cudaFreeHost(plain));
	CHECK(cudaFreeHost(mapped));
	return wrong != 0;
}
