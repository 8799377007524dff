/*
 * tests/test_apps/printf_hello.cu - printf in kernels: it appears on the program's own stdout, in
 * order with what the host prints, at each synchronisation.
 */
#include "check.h"

__global__ void hello(int block_id)
{
	/* One thread after the other, so that the order of the lines is the same everywhere. */
	for (int t = 0; t < blockDim.x; t++) {
		if (t == threadIdx.x)
			printf("hello from block %d, thread %d of %u\n", block_id, t, blockDim.x);
		__syncthreads();
	}
}

struct pair {
	short a;
	double b;
};

__global__ void formats(struct pair p, const char *text)
{
	printf("%5d|%-5d|%05d|%+d|%x|%X|%o\n", 42, 42, 42, 42, 48879, 48879, 8);
	printf("%lld %llu %u %hd\n", -1234567890123ll, 18446744073709551615ull, 4000000000u, p.a);
	printf("%f %.3f %e %g %10.2f|\n", p.b, p.b, 12345.678, 0.0001, -2.5);
	printf("%s and %c, 100%%, %*d|\n", "literal", 'z', 6, 7);
	printf("%s\n", text);
	int left = printf("no arguments\n");
	printf("printf returned %d\n", left);
}

static void CUDART_CB say(cudaStream_t stream, cudaError_t err, void *text)
{
	(void)stream;
	printf("host: %s%s\n", (const char *)text, err ? ", after an error" : "");
}

int main()
{
	struct pair p = { -3, 3.141592653589793 };
	char *text;

	/* What a pipe would hold back must not overtake, or be overtaken by, the GPU's lines. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("host: before\n");
	for (int b = 0; b < 2; b++) {
		hello<<<1, 3>>>(b);
		CHECK(cudaGetLastError());
	}
	CHECK(cudaDeviceSynchronize());
	printf("host: between\n");

	CHECK(cudaMalloc(&text, 32));
	CHECK(cudaMemcpy(text, "text in device memory", 22, cudaMemcpyHostToDevice));
	formats<<<1, 1>>>(p, text);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFree(text));
	printf("host: after\n");

	hello<<<1, 1>>>(2);
	CHECK(cudaGetLastError());
	CHECK(cudaStreamAddCallback(0, say, (void *)"in a callback", 0));
	CHECK(cudaDeviceSynchronize());
	return 0;
}
