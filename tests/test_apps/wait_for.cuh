/*
 * tests/test_apps/wait_for.cuh - a kernel that ends soon only if what another stream does overlaps.
 */
#ifndef WAIT_FOR_CUH
#define WAIT_FOR_CUH

/*
 * *@seen is 1 when *@flag was seen set. It gives up after 5 s, which are enough for an emulated GPU
 * on a busy machine, so that a failure is reported, and is not a hang.
 */
__global__ void wait_for(volatile int *flag, int *seen)
{
	unsigned long long began, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
	do {
		if (*flag) {
			*seen = 1;
			return;
		}
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	} while (now - began < 5000000000ull);
}

#endif
