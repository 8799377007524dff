/*
 * tests/gpu/cufft.cu - cuFFT from C: one and two dimensions, real and complex, batches, a stream.
 */
#include <cufft.h>
#include <vector>

#include "check.h"

#define FFT(call) EXPECT((call) == CUFFT_SUCCESS)

static void print_sum(const char *what, const void *at, int n)
{
	std::vector<float> host(n);
	double sum = 0;

	CHECK(cudaMemcpy(host.data(), at, n * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		sum += host[i] * (i % 7 + 1);
	printf("%s %a\n", what, sum);
}

int main()
{
	const int n = 1000, batch = 8;
	std::vector<float> host(2 * n * batch);
	cufftHandle lines, plane, back;
	cudaStream_t s;
	float *at, *out;

	for (size_t i = 0; i < host.size(); i++)
		host[i] = (float)(i % 23) / 11 - 1;
	CHECK(cudaStreamCreate(&s));
	CHECK(cudaMalloc(&at, host.size() * sizeof(float)));
	CHECK(cudaMalloc(&out, 2 * host.size() * sizeof(float)));
	CHECK(cudaMemcpy(at, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
	FFT(cufftPlan1d(&lines, n, CUFFT_C2C, batch));
	FFT(cufftSetStream(lines, s));
	FFT(cufftExecC2C(lines, (cufftComplex *)at, (cufftComplex *)out, CUFFT_FORWARD));
	CHECK(cudaStreamSynchronize(s));
	print_sum("lines", out, 2 * n * batch);
	FFT(cufftPlan2d(&plane, 60, 84, CUFFT_R2C));
	FFT(cufftExecR2C(plane, at, (cufftComplex *)out));
	print_sum("plane", out, 60 * 43 * 2);
	FFT(cufftPlan2d(&back, 60, 84, CUFFT_C2R));
	FFT(cufftExecC2R(back, (cufftComplex *)out, at));
	print_sum("and back", at, 60 * 84);
	FFT(cufftDestroy(lines));
	return 0;
}
