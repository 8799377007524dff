/*
 * server/checkpoint/lanes.c - the threads that use the connections; see lanes.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "rpc/chan.h"
#include "rpc/tls.h"
#include "server/checkpoint/lanes.h"
#include "server/session/locks.h"
#include "util/lock.h"
#include "util/wait.h"

struct cks_lanes {
	struct lane {
		struct cks_lanes *lanes;
		struct ck_chan *chan;
		size_t number;
		pthread_t thread;
	} list[CKS_LANES];
	size_t threads; /* of the first ones */
	struct ck_tls *tls;
	int (*work)(void *data, struct ck_chan *chan, size_t task);
	void *data;
	int stream;
	struct ck_mutex lock; /* of all below */
	struct ck_cond changed;
	size_t given, finished; /* tasks below have been given, and done */
	bool done[CKS_LANES_TASKS];
	bool ends;
	int error;
};

struct cks_lanes *cks_lanes_create(struct ck_chan *const chans[CKS_LANES], struct ck_tls *tls)
{
	struct cks_lanes *lanes = calloc(1, sizeof(*lanes));

	if (lanes)
		lanes->tls = tls;
	for (size_t i = 0; i < CKS_LANES; i++) {
		if (lanes)
			lanes->list[i] =
				(struct lane){.lanes = lanes, .chan = chans[i], .number = i};
		else
			ck_chan_close(chans[i]);
	}
	if (!lanes)
		ck_tls_destroy(tls);
	return lanes;
}

void cks_lanes_destroy(struct cks_lanes *lanes)
{
	for (size_t i = 0; lanes && i < CKS_LANES; i++)
		ck_chan_close(lanes->list[i].chan);
	if (lanes)
		ck_tls_destroy(lanes->tls);
	free(lanes);
}

static void shut_all(struct cks_lanes *lanes)
{
	for (size_t i = 0; i < CKS_LANES; i++)
		ck_chan_shutdown(lanes->list[i].chan);
}

/* With the lock held. */
static void note_done(struct cks_lanes *lanes, size_t task)
{
	lanes->done[task % CKS_LANES_TASKS] = true;
	while (lanes->finished < lanes->given && lanes->done[lanes->finished % CKS_LANES_TASKS])
		lanes->done[lanes->finished++ % CKS_LANES_TASKS] = false;
	ck_cond_broadcast(&lanes->changed);
}

static void note_error(struct cks_lanes *lanes, int error)
{
	ck_lock(&lanes->lock);
	if (lanes->error == 0)
		lanes->error = error;
	ck_cond_broadcast(&lanes->changed);
	ck_unlock(&lanes->lock);
	shut_all(lanes);
	if (lanes->stream >= 0)
		shutdown(lanes->stream, SHUT_RD);
}

/* Is there a task for the thread? False: there is no more. */
static bool wait_for_task(struct cks_lanes *lanes, size_t task)
{
	bool any;

	ck_lock(&lanes->lock);
	while (lanes->given <= task && !lanes->ends && lanes->error == 0)
		ck_cond_wait(&lanes->changed, &lanes->lock);
	any = lanes->given > task && lanes->error == 0;
	ck_unlock(&lanes->lock);
	return any;
}

static void *do_tasks(void *data)
{
	struct lane *lane = data;
	struct cks_lanes *lanes = lane->lanes;
	int ret = 0;

	for (size_t task = lane->number; ret == 0 && wait_for_task(lanes, task);
	     task += CKS_LANES) {
		ret = lanes->work(lanes->data, lane->chan, task);
		if (ret < 0) {
			note_error(lanes, ret);
			continue;
		}
		ck_lock(&lanes->lock);
		note_done(lanes, task);
		ck_unlock(&lanes->lock);
	}
	return NULL;
}

int cks_lanes_start(struct cks_lanes *lanes,
		    int (*work)(void *data, struct ck_chan *chan, size_t task), void *data,
		    int stream)
{
	int ret = 0;

	lanes->work = work;
	lanes->data = data;
	lanes->stream = stream;
	lanes->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_LANES);
	lanes->changed = (struct ck_cond){0};
	lanes->given = lanes->finished = 0;
	memset(lanes->done, 0, sizeof(lanes->done));
	lanes->ends = false;
	while (lanes->threads < CKS_LANES && ret == 0) {
		struct lane *lane = &lanes->list[lanes->threads];

		ret = -pthread_create(&lane->thread, NULL, do_tasks, lane);
		lanes->threads += ret == 0;
	}
	if (ret < 0)
		cks_lanes_stop(lanes, true);
	return ret;
}

void cks_lanes_give(struct cks_lanes *lanes)
{
	ck_lock(&lanes->lock);
	lanes->given++;
	ck_cond_broadcast(&lanes->changed);
	ck_unlock(&lanes->lock);
}

int cks_lanes_wait(struct cks_lanes *lanes, size_t end)
{
	int ret;

	ck_lock(&lanes->lock);
	while (lanes->finished < end && lanes->error == 0)
		ck_cond_wait(&lanes->changed, &lanes->lock);
	ret = lanes->error;
	ck_unlock(&lanes->lock);
	return ret;
}

int cks_lanes_next(struct cks_lanes *lanes, size_t *task)
{
	*task = lanes->given; /* only the caller changes it */
	return cks_lanes_wait(lanes, *task < CKS_LANES_TASKS ? 0 : *task + 1 - CKS_LANES_TASKS);
}

int cks_lanes_stop(struct cks_lanes *lanes, bool failed)
{
	if (failed)
		shut_all(lanes);
	ck_lock(&lanes->lock);
	lanes->ends = true;
	if (failed && lanes->error == 0)
		lanes->error = -ECANCELED;
	ck_cond_broadcast(&lanes->changed);
	ck_unlock(&lanes->lock);
	while (lanes->threads > 0)
		pthread_join(lanes->list[--lanes->threads].thread, NULL);
	ck_cond_destroy(&lanes->changed);
	ck_mutex_destroy(&lanes->lock);
	return lanes->error;
}
