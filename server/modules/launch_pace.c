/*
 * server/modules/launch_pace.c - see launch_pace.h.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "server/modules/launch_pace.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/cpu.h"
#include "util/until.h"
#include "util/util.h"

#define CK_EVENTS 8
#define CK_AHEAD 4	      /* launches that follow each other faster than CK_SHORT_US */
#define CK_SHORT_US 50	      /* a thread is awake again after that */
#define CK_SPIN_US 20	      /* before it sleeps between two looks, */
#define CK_SLEEP_US 20	      /* for so long */
#define CK_WAIT_MOST_US 20000 /* then the work may wait for something else */

struct mark {
	CUevent event;
	uint64_t ctx;
	bool pending;
};

struct cks_launch_pace {
	atomic_bool bound;
	struct ck_mutex lock;
	struct mark marks[CK_EVENTS]; /* of the latest launches */
	unsigned int at;	      /* the next one's */
	int64_t last_us, each_us;     /* when a launch went on; between two, in the mean */
};

int cks_launch_pace_create(struct cks_launch_pace **out)
{
	struct cks_launch_pace *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_LAUNCH_PACE);
	*out = p;
	return 0;
}

void cks_launch_pace_destroy(struct cks_launch_pace *p)
{
	if (!p)
		return;
	ck_mutex_destroy(&p->lock);
	free(p);
}

void cks_launch_pace_set(struct cks_launch_pace *p, bool bound)
{
	atomic_store(&p->bound, bound);
}

/* Call with the lock held. */
static void drop_event(struct mark *m)
{
	if (m->event)
		ck_driver.cuEventDestroy_v2(m->event);
	*m = (struct mark){0};
}

/* Put a mark behind the launch. Call with the lock held. */
static void mark_launch(struct mark *m, uint64_t ctx, CUstream stream)
{
	if (m->ctx != ctx)
		drop_event(m);
	m->ctx = ctx;
	m->pending = false;
	if (!m->event && ck_driver.cuEventCreate(&m->event, CU_EVENT_DISABLE_TIMING)) {
		m->event = NULL;
		return;
	}
	m->pending = ck_driver.cuEventRecord(m->event, stream) == CUDA_SUCCESS;
}

/* Wait until the GPU has done the launch, or some time is over. Call with the lock held. */
static void wait_for_launch(struct mark *m)
{
	const struct timespec step = {.tv_nsec = CK_SLEEP_US * 1000};
	int64_t begin = ck_now_us(), waited = 0;

	while (m->pending && waited < CK_WAIT_MOST_US &&
	       ck_driver.cuEventQuery(m->event) == CUDA_ERROR_NOT_READY) {
		if (waited < CK_SPIN_US)
			ck_cpu_relax();
		else
			nanosleep(&step, NULL);
		waited = ck_now_us() - begin;
	}
	m->pending = false;
}

/* How many launches may be under way before the latest one. Call with the lock held. */
static unsigned int launches_ahead(struct cks_launch_pace *p)
{
	int64_t now = ck_now_us();

	p->each_us += (ck_min(now - p->last_us, (int64_t)CK_WAIT_MOST_US) - p->each_us) / 4;
	p->last_us = now;
	return p->each_us < CK_SHORT_US ? CK_AHEAD : 1;
}

void cks_launch_pace(struct cks_request *q, CUstream stream)
{
	struct cks_launch_pace *p = q->session->launch_pace;

	if (!atomic_load_explicit(&p->bound, memory_order_relaxed) || !ck_driver.cuEventCreate ||
	    !ck_driver.cuEventRecord || !ck_driver.cuEventQuery || !ck_driver.cuEventDestroy_v2)
		return;
	if (cks_handles_marked(q->session->handles) > 0) /* the capture would take the mark */
		return;
	ck_lock(&p->lock);
	mark_launch(&p->marks[p->at % CK_EVENTS], q->ctx, stream);
	wait_for_launch(&p->marks[(p->at - launches_ahead(p)) % CK_EVENTS]);
	p->at++;
	ck_unlock(&p->lock);
}

void cks_launch_pace_drop_context(struct cks_launch_pace *p, uint64_t ctx)
{
	ck_lock(&p->lock);
	for (size_t i = 0; i < CK_EVENTS; i++) {
		if (p->marks[i].ctx == ctx)
			drop_event(&p->marks[i]);
	}
	ck_unlock(&p->lock);
}
