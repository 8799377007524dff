/*
 * client/nccl/async_errors.c - outcomes that a program asks for with ncclCommGetAsyncError: those
 * of communicators that do not block.
 */
#include <stdlib.h>
#include <time.h>

#include "client/nccl/nccl.h"
#include "util/until.h"

#define PENDING_MS 10000

struct ckc_nccl_pending {
	struct ckc_nccl_batch batch;
	uint64_t ticket;
	unsigned int users;
	bool asking; /* a thread asks the server */
};

static struct ckc_nccl_comm *waits_for(const struct ckc_nccl_after *a)
{
	return a->newcomm ? a->newcomm : a->comm;
}

ncclResult_t ckc_nccl_pending_put(struct ckc_nccl_batch *b, uint64_t ticket)
{
	struct ckc_nccl *s = b->client->nccl;
	struct ckc_nccl_pending *p = calloc(1, sizeof(*p));

	if (!p)
		return ckc_nccl_fail(ncclSystemError, "out of memory");
	p->batch = *b;
	p->ticket = ticket;
	*b = (struct ckc_nccl_batch){.client = NULL};
	ck_lock(&s->lock);
	for (unsigned int i = 0; i < p->batch.count; i++) {
		struct ckc_nccl_comm *comm = waits_for(&p->batch.afters[i]);

		if (comm->pending == p)
			continue;
		comm->pending = p;
		p->users++;
	}
	ck_unlock(&s->lock);
	return ncclInProgress;
}

/* Let all communicators know the outcome. With the lock. */
static void publish_result(struct ckc_nccl_pending *p, ncclResult_t result)
{
	for (unsigned int i = 0; i < p->batch.count; i++) {
		struct ckc_nccl_comm *comm = waits_for(&p->batch.afters[i]);

		if (comm->pending != p)
			continue;
		comm->pending = NULL;
		comm->failed = result;
	}
}

/* The one thread that asks at a time has @p to itself. */
static struct ckc_nccl_pending *claim_pending(struct ckc_nccl_comm *comm, bool *any)
{
	struct ckc_nccl *s = comm->client->nccl;
	struct ckc_nccl_pending *p;

	ck_lock(&s->lock);
	p = comm->pending;
	*any = p != NULL;
	if (p && p->asking)
		p = NULL;
	if (p)
		p->asking = true;
	ck_unlock(&s->lock);
	return p;
}

/* The communicators that are left; with the lock. */
static void drop_gone(struct ckc_nccl_pending *p)
{
	for (unsigned int i = 0; i < p->batch.count; i++) {
		struct ckc_nccl_after *a = &p->batch.afters[i];

		if (waits_for(a)->pending != p) {
			a->newcomm = NULL;
			a->ends = false;
			a->value = NULL;
		}
	}
}

ncclResult_t ckc_nccl_pending_ask(struct ckc_nccl_comm *comm, unsigned int ms)
{
	struct ckc_nccl *s = comm->client->nccl;
	struct ckc_nccl_pending *p;
	ncclResult_t ret;
	bool any, done, over;

	p = claim_pending(comm, &any);
	if (!p)
		return any ? ncclInProgress : ncclSuccess;
	ck_lock(&s->lock);
	drop_gone(p);
	ck_unlock(&s->lock);
	ret = ckc_nccl_fetch(&p->batch, p->ticket, ms, &done, NULL);
	ck_lock(&s->lock);
	p->asking = false;
	over = done || p->users == 0;
	if (done)
		publish_result(p, ret);
	ck_unlock(&s->lock);
	if (over) {
		ckc_nccl_batch_free(&p->batch);
		free(p);
	}
	return done ? ret : ncclInProgress;
}

bool ckc_nccl_pending_wait(struct ckc_nccl_comm *comm)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int64_t until = ck_now_ms() + PENDING_MS;

	while (ckc_nccl_pending_ask(comm, 100) == ncclInProgress) {
		if (ck_now_ms() >= until)
			return false;
		nanosleep(&pause, NULL); /* another thread may be the one that asks */
	}
	return true;
}

void ckc_nccl_pending_drop(struct ckc_nccl_comm *comm)
{
	struct ckc_nccl *s = comm->client->nccl;
	struct ckc_nccl_pending *p, *last = NULL;

	ck_lock(&s->lock);
	p = comm->pending;
	comm->pending = NULL;
	if (p && --p->users == 0 && !p->asking)
		last = p;
	ck_unlock(&s->lock);
	if (last) {
		ckc_nccl_batch_free(&last->batch);
		free(last);
	}
}
