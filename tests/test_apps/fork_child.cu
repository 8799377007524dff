/*
 * tests/test_apps/fork_child.cu - a process that has used CUDA forks: the child is told that CUDA
 * is not initialised there, the parent goes on. A child forked before the first call can use CUDA.
 */
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

__global__ void store(int *p, int value)
{
	*p = value;
}

static int compute(int value)
{
	int *dev, got = 0;

	CHECK(cudaMalloc(&dev, sizeof(int)));
	store<<<1, 1>>>(dev, value);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&got, dev, sizeof(int), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(dev));
	return got;
}

/* Runs BODY in a child and returns its exit status. */
template <typename Body> static int in_child(Body body)
{
	int status = 0;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		body();
		fflush(stdout);
		_exit(0);
	}
	EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main()
{
	int early = in_child([] { printf("child before: %d\n", compute(11)); });
	EXPECT(early == 0);
	printf("parent: %d\n", compute(22));

	int late = in_child([] {
		void *p;

		printf("child after: %s\n", cudaGetErrorName(cudaMalloc(&p, 4)));
	});
	EXPECT(late == 0);
	printf("parent again: %d\n", compute(33));
	return 0;
}
