/*
 * tests/test_apps/thread_data.cu - a program with much thread-local data, which it sets before its
 * first CUDA call: the calls do not depend on it, and do not change it. OpenMP's threads too.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

#define SIZE 2400
#define WINDOW 160
#define THREADS 4

static thread_local unsigned char data[SIZE];

__global__ void store(int *p, int value)
{
	*p = value;
}

static void compute(int value)
{
	int *dev, got = 0;

	CHECK(cudaMalloc(&dev, sizeof(int)));
	store<<<1, 1>>>(dev, value);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&got, dev, sizeof(int), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(dev));
	EXPECT(got == value);
}

/* Whether @size bytes from @from are @byte, and all others 0. */
static bool holds(int from, int size, int byte)
{
	for (int i = 0; i < SIZE; i++)
		if (data[i] != (i >= from && i < from + size ? byte : 0))
			return false;
	return true;
}

/* A process of its own, because the first call does most. */
static int wrong_in_child(int from)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		memset(data + from, 1, WINDOW);
		compute(from);
		_exit(!holds(from, WINDOW, 1));
	}
	EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
	return status != 0;
}

int main()
{
	int wrong = 0;

	for (int from = 0; from < SIZE; from += WINDOW)
		wrong += wrong_in_child(from);
	printf("%d children, %d wrong\n", SIZE / WINDOW, wrong);
	wrong = 0;
#pragma omp parallel for num_threads(THREADS) reduction(+ : wrong)
	for (int i = 1; i <= THREADS; i++) {
		memset(data, i, SIZE);
		compute(i);
		wrong += !holds(0, SIZE, i);
	}
	printf("%d threads, %d wrong\n", THREADS, wrong);
	return 0;
}
