/*
 * tests/data/elf/kernels.cu - what the parsers' test data is compiled from; see make_data.sh.
 */
struct mixed {
	char a;
	double b;
	short c;
};

struct big {
	char bytes[5000];
};

#ifndef BIG
__device__ int counter;
__device__ float table[100] = {1.0f};
__constant__ double factors[3];

/* offsets 0, 8, 12, 16, 40; 0x2A bytes in all */
extern "C" __global__ void mixed_args(float *out, int n, char c, struct mixed m, short s)
{
	out[threadIdx.x] = n + c + m.a + m.b + m.c + s + table[n & 63] + factors[n & 1];
}

extern "C" __global__ void no_args(void)
{
	counter = 1;
}

/* limits and static shared memory: 33 floats */
extern "C" __global__ void __launch_bounds__(192) bounded(float *out, const float *in)
{
	__shared__ float tile[33];

	tile[threadIdx.x % 33] = in[threadIdx.x];
	__syncthreads();
	out[threadIdx.x] = tile[(threadIdx.x + 1) % 33];
}

template <typename T> __global__ void templated(T *out, T value)
{
	*out = value;
}

template __global__ void templated<double>(double *, double);
template __global__ void templated<char>(char *, char);

#else
/* more than the 4 KB that the old parameter record can say */
extern "C" __global__ void big_args(int *out, struct big b, int n)
{
	out[threadIdx.x] = b.bytes[n] + n;
}
#endif
