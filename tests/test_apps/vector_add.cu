/*
 * tests/test_apps/vector_add.cu - c = a + b on the GPU, compared with the host's sum.
 */
#include <vector>
#include "check.h"

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

int main()
{
	const int n = 50000;	/* no multiple of the block: the last block is partly idle */
	const int threads = 256;
	const size_t size = n * sizeof(float);
	std::vector<float> a(n), b(n), c(n);
	float *da, *db, *dc;
	int wrong = 0;

	for (int i = 0; i < n; i++) {
		a[i] = 0.5f * i;
		b[i] = 1000.25f - i;
	}
	CHECK(cudaMalloc(&da, size));
	CHECK(cudaMalloc(&db, size));
	CHECK(cudaMalloc(&dc, size));
	CHECK(cudaMemcpy(da, a.data(), size, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(db, b.data(), size, cudaMemcpyHostToDevice));

	vector_add<<<(n + threads - 1) / threads, threads>>>(da, db, dc, n);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(c.data(), dc, size, cudaMemcpyDeviceToHost));

	for (int i = 0; i < n; i++)
		wrong += c[i] != a[i] + b[i];
	CHECK(cudaFree(da));
	CHECK(cudaFree(db));
	CHECK(cudaFree(dc));
	printf("vector_add: %d elements, %d wrong; c[1] %.2f, c[%d] %.2f\n", n, wrong, c[1],
	       n - 1, c[n - 1]);
	return wrong ? 1 : 0;
}
