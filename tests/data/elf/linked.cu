/*
 * tests/data/elf/linked.cu - relocatable code: device functions, static and managed things.
 */
__device__ __noinline__ int helper(int a, int b)
{
	return a / b;
}

__device__ int (*pointer)(int, int) = helper;
__device__ __managed__ int managed = 3;
__device__ int array[7];

extern "C" __global__ void calls(int *out, int a, int b)
{
	out[0] = helper(a, b) + pointer(a, b) + managed + array[a];
}

static __global__ void local_kernel(int *out)
{
	*out = 1;
}

void launch(int *out)
{
	local_kernel<<<1, 1>>>(out);
}
