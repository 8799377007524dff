/*
 * tests/gpu/nvrtc.cu - NVRTC from C: a program from a string, its log when it is wrong, a lowered
 * name, launched by the runtime's own library calls.
 */
#include <cstring>
#include <nvrtc.h>
#include <string>
#include <vector>

#include "check.h"

#define RTC(call) EXPECT((call) == NVRTC_SUCCESS)
#define N 1000

static const char code[] = "template <typename T> __global__ void scale(T *x, T by, int n)"
			   "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= by; }";

int main()
{
	float *at, by = 3, host[N];
	std::string arch = "-arch=sm_";
	std::vector<char> cubin;
	cudaLibrary_t library;
	cudaKernel_t kernel;
	nvrtcProgram program;
	cudaDeviceProp p;
	const char *name, *options[1];
	int n = N;
	size_t size;
	void *arguments[] = { &at, &by, &n };

	CHECK(cudaGetDeviceProperties(&p, 0));
	arch += std::to_string(p.major * 10 + p.minor);
	options[0] = arch.c_str();
	RTC(nvrtcCreateProgram(&program, "__global__ void wrong() { x }", "wrong.cu", 0, NULL, NULL));
	EXPECT(nvrtcCompileProgram(program, 1, options) == NVRTC_ERROR_COMPILATION);
	RTC(nvrtcGetProgramLogSize(program, &size));
	EXPECT(size > 10);
	RTC(nvrtcDestroyProgram(&program));
	RTC(nvrtcCreateProgram(&program, code, "scale.cu", 0, NULL, NULL));
	RTC(nvrtcAddNameExpression(program, "scale<float>"));
	RTC(nvrtcCompileProgram(program, 1, options));
	RTC(nvrtcGetLoweredName(program, "scale<float>", &name));
	RTC(nvrtcGetCUBINSize(program, &size));
	cubin.resize(size);
	RTC(nvrtcGetCUBIN(program, cubin.data()));
	CHECK(cudaLibraryLoadData(&library, cubin.data(), NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cudaLibraryGetKernel(&kernel, library, name));
	for (int i = 0; i < N; i++)
		host[i] = (float)i;
	CHECK(cudaMalloc(&at, sizeof(host)));
	CHECK(cudaMemcpy(at, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cudaLaunchKernel((const void *)kernel, dim3(8), dim3(128), arguments, 0, 0));
	CHECK(cudaMemcpy(host, at, sizeof(host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		EXPECT(host[i] == 3.0f * (float)i);
	CHECK(cudaLibraryUnload(library));
	printf("nvrtc: %s is right\n", name);
	return 0;
}
