/*
 * tests/test_apps/assertion.cu - a kernel's assertion fails: one line on stderr says which and
 * where, the context is lost.
 */
#include <cassert>

#include "check.h"

__global__ void check_range(int limit)
{
	assert((int)threadIdx.x < limit);
}

int main()
{
	check_range<<<2, 4>>>(4);
	CHECK(cudaDeviceSynchronize());
	printf("before: fine\n");
	fflush(stdout);
	check_range<<<1, 4>>>(3);
	printf("then: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
	printf("and for ever: %s\n", cudaGetErrorName(cudaFree(0)));
	return 0;
}
