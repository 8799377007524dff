/*
 * tests/test_apps/matmul.cu - C = A * B in tiles through shared memory, sizes that fill no tile.
 * The elements are small whole numbers, so that float sums are exact in any order.
 */
#include <vector>
#include "check.h"

#define TILE 16

__global__ void matmul(const float *a, const float *b, float *c, int rows, int inner, int cols)
{
	__shared__ float ta[TILE][TILE];
	__shared__ float tb[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y;
	int col = blockIdx.x * TILE + threadIdx.x;
	float sum = 0.0f;

	for (int t = 0; t < inner; t += TILE) {
		int ac = t + threadIdx.x;
		int br = t + threadIdx.y;

		ta[threadIdx.y][threadIdx.x] = row < rows && ac < inner ? a[row * inner + ac] : 0;
		tb[threadIdx.y][threadIdx.x] = br < inner && col < cols ? b[br * cols + col] : 0;
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
		__syncthreads();
	}
	if (row < rows && col < cols)
		c[row * cols + col] = sum;
}

int main()
{
	const int rows = 70, inner = 50, cols = 90;
	std::vector<float> a(rows * inner), b(inner * cols), c(rows * cols);
	float *da, *db, *dc;
	int wrong = 0;
	double trace = 0;

	for (int i = 0; i < rows * inner; i++)
		a[i] = i * 7 % 11 - 5;
	for (int i = 0; i < inner * cols; i++)
		b[i] = i * 5 % 13 - 6;
	CHECK(cudaMalloc(&da, a.size() * sizeof(float)));
	CHECK(cudaMalloc(&db, b.size() * sizeof(float)));
	CHECK(cudaMalloc(&dc, c.size() * sizeof(float)));
	CHECK(cudaMemcpy(da, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(db, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

	dim3 block(TILE, TILE);
	dim3 grid((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
	matmul<<<grid, block>>>(da, db, dc, rows, inner, cols);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));

	for (int i = 0; i < rows; i++) {
		for (int j = 0; j < cols; j++) {
			float sum = 0;

			for (int k = 0; k < inner; k++)
				sum += a[i * inner + k] * b[k * cols + j];
			wrong += sum != c[i * cols + j];
			if (i == j)
				trace += c[i * cols + j];
		}
	}
	CHECK(cudaFree(da));
	CHECK(cudaFree(db));
	CHECK(cudaFree(dc));
	printf("matmul: %dx%d times %dx%d, %d wrong, trace %.0f\n", rows, inner, inner, cols,
	       wrong, trace);
	return wrong ? 1 : 0;
}
