/*
 * tests/gpu/cublas.cu - cuBLAS from C: products of every precision, batched, a solve, its pointer
 * modes.
 */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector>

#include "check.h"

#define BLAS(call) EXPECT((call) == CUBLAS_STATUS_SUCCESS)

template <typename T> static T *device_numbers(int n, T (*make)(float))
{
	std::vector<T> host(n);
	T *at;

	for (int i = 0; i < n; i++)
		host[i] = make((float)(i * 37 % 101) / 50 - 1);
	CHECK(cudaMalloc(&at, n * sizeof(T)));
	CHECK(cudaMemcpy(at, host.data(), n * sizeof(T), cudaMemcpyHostToDevice));
	return at;
}

/* A sum that is the same wherever the bytes are. */
static void print_sum(const char *what, const void *at, size_t bytes)
{
	std::vector<unsigned char> host(bytes);
	unsigned long long sum = 1469598103934665603ull;

	CHECK(cudaMemcpy(host.data(), at, bytes, cudaMemcpyDeviceToHost));
	for (unsigned char b : host)
		sum = (sum ^ b) * 1099511628211ull;
	printf("%s %016llx\n", what, sum);
}

template <typename T> static void product(cublasHandle_t h, const char *what, cudaDataType type, T (*make)(float))
{
	T *a = device_numbers(128 * 64, make), *b = device_numbers(64 * 96, make);
	float one = 1, zero = 0, *c;

	CHECK(cudaMalloc(&c, 128 * 96 * sizeof(float)));
	BLAS(cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 128, 96, 64, &one, a, type, 128, b, type, 64, &zero, c,
			  CUDA_R_32F, 128, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	print_sum(what, c, 128 * 96 * sizeof(float));
}

static float as_float(float x) { return x; }
static double as_double(float x) { return x; }
static __half as_half(float x) { return __float2half(x); }
static __nv_bfloat16 as_bf16(float x) { return __float2bfloat16(x); }

int main()
{
	float *x = device_numbers(1000, as_float), *y = device_numbers(1000, as_float), three = 3, dot, *on_device;
	double *d = device_numbers(64 * 64, as_double), *e, one = 1, zero = 0;
	cublasHandle_t h;
	cudaStream_t s;
	int best;

	BLAS(cublasCreate(&h));
	CHECK(cudaStreamCreate(&s));
	BLAS(cublasSetStream(h, s));
	product(h, "float", CUDA_R_32F, as_float);
	product(h, "half", CUDA_R_16F, as_half);
	product(h, "bf16", CUDA_R_16BF, as_bf16);
	CHECK(cudaMalloc(&e, 64 * 64 * sizeof(double)));
	BLAS(cublasDgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, 64, 64, 64, &one, d, 64, d, 64, &zero, e, 64));
	print_sum("double", e, 64 * 64 * sizeof(double));
	BLAS(cublasDgemmStridedBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, d, 8, 64, d, 8, 64, &zero, e, 8,
				       64, 64));
	print_sum("batched", e, 64 * 64 * sizeof(double));
	BLAS(cublasSaxpy(h, 1000, &three, x, 1, y, 1));
	BLAS(cublasSdot(h, 1000, x, 1, y, 1, &dot));
	BLAS(cublasIsamax(h, 1000, y, 1, &best));
	printf("dot %a, largest at %d\n", dot, best);
	CHECK(cudaMalloc(&on_device, sizeof(float)));
	BLAS(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
	BLAS(cublasSnrm2(h, 1000, y, 1, on_device));
	CHECK(cudaStreamSynchronize(s));
	print_sum("norm", on_device, sizeof(float));
	BLAS(cublasDestroy(h));
	return 0;
}
