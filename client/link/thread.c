/*
 * client/link/thread.c - state of each thread of the application, and the end of threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "client/link/client.h"
#include "client/link/hooks.h"
#include "client/link/join.h"
#include "client/link/lane.h"
#include "client/link/session_list.h"
#include "cuda/errors.h"
#include "util/cancel.h"
#include "util/util.h"

static __thread struct ckc_thread *self __attribute__((tls_model("initial-exec")));
__thread bool ckc_inside_callback __attribute__((tls_model("initial-exec")));
__thread bool ckc_aside __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Clean up at a thread's end; also called for a state that no key holds. */
static void end_thread(void *arg)
{
	struct ckc_thread *t = arg;

	ckc_each_hook(thread_end, h) h->run(t);
	if (t->lane)
		ckc_lane_release(t->lane);
	self = NULL;
	free(t);
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, end_thread) == 0;
}

/* Make @t the calling thread's state. False: it will not be freed at the thread's end. */
static bool adopt_state(struct ckc_thread *t)
{
	self = t;
	pthread_once(&once, make_key);
	return has_key && pthread_setspecific(key, t) == 0;
}

static struct ckc_thread *create_thread_state(void)
{
	struct ckc_thread *t = calloc(1, sizeof(*t));

	if (t && adopt_state(t))
		return t;
	self = NULL;
	free(t);
	return NULL;
}

struct ckc_thread *ckc_thread(void)
{
	return likely(self != NULL) ? self : create_thread_state();
}

/* --- its memory. A handler of a signal may take some in between, and gives it back. */

void *ckc_room_take(size_t size)
{
	struct ckc_thread *t = ckc_thread();
	size_t all = (ck_max(size, (size_t)1) + 15) & ~(size_t)15;
	unsigned char *room;

	if (unlikely(!t || sizeof(t->room) - t->room_used < all))
		return malloc(size);
	room = t->room + t->room_used;
	t->room_used += (unsigned int)all;
	return room;
}

void ckc_room_give(void *room)
{
	struct ckc_thread *t = ckc_thread();
	uintptr_t at = (uintptr_t)room - (uintptr_t)(t ? t->room : NULL);

	if (likely(t && at < sizeof(t->room)))
		t->room_used = (unsigned int)at;
	else
		free(room);
}

/* --- the calling thread's stack of contexts */

CUresult ckc_context_push(struct ckc_context *context)
{
	struct ckc_thread *t = ckc_thread();

	if (!t || t->depth == CK_CONTEXT_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	t->stack[t->depth++] = context;
	ckc_thread_context = context;
	return CUDA_SUCCESS;
}

struct ckc_context *ckc_context_pop(void)
{
	struct ckc_thread *t = ckc_thread();
	struct ckc_context *was = ckc_thread_context;

	if (!t) /* nothing was pushed */
		return NULL;
	if (t->depth > 0)
		t->depth--;
	ckc_thread_context = t->depth > 0 ? t->stack[t->depth - 1] : NULL;
	return was;
}

void ckc_context_outcome(uint64_t ctx, CUresult err)
{
	if (ckc_thread_context && ckc_thread_context->object.id == ctx && ck_error_is_sticky(err))
		ckc_thread_context->fault = (int)err;
}

CUstream ck_default_stream_set(CUstream stream)
{
	struct ckc_thread *t = ckc_thread();
	CUstream was;

	if (!t) /* the call fails or uses the legacy stream */
		return 0;
	was = t->default_stream;
	t->default_stream = stream;
	return was;
}

struct calling {
	struct ckc_thread *thread; /* has its lane */
	struct ckc_client *client;
	void *(*run)(void *client);
};

static void *run_calling(void *arg)
{
	struct calling c = *(struct calling *)arg;
	bool kept = adopt_state(c.thread);
	void *result;

	free(arg);
	ckc_route_serve(c.client);
	result = c.run(c.client);
	if (!kept)
		end_thread(c.thread);
	return result;
}

static int start_calling(struct calling *c)
{
	int cancel = ck_cancel_disable();
	int ret = ckc_join_lane(c->client, &c->thread->lane);

	ck_cancel_restore(cancel);
	if (ret < 0)
		return ret;
	ret = ckc_thread_start(run_calling, c);
	if (ret < 0)
		ckc_lane_release(c->thread->lane);
	return ret;
}

int ckc_thread_start_calling(struct ckc_client *client, void *(*run)(void *client))
{
	struct calling *c = malloc(sizeof(*c));
	struct ckc_thread *t = calloc(1, sizeof(*t));
	int ret = -ENOMEM;

	if (c && t) {
		*c = (struct calling){t, client, run};
		ret = start_calling(c);
	}
	if (ret < 0) {
		free(c);
		free(t);
	}
	return ret;
}
