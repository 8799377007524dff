/*
 * function_pages.cu - a host function reads and writes managed memory that a kernel has written,
 * while copies wait behind the function in its stream: a few, or many. It starts before them.
 */
#include <cstring>
#include <unistd.h>

#include "check.h"

#define SIZE (4 << 20)
#define MOST_MS 3000 /* some systems queue fewer copies */

static int *shared;
static char *bytes, *device;
static volatile int queued;

static void change(void *unused)
{
	(void)unused;
	for (int i = 0; i < MOST_MS && !queued; i++)
		usleep(1000);
	shared[1] = shared[0] + 1;
}

__global__ void set(int *p, int value)
{
	p[0] = value;
}

__global__ void add(int *p)
{
	p[2] = p[0] + p[1];
}

static bool run(cudaStream_t stream, int copies)
{
	char last = 0;

	queued = 0;
	memset(bytes, copies, SIZE);
	set<<<1, 1, 0, stream>>>(shared, copies);
	CHECK(cudaLaunchHostFunc(stream, change, NULL));
	for (int i = 0; i < copies; i++)
		CHECK(cudaMemcpyAsync(device, bytes, SIZE, cudaMemcpyHostToDevice, stream));
	queued = 1;
	add<<<1, 1, 0, stream>>>(shared);
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(&last, device + SIZE - 1, 1, cudaMemcpyDeviceToHost));
	printf("%d %d %d\n", shared[1], shared[2], last);
	return shared[2] == 2 * copies + 1 && last == copies;
}

int main()
{
	cudaStream_t stream;
	bool few, many;

	bytes = (char *)malloc(SIZE);
	CHECK(cudaMallocManaged(&shared, 4096));
	CHECK(cudaMalloc(&device, SIZE));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	few = run(stream, 1);
	many = run(stream, 8);
	return !few || !many;
}
