/*
 * tests/gpu/cusolver.cu - cuSOLVER from C: LU and a solve, Cholesky, eigenvalues, singular values.
 */
#include <cusolverDn.h>
#include <vector>

#include "check.h"

#define SOLVE(call) EXPECT((call) == CUSOLVER_STATUS_SUCCESS)
#define N 60

/* Symmetric and positive definite. */
static double *matrix()
{
	std::vector<double> host(N * N);
	double *at;

	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++)
			host[i * N + j] = (i == j ? 2.0 * N : 0) + 1.0 / (1 + i + j);
	CHECK(cudaMalloc(&at, host.size() * sizeof(double)));
	CHECK(cudaMemcpy(at, host.data(), host.size() * sizeof(double), cudaMemcpyHostToDevice));
	return at;
}

static void print_sum(const char *what, const double *at, int n)
{
	std::vector<double> host(n);
	double sum = 0;

	CHECK(cudaMemcpy(host.data(), at, n * sizeof(double), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		sum += host[i] * (i % 7 + 1);
	printf("%s %.9e\n", what, sum);
}

int main()
{
	double *a = matrix(), *b = matrix(), *c = matrix(), *space, *values;
	int *pivots, *info, size, bad = -1;
	cusolverDnHandle_t h;

	CHECK(cudaMalloc(&pivots, N * sizeof(int)));
	CHECK(cudaMalloc(&info, sizeof(int)));
	CHECK(cudaMalloc(&values, N * sizeof(double)));
	SOLVE(cusolverDnCreate(&h));
	SOLVE(cusolverDnDgetrf_bufferSize(h, N, N, a, N, &size));
	CHECK(cudaMalloc(&space, size * sizeof(double)));
	SOLVE(cusolverDnDgetrf(h, N, N, a, N, space, pivots, info));
	SOLVE(cusolverDnDgetrs(h, CUBLAS_OP_N, N, 1, a, N, pivots, b, N, info));
	CHECK(cudaMemcpy(&bad, info, sizeof(int), cudaMemcpyDeviceToHost));
	print_sum("solve", b, N);
	SOLVE(cusolverDnDpotrf_bufferSize(h, CUBLAS_FILL_MODE_LOWER, N, c, N, &size));
	CHECK(cudaMalloc(&space, size * sizeof(double)));
	SOLVE(cusolverDnDpotrf(h, CUBLAS_FILL_MODE_LOWER, N, c, N, space, size, info));
	print_sum("cholesky", c, N);
	c = matrix();
	SOLVE(cusolverDnDsyevd_bufferSize(h, CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER, N, c, N, values,
					  &size));
	CHECK(cudaMalloc(&space, size * sizeof(double)));
	SOLVE(cusolverDnDsyevd(h, CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER, N, c, N, values, space, size,
			       info));
	print_sum("eigenvalues", values, N);
	c = matrix();
	SOLVE(cusolverDnDgesvd_bufferSize(h, N, N, &size));
	CHECK(cudaMalloc(&space, size * sizeof(double)));
	SOLVE(cusolverDnDgesvd(h, 'N', 'N', N, N, c, N, values, NULL, N, NULL, N, space, size, NULL, info));
	print_sum("singular values", values, N);
	EXPECT(bad == 0);
	SOLVE(cusolverDnDestroy(h));
	return 0;
}
