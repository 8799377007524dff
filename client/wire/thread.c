/*
 * client/wire/thread.c - state of each thread of the application, and the end of threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "client/wire/client.h"
#include "client/wire/hooks.h"
#include "client/wire/lane.h"
#include "cuda/errors.h"
#include "util/cancel.h"

static __thread struct ck_thread *self __attribute__((tls_model("initial-exec")));
__thread bool ck_inside_callback __attribute__((tls_model("initial-exec")));
__thread bool ck_aside __attribute__((tls_model("initial-exec")));
__thread struct ck_context *ck_thread_context __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end(void *arg)
{
	struct ck_thread *t = arg;

	ck_each_hook(thread_end, h)
		h->run(t);
	if (t->lane)
		ck_lane_release(t->lane);
	self = NULL;
	free(t);
}

static void make_key(void)
{
	pthread_key_create(&key, end);
}

static struct ck_thread *begin(void)
{
	static struct ck_thread spare;	/* out of memory: better one shared state than none */
	struct ck_thread *t = calloc(1, sizeof(*t));

	pthread_once(&once, make_key);
	if (!t)
		return &spare;
	pthread_setspecific(key, t);
	self = t;
	return t;
}

struct ck_thread *ck_thread(void)
{
	return likely(self != NULL) ? self : begin();
}

/* --- the calling thread's stack */

CUresult ck_context_push(struct ck_context *context)
{
	struct ck_thread *t = ck_thread();

	if (t->depth == CK_CONTEXT_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	t->stack[t->depth++] = context;
	ck_thread_context = context;
	return CUDA_SUCCESS;
}

struct ck_context *ck_context_pop(void)
{
	struct ck_thread *t = ck_thread();
	struct ck_context *was = ck_thread_context;

	if (t->depth > 0)
		t->depth--;
	ck_thread_context = t->depth > 0 ? t->stack[t->depth - 1] : NULL;
	return was;
}

void ck_context_outcome(uint64_t ctx, CUresult err)
{
	if (ck_thread_context && ck_thread_context->object.id == ctx && ck_error_is_sticky(err))
		ck_thread_context->fault = (int)err;
}

CUstream ck_default_stream_set(CUstream stream)
{
	struct ck_thread *t = ck_thread();
	CUstream was = t->default_stream;

	t->default_stream = stream;
	return was;
}

struct calling {
	void *(*run)(void *);
	struct ck_lane *lane;
};

static void *run_calling(void *arg)
{
	struct calling c = *(struct calling *)arg;

	free(arg);
	ck_thread()->lane = c.lane;
	return c.run(NULL);
}

int ck_thread_start_calling(void *(*run)(void *))
{
	struct calling *c = malloc(sizeof(*c));
	int cancel = ck_cancel_disable();
	int ret = c ? ck_lane_take(&c->lane) : -ENOMEM;

	ck_cancel_restore(cancel);
	if (ret == 0) {
		c->run = run;
		ret = ck_thread_start(run_calling, c);
		if (ret < 0)
			ck_lane_release(c->lane);
	}
	if (ret < 0)
		free(c);
	return ret;
}

int ck_thread_start(void *(*run)(void *), void *arg)
{
	sigset_t all, was;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);	/* host functions may touch managed memory, */
	sigdelset(&all, SIGBUS);	/* that of a lost server too */
	pthread_sigmask(SIG_SETMASK, &all, &was);
	ret = pthread_create(&thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (ret == 0)
		pthread_detach(thread);
	return -ret;
}
