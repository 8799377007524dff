/*
 * tests/test_apps/any_runtime_device.cu - the device code of any_runtime.c: a fat binary is made of
 * it, and no host code.
 */
__constant__ float factor;
__device__ int counter;

extern "C" __global__ void scale(float *data, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	data[i] *= factor;
	atomicAdd(&counter, 1);
}

extern "C" __global__ void add(int *data, int value, int n)
{
	extern __shared__ int staged[];
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	staged[threadIdx.x] = value;
	__syncthreads();
	if (i < n)
		data[i] += staged[blockDim.x - 1 - threadIdx.x];
}
