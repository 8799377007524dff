/*
 * bench/apps/cuda_c.cu - a C program: a matrix product by cuBLAS, a transform there and back by
 * cuFFT, a kernel of its own between them. It prints what common.py makes the others print.
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <cufft.h>
#include <vector>

#define N 512
#define CUDA(call) check((call) == cudaSuccess, #call)
#define CUBLAS(call) check((call) == CUBLAS_STATUS_SUCCESS, #call)
#define CUFFT(call) check((call) == CUFFT_SUCCESS, #call)

static void check(bool good, const char *call)
{
	if (good)
		return;
	fprintf(stderr, "RuntimeError: %s\n", call);
	exit(1);
}

static __global__ void scale(cufftComplex *x, float by, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i].x *= by, x[i].y *= by;
}

struct sums {
	double product, largest, transformed;
};

static sums work(void)
{
	std::vector<float> host(N * N);
	sums s = {0, 0, 0};
	const float one = 1, zero = 0;
	float *a, *b;
	cublasHandle_t blas;
	cufftHandle plan;

	for (int i = 0; i < N * N; i++)
		host[i] = (float)(i % 31 - 15);
	CUDA(cudaMalloc(&a, sizeof(float) * N * N));
	CUDA(cudaMalloc(&b, sizeof(float) * N * N));
	CUDA(cudaMemcpy(a, host.data(), sizeof(float) * N * N, cudaMemcpyHostToDevice));
	CUBLAS(cublasCreate(&blas));
	for (int i = 0; i < 20; i++)
		CUBLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, N, N, N, &one, a, N, a, N, &zero, b, N));
	CUFFT(cufftPlan1d(&plan, N / 2, CUFFT_C2C, N));
	for (int i = 0; i < 20; i++) {
		CUFFT(cufftExecC2C(plan, (cufftComplex *)a, (cufftComplex *)a, CUFFT_FORWARD));
		CUFFT(cufftExecC2C(plan, (cufftComplex *)a, (cufftComplex *)a, CUFFT_INVERSE));
		scale<<<N * N / 2 / 256, 256>>>((cufftComplex *)a, 2.0f / N, N * N / 2);
	}
	CUDA(cudaMemcpy(host.data(), b, sizeof(float) * N * N, cudaMemcpyDeviceToHost));
	for (float v : host)
		s.product += v, s.largest = v > s.largest ? v : s.largest;
	CUDA(cudaMemcpy(host.data(), a, sizeof(float) * N * N, cudaMemcpyDeviceToHost));
	for (float v : host)
		s.transformed += v * v;
	CUFFT(cufftDestroy(plan));
	CUBLAS(cublasDestroy(blas));
	CUDA(cudaFree(a));
	CUDA(cudaFree(b));
	return s;
}

int main(void)
{
	auto now = [] { return std::chrono::steady_clock::now(); };
	auto since = [&](auto then) { return std::chrono::duration<double>(now() - then).count(); };
	auto began = now();
	double first;
	int version = 0;

	work();
	first = since(began);
	began = now();
	sums s = work();
	CUDA(cudaRuntimeGetVersion(&version));
	printf("{\"numbers\": [%.9g, %.9g, %.9g]}\n", s.product, s.largest, s.transformed);
	printf("{\"version\": \"CUDA %d.%d\", \"first_s\": %.4f, \"seconds\": %.4f}\n", version / 1000,
	       version % 1000 / 10, first, since(began));
	return 0;
}
