/*
 * tests/null_handles/null_handles.c - what every driver call that takes a handle answers to NULL,
 * or 0.
 *
 * usage: null_handles > ANSWERS
 *
 * A line a call and state: state, name, result. States: "none" without a current context, "context"
 * with one; in both, pointers lead to zeroed memory; "nothing" is with a context and NULL for
 * pointers too. A call that crashes ends its child process, which is noted, and another child goes
 * on behind it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/types.h"

#define ARGUMENTS 14
#define ROOM 1024 /* bytes behind each pointer */

static const struct call {
	const char *name, *kinds;
} calls[] = {
#define X(name, kinds) {#name, kinds},
#include "calls.def"
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static const char *const states[] = {"none", "context", "nothing"};

typedef CUresult any(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		     uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static void *library;
static CUresult (*set_current)(CUcontext), (*synchronize)(void);
static CUresult (*error_name)(CUresult, const char **);
static CUcontext context;
static unsigned char memory[ARGUMENTS][ROOM] __attribute__((aligned(16)));

static void *find(const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return symbol;
}

static void begin(void)
{
	CUresult (*init)(unsigned int), (*retain)(CUcontext *, CUdevice);

	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&init = find("cuInit");
	*(void **)&retain = find("cuDevicePrimaryCtxRetain");
	*(void **)&set_current = find("cuCtxSetCurrent");
	*(void **)&synchronize = find("cuCtxSynchronize");
	*(void **)&error_name = find("cuGetErrorName");
	if (init(0) || retain(&context, 0)) {
		fprintf(stderr, "no device\n");
		exit(1);
	}
}

static void report(size_t state, const struct call *call, const char *result)
{
	printf("%-8s %-48s %s\n", states[state], call->name, result);
	fflush(stdout);
}

/* The call, and whether the context can still be used. */
static int make(size_t state, const struct call *call)
{
	uint64_t a[ARGUMENTS] = {0};
	const char *name = "unknown";
	CUresult err;
	any *function;

	*(void **)&function = dlsym(library, call->name);
	if (!function) {
		report(state, call, "absent");
		return 1;
	}
	memset(memory, 0, sizeof(memory));
	for (size_t i = 0; call->kinds[i]; i++)
		if (call->kinds[i] == 'p' && state != 2)
			a[i] = (uintptr_t)memory[i];
	set_current(state == 0 ? NULL : context);
	alarm(20);
	err = function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
		       a[12], a[13]);
	alarm(0);
	error_name(err, &name);
	report(state, call, name);
	set_current(context);
	return synchronize() == CUDA_SUCCESS;
}

/* Calls from number @from on in a process of its own; how many it made. */
static size_t run(size_t from)
{
	int status, pipes[2];
	size_t done = 0;
	char byte;
	pid_t child;

	if (pipe(pipes) < 0 || (child = fork()) < 0)
		exit(1);
	if (child == 0) {
		signal(SIGALRM, SIG_DFL);
		begin();
		for (size_t i = from; i < CALLS * 3; i++) {
			int usable = make(i / CALLS, &calls[i % CALLS]);

			if (write(pipes[1], "", 1) != 1 || !usable)
				break;
		}
		_exit(0);
	}
	close(pipes[1]);
	while (read(pipes[0], &byte, 1) == 1)
		done++;
	close(pipes[0]);
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status)) {
		report((from + done) / CALLS, &calls[(from + done) % CALLS],
		       WTERMSIG(status) == SIGALRM ? "hangs" : "crashes");
		done++;
	} else if (WEXITSTATUS(status)) {
		exit(1);
	}
	return done;
}

int main(void)
{
	for (size_t at = 0; at < CALLS * 3;)
		at += run(at);
	return 0;
}
