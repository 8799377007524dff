/*
 * tests/data/elf/prints.cu - a kernel that prints, by printf (with PRINT) or by a failed assertion.
 */
#include <cassert>
#include <cstdio>

#ifdef PRINT
extern "C" __global__ void talks(int x)
{
	printf("%d\n", x);
}
#else
extern "C" __global__ void asserts(int x)
{
	assert(x == 3);
}
#endif
