/*
 * tests/test_apps/cuda_memset_async.cu - the smallest program that once crashed under remoting:
 * allocate, clear asynchronously, wait, free. Reads the memory back to see that it was cleared.
 */
#include <cstring>
#include <iostream>
#include <cuda_runtime.h>

static bool ok(cudaError_t err, const char *what)
{
	if (err != cudaSuccess)
		std::cerr << what << ": " << cudaGetErrorName(err) << std::endl;
	return err == cudaSuccess;
}

int main()
{
	const int count = 1024;
	int size = count * sizeof(int);
	int *devicePtr;
	int host[count];

	if (!ok(cudaMalloc((void **)&devicePtr, size), "cudaMalloc"))
		return 1;
	if (!ok(cudaMemsetAsync(devicePtr, 0, size), "cudaMemsetAsync"))
		return 1;
	if (!ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize"))
		return 1;

	memset(host, 0xff, sizeof(host));
	if (!ok(cudaMemcpy(host, devicePtr, size, cudaMemcpyDeviceToHost), "cudaMemcpy"))
		return 1;
	for (int i = 0; i < count; i++) {
		if (host[i] != 0) {
			std::cerr << "word " << i << " is not zero" << std::endl;
			return 1;
		}
	}
	if (!ok(cudaFree(devicePtr), "cudaFree"))
		return 1;
	std::cout << "cuda_memset_async: " << count << " words are zero" << std::endl;
	return 0;
}
