/*
 * managed_signals.cu [crash] - a program with handlers of its own for SIGSEGV: they are called for
 * its own faults, whichever way they were set, and managed memory works all the same. With an
 * argument its last fault is one that nobody handles.
 */
#include <csetjmp>
#include <csignal>
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

__global__ void add_one(int *p)
{
	p[threadIdx.x]++;
}

static sigjmp_buf back;
static volatile int plain_calls, info_calls;
static int *managed;
static volatile char *volatile shut;

static void plain_handler(int)
{
	plain_calls = plain_calls + 1;
	siglongjmp(back, 1);
}

/* It touches managed memory itself, and repairs what was wrong. */
static void info_handler(int, siginfo_t *info, void *)
{
	if (info->si_addr != shut)
		_exit(9);
	info_calls = info_calls + managed[1];
	mprotect((void *)shut, 4096, PROT_READ | PROT_WRITE);
}

static void touch_managed(int expected)
{
	add_one<<<1, 4>>>(managed);
	CHECK(cudaDeviceSynchronize());
	EXPECT(managed[2] == expected);
}

static void *thread(void *)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	CHECK(cudaDeviceSynchronize());
	return (void *)(long)managed[3];
}

int main(int argc, char **)
{
	struct sigaction action = {}, old;
	static char stack[65536];
	stack_t alternate = {};
	void *result;
	pthread_t t;

	shut = (volatile char *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGSEGV, plain_handler);
	CHECK(cudaMallocManaged(&managed, 4 * sizeof(int)));
	touch_managed(1);
	if (!sigsetjmp(back, 1))
		*shut = 1;
	printf("set before: called %d times\n", plain_calls);
	touch_managed(2);

	alternate.ss_sp = stack;
	alternate.ss_size = sizeof(stack);
	sigaltstack(&alternate, NULL);
	action.sa_sigaction = info_handler;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigaction(SIGSEGV, &action, &old);
	printf("the former one is told: %d\n", old.sa_handler == plain_handler);
	add_one<<<1, 4>>>(managed);
	CHECK(cudaDeviceSynchronize());
	*shut = 1;
	printf("set after: sees %d\n", info_calls);
	touch_managed(4);

	add_one<<<1, 4>>>(managed);
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, &result);
	printf("in a thread with signals blocked: %ld\n", (long)result);
	signal(SIGSEGV, SIG_DFL);
	touch_managed(6);
	CHECK(cudaFree(managed));
	fflush(stdout);
	if (argc > 1)
		*(volatile int *)8 = 1;
	return 0;
}
