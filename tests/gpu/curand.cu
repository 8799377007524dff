/*
 * tests/gpu/curand.cu - cuRAND: from the host, and inside a kernel.
 */
#include <curand.h>
#include <curand_kernel.h>
#include <vector>

#include "check.h"

#define RAND(call) EXPECT((call) == CURAND_STATUS_SUCCESS)
#define N 10000

__global__ void fill(float *out, unsigned long long seed)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	curandStatePhilox4_32_10_t state;

	curand_init(seed, i, 0, &state);
	if (i < N)
		out[i] = curand_normal(&state);
}

static void print_sum(const char *what, const float *at)
{
	std::vector<float> host(N);
	double sum = 0;

	CHECK(cudaMemcpy(host.data(), at, N * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		sum += host[i] * (i % 7 + 1);
	printf("%s %a\n", what, sum);
}

int main()
{
	const curandRngType_t types[] = { CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_PHILOX4_32_10,
					  CURAND_RNG_PSEUDO_MRG32K3A, CURAND_RNG_QUASI_SOBOL32 };
	float *at;

	CHECK(cudaMalloc(&at, N * sizeof(float)));
	for (curandRngType_t type : types) {
		curandGenerator_t g;

		RAND(curandCreateGenerator(&g, type));
		if (type != CURAND_RNG_QUASI_SOBOL32)
			RAND(curandSetPseudoRandomGeneratorSeed(g, 1234));
		RAND(curandGenerateUniform(g, at, N));
		print_sum("uniform", at);
		RAND(curandGenerateNormal(g, at, N, 0, 1));
		print_sum("normal", at);
		RAND(curandDestroyGenerator(g));
	}
	fill<<<(N + 255) / 256, 256>>>(at, 99);
	CHECK(cudaGetLastError());
	print_sum("in a kernel", at);
	return 0;
}
