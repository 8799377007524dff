/*
 * server/worker/work_wait.c - see park.h.
 *
 * A thread waits. If it is late, it is left behind: it touches no other context after that, which
 * may be in a capture by then.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "server/session/locks.h"
#include "server/session/session.h"
#include "server/worker/park.h"
#include "util/until.h"

/* Of the process, which has one session. */
static struct {
	struct ck_mutex lock;
	struct ck_cond ended;
	bool running, late;
	int result;
} waiter = {.lock = CK_MUTEX(CK_RANK_WORK_WAIT)};

static bool is_late(void)
{
	bool late;

	ck_lock(&waiter.lock);
	late = waiter.late;
	ck_unlock(&waiter.lock);
	return late;
}

/* A context that was released or reset has no work. */
static int sync_context(CUcontext context)
{
	CUcontext popped;
	CUresult err;

	if (ck_driver.cuCtxPushCurrent_v2(context))
		return 0;
	err = ck_driver.cuCtxSynchronize();
	ck_driver.cuCtxPopCurrent_v2(&popped);
	return err && err != CUDA_ERROR_CONTEXT_IS_DESTROYED && err != CUDA_ERROR_INVALID_CONTEXT
		       ? -EIO
		       : 0;
}

static void *wait_aside(void *session)
{
	struct cks_session *s = session;
	struct cks_object context;
	uint64_t id = 0;
	int ret = 0;

	ck_lock(&s->contexts);
	while (ret == 0 && !is_late() &&
	       cks_handles_next(s->handles, &id, CK_KIND_CONTEXT, &context))
		ret = sync_context(context.handle);
	ck_unlock(&s->contexts);
	ck_lock(&waiter.lock);
	waiter.result = ret;
	waiter.running = false;
	ck_cond_broadcast(&waiter.ended);
	ck_unlock(&waiter.lock);
	return NULL;
}

/* Wait until no thread runs. False: one still does at @until. Call with the lock held. */
static bool await_end(const struct timespec *until)
{
	int err = 0;

	while (waiter.running && err == 0)
		err = ck_cond_timedwait(&waiter.ended, &waiter.lock, until);
	return !waiter.running;
}

/* Call with the lock held. */
static int run_thread(struct cks_session *s, const struct timespec *until)
{
	pthread_t thread;
	int ret;

	waiter.running = true;
	waiter.late = false;
	ret = -pthread_create(&thread, NULL, wait_aside, s);
	if (ret < 0) {
		waiter.running = false;
		return ret;
	}
	pthread_detach(thread);
	waiter.late = !await_end(until);
	return waiter.late ? -ETIMEDOUT : waiter.result;
}

int cks_work_wait(struct cks_session *s, unsigned int ms)
{
	const struct timespec until = ck_until(ms * CK_NS_PER_MS);
	int ret = -ETIMEDOUT;

	if (!ck_driver.cuCtxSynchronize || !ck_driver.cuCtxPushCurrent_v2 ||
	    !ck_driver.cuCtxPopCurrent_v2)
		return -ENOSYS;
	ck_lock(&waiter.lock);
	if (await_end(&until)) /* one that was left behind */
		ret = run_thread(s, &until);
	ck_unlock(&waiter.lock);
	return ret;
}
