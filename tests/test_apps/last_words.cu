/*
 * tests/test_apps/last_words.cu - work that a context has not completed when it is destroyed, or
 * its device reset: what kernels print, copies into registered memory, and functions of the host
 * are not lost. CUDA documents the first; the driver waits for all work.
 */
#include <unistd.h>

#include "check.h"
#include "entry.h"

#define ROUNDS 20000

__global__ void say(int *to, const char *what)
{
	volatile int n = 0;

	while (n < ROUNDS) /* so that the end comes before it */
		n = n + 1;
	*to = n;
	printf("%s\n", what);
}

static volatile int ran;

static void function(void *unused)
{
	(void)unused;
	usleep(50000);
	ran = ran + 1;
}

static int *host;

/* Work in the current context, which nothing waits for. */
static void work(void)
{
	static const char text[] = "last words";
	cudaStream_t stream;
	char *what;
	int *number;

	CHECK(cudaHostRegister(host, 4096, 0));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&number, sizeof(*number)));
	CHECK(cudaMalloc(&what, sizeof(text)));
	CHECK(cudaMemcpy(what, text, sizeof(text), cudaMemcpyHostToDevice));
	host[0] = ran = 0;
	say<<<1, 1, 0, stream>>>(number, what);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpyAsync(host, number, sizeof(*number), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaLaunchHostFunc(stream, function, NULL));
}

static void tell(const char *end)
{
	printf("%s: %d, %d function\n", end, host[0], ran);
}

int main()
{
	CUcontext context;

	setvbuf(stdout, NULL, _IOLBF, 0);
	host = (int *)aligned_alloc(4096, 4096);
	CHECK(cudaFree(0));
	work();
	CHECK(cudaDeviceReset());
	tell("reset");

	CHECK(cudaFree(0));
	CHECK_CU(CU(cuCtxCreate)(&context, NULL, 0, 0));
	work();
	CHECK_CU(CU(cuCtxDestroy)(context));
	tell("destroyed");
	return 0;
}
