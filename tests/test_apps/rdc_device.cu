/*
 * tests/test_apps/rdc_device.cu - the device code that rdc.cu calls from another file.
 */
__device__ int longest;

__device__ int collatz_steps(unsigned long long n)
{
	int steps = 0;

	for (; n != 1; steps++)
		n = n % 2 ? 3 * n + 1 : n / 2;
	return steps;
}

static __device__ int add(int a, int b)
{
	return a + b;
}

static __device__ int subtract(int a, int b)
{
	return a - b;
}

typedef int (*operation)(int, int);
__device__ operation operations[2] = { add, subtract };
