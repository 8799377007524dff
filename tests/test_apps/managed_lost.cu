/*
 * managed_lost.cu - touches managed memory after its server has gone: once "ready" is written, it
 * waits until CUDA calls fail.
 *
 * Without an argument it adds up what it reads. `handler` has a handler for SIGBUS, which says
 * where the touch was; `calls` gives the memory to system calls.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static const int n = 300000;
static unsigned char *p;
static sigjmp_buf back;
static volatile long where;
static volatile int code;

__global__ void fill(unsigned char *p, int n)
{
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		p[i] = 7;
}

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	where = (unsigned char *)info->si_addr - p;
	code = info->si_code;
	siglongjmp(back, 1);
}

static void touch(int at, bool write)
{
	volatile unsigned char *byte = p + at;

	where = -1;
	if (sigsetjmp(back, 1) == 0) {
		if (write)
			*byte = 1;
		else
			(void)*byte;
	}
	printf("%s %d: SIGBUS at %ld, BUS_ADRERR %d\n", write ? "write" : "read", at, where, code == BUS_ADRERR);
}

static void touches()
{
	struct sigaction action = {};

	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGBUS, &action, NULL);
	touch(123456, false);
	touch(123457, true);
	touch(3, true);
}

static void calls()
{
	int ends[2];
	ssize_t written, got;

	if (pipe(ends) < 0)
		exit(1);
	written = write(ends[1], p + 5000, 100);
	printf("write: %zd, EFAULT %d\n", written, errno == EFAULT);
	errno = 0;
	if (write(ends[1], "some bytes", 10) != 10)
		exit(1);
	got = read(ends[0], p + 9000, 10);
	printf("read: %zd, EFAULT %d\n", got, errno == EFAULT);
}

int main(int argc, char **argv)
{
	long sum = 0;

	CHECK(cudaMallocManaged(&p, n));
	fill<<<1, 256>>>(p, n);
	CHECK(cudaDeviceSynchronize());
	printf("ready\n");
	fflush(stdout);
	for (int i = 0; i < 2000 && cudaMemset(p, 7, 1) == cudaSuccess &&
			cudaDeviceSynchronize() == cudaSuccess; i++)
		usleep(10000);
	if (argc > 1) {
		strcmp(argv[1], "calls") == 0 ? calls() : touches();
		return 3;
	}
	for (int i = 0; i < n; i++)
		sum += p[i];
	p[100] = 5;
	printf("sum %ld, written %d\n", sum, p[100]);
	return 3;
}
