/*
 * tests/gpu/cusparse.cu - cuSPARSE from C: a sparse matrix times a vector and times a dense matrix.
 */
#include <cusparse.h>
#include <vector>

#include "check.h"

#define SPARSE(call) EXPECT((call) == CUSPARSE_STATUS_SUCCESS)
#define N 500

template <typename T> static T *to_device(const std::vector<T> &host)
{
	T *at;

	CHECK(cudaMalloc(&at, host.size() * sizeof(T)));
	CHECK(cudaMemcpy(at, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
	return at;
}

static void print_sum(const char *what, const double *at, int n)
{
	std::vector<double> host(n);
	double sum = 0;

	CHECK(cudaMemcpy(host.data(), at, n * sizeof(double), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		sum += host[i] * (i % 7 + 1);
	printf("%s %a\n", what, sum);
}

int main()
{
	std::vector<int> rows(1, 0), columns;
	std::vector<double> values, dense(N * 16, 0.5);
	cusparseSpMatDescr_t matrix;
	cusparseDnVecDescr_t x, y;
	cusparseDnMatDescr_t b, c;
	cusparseHandle_t h;
	double one = 1, zero = 0, *out;
	size_t size;
	void *space;

	for (int i = 0; i < N; i++) {
		for (int j = i % 3; j < N; j += 7 + i % 5) {
			columns.push_back(j);
			values.push_back((i * j % 11) / 4.0 - 1);
		}
		rows.push_back((int)columns.size());
	}
	CHECK(cudaMalloc(&out, N * 16 * sizeof(double)));
	SPARSE(cusparseCreate(&h));
	SPARSE(cusparseCreateCsr(&matrix, N, N, (int64_t)values.size(), to_device(rows), to_device(columns),
				 to_device(values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
				 CUDA_R_64F));
	SPARSE(cusparseCreateDnVec(&x, N, to_device(dense), CUDA_R_64F));
	SPARSE(cusparseCreateDnVec(&y, N, out, CUDA_R_64F));
	SPARSE(cusparseSpMV_bufferSize(h, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, x, &zero, y, CUDA_R_64F,
				       CUSPARSE_SPMV_ALG_DEFAULT, &size));
	CHECK(cudaMalloc(&space, size + 1));
	SPARSE(cusparseSpMV(h, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, x, &zero, y, CUDA_R_64F,
			    CUSPARSE_SPMV_ALG_DEFAULT, space));
	print_sum("vector", out, N);
	SPARSE(cusparseCreateDnMat(&b, N, 16, N, to_device(dense), CUDA_R_64F, CUSPARSE_ORDER_COL));
	SPARSE(cusparseCreateDnMat(&c, N, 16, N, out, CUDA_R_64F, CUSPARSE_ORDER_COL));
	SPARSE(cusparseSpMM_bufferSize(h, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one,
				       matrix, b, &zero, c, CUDA_R_64F, CUSPARSE_SPMM_CSR_ALG2, &size));
	CHECK(cudaMalloc(&space, size + 1));
	SPARSE(cusparseSpMM(h, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, b,
			    &zero, c, CUDA_R_64F, CUSPARSE_SPMM_CSR_ALG2, space));
	print_sum("matrix", out, N * 16);
	SPARSE(cusparseDestroy(h));
	return 0;
}
