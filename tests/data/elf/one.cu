/*
 * tests/data/elf/one.cu - one small kernel for the fat binaries.
 */
extern "C" __global__ void add(float *out, const float *in, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] += in[i];
}
