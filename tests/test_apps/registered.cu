/*
 * registered.cu - memory that the program has had before it registers it: it keeps address and
 * content, also while other threads write beside it; kernels use it where the device reaches it;
 * afterwards it is the program's own again; a child has its own copy, of the moment of the fork.
 */
#include <atomic>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "check.h"

#define N 1000000

__global__ void twice(int *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] *= 2;
}

__global__ void wait_and_answer(volatile int *flag)
{
	while (*flag == 0)
		;
	flag[1] = flag[0] + 1;
}

static bool late;

static int wrong(const int *p, int n, int step)
{
	int count = 0;

	for (int i = 0; i < n; i++)
		count += p[i] != i * step;
	return count;
}

/* Registered, used by a kernel and by copies, and given back: everything stays as it was. */
static int use(int *p, int n)
{
	int *device, *copy, bad = 0;

	for (int i = 0; i < n; i++)
		p[i] = i;
	CHECK(cudaHostRegister(p, n * sizeof(int), cudaHostRegisterMapped));
	bad += wrong(p, n, 1);
	CHECK(cudaHostGetDevicePointer(&device, p, 0));
	twice<<<(n + 255) / 256, 256>>>(device, n);
	CHECK(cudaDeviceSynchronize());
	bad += wrong(p, n, 2);
	CHECK(cudaMalloc(&copy, n * sizeof(int)));
	CHECK(cudaMemcpyAsync(copy, p, n * sizeof(int), cudaMemcpyHostToDevice, 0));
	twice<<<(n + 255) / 256, 256>>>(copy, n);
	CHECK(cudaMemcpyAsync(p, copy, n * sizeof(int), cudaMemcpyDeviceToHost, 0));
	CHECK(cudaDeviceSynchronize());
	bad += wrong(p, n, 4);
	CHECK(cudaFree(copy));
	CHECK(cudaHostUnregister(p));
	bad += wrong(p, n, 4);
	return bad;
}

/* Counters right behind the memory, in its last page, that other threads never stop to count. */
static int beside(void)
{
	char *block = (char *)malloc(3 << 20), *p = block + 100;
	std::atomic<bool> stop(false);
	std::vector<std::thread> threads;
	long counted[2] = { 0, 0 }, bad = 0;

	memset(block, 0, 3 << 20);
	for (int t = 0; t < 2; t++)
		threads.emplace_back([&, t] {
			volatile long *at = (volatile long *)(t ? block + 8 : block + (3 << 20) - 8);

			while (!stop) {
				++*at;
				counted[t]++;
			}
		});
	for (int i = 0; i < 20; i++) {
		CHECK(cudaHostRegister(p, (3 << 20) - 200, 0));
		CHECK(cudaHostUnregister(p));
	}
	stop = true;
	for (std::thread &t : threads)
		t.join();
	bad += *(long *)(block + 8) != counted[1];
	bad += *(long *)(block + (3 << 20) - 8) != counted[0];
	free(block);
	return bad;
}

/* What a child writes stays its own, and it has what was there when it began. */
static int in_child(int n)
{
	int *p = (int *)malloc(n * sizeof(int)), status = -1, bad = 0;
	pid_t child;

	for (int i = 0; i < n; i++)
		p[i] = i;
	CHECK(cudaHostRegister(p, n * sizeof(int), 0));
	child = fork();
	if (child == 0) {
		bad = wrong(p, n, 1);
		for (int i = 0; i < n; i++)
			p[i] = -1;
		_exit(bad != 0);
	}
	waitpid(child, &status, 0);
	bad += status != 0;
	bad += wrong(p, n, 1);
	CHECK(cudaHostUnregister(p));
	bad += wrong(p, n, 1);
	free(p);
	return bad;
}

/* Runs in a child before the handlers that were registered later. */
static void start_late()
{
	if (late)
		usleep(100000);
}

/* A child that starts late does not see what the parent has written since the fork: not beside
 * registered memory, nor in it if it is small. */
static int in_late_child(int n)
{
	int *p = (int *)malloc(n * sizeof(int)), status = -1, bad = 0, inner = n <= N ? n - 2 : 0;
	pid_t child;

	for (int i = 0; i < n; i++)
		p[i] = i;
	CHECK(cudaHostRegister(p + 1, (n - 2) * sizeof(int), 0));
	late = true;
	child = fork();
	late = false;
	if (child == 0) {
		for (int i = 1; i <= inner; i++)
			bad += p[i] != i;
		_exit(bad != 0 || p[0] != 0 || p[n - 1] != n - 1);
	}
	for (int i = 0; i < n; i++)
		p[i] = 2 * i + 1;
	waitpid(child, &status, 0);
	for (int i = 0; i < n; i++)
		bad += p[i] != 2 * i + 1;
	CHECK(cudaHostUnregister(p + 1));
	free(p);
	return bad + (status != 0);
}

int main()
{
	static int fixed[3000];
	int *heap = (int *)malloc(N * sizeof(int)), *small = (int *)malloc(100 * sizeof(int));
	int *pages = (int *)mmap(NULL, N * sizeof(int), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pthread_atfork(NULL, NULL, start_late);
	printf("malloc: %d wrong\n", use(heap, N));
	printf("a part of it: %d wrong\n", use(heap + 1000, N / 2));
	printf("a small piece: %d wrong\n", use(small, 100));
	printf("pages: %d wrong\n", use(pages, N));
	printf("a static array: %d wrong\n", use(fixed, 3000));
	printf("beside writers: %d wrong\n", beside());
	/* the host speaks to a kernel that runs */
	fixed[0] = fixed[1] = 0;
	CHECK(cudaHostRegister(fixed, sizeof(fixed), 0));
	wait_and_answer<<<1, 1>>>(fixed);
	CHECK(cudaGetLastError());
	*(volatile int *)fixed = 41;
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaHostUnregister(fixed));
	printf("answer: %d\n", fixed[1]);
	printf("children: %d wrong, %d wrong\n", in_child(1000), in_child(3 * N));
	printf("late children: %d wrong, %d wrong\n", in_late_child(1000), in_late_child(3 * N));

	CHECK(cudaHostRegister(heap, 4096, 0));
	printf("twice: %s\n", cudaGetErrorName(cudaHostRegister(heap, 4096, 0)));
	CHECK(cudaHostUnregister(heap));
	printf("never: %s\n", cudaGetErrorName(cudaHostUnregister(heap)));
	/* what the program gives back while it is registered, by mistake, harms nothing else */
	CHECK(cudaHostRegister(pages, 4096, 0));
	munmap(pages, N * sizeof(int));
	heap = (int *)realloc(heap, 2 * N * sizeof(int));
	CHECK(cudaDeviceReset());
	printf("end: %d\n", heap[5]);
	return 0;
}
