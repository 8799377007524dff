/*
 * client/nccl/flush.c - send batches to their sessions, and wait for the outcomes of those that may
 * wait for other ranks.
 *
 * All are sent before the first wait: ranks on several servers wait for one another.
 */
#include <stdlib.h>
#include <string.h>

#include "client/nccl/nccl.h"
#include "client/wire/command.h"
#include "rpc/proc.h"
#include "util/env.h"
#include "util/until.h"
#include "util/util.h"

#define LEAVE_MS 5000 /* for the end of communicators whose ranks have not come */
#define SHARED_MS 20  /* a wait for one session, while others are waited for too */

/* --- one batch */

static CUresult send_run(const struct ckc_nccl_batch *b)
{
	return ck_wire_nccl_run(b->context, b->bytes, b->size);
}

static CUresult send_start(const struct ckc_nccl_batch *b, uint64_t ticket)
{
	CUresult err = ck_wire_nccl_start(b->context, ticket, b->bytes, b->size);

	if (!err)
		ckc_command_flush(b->client);
	return err;
}

static CUresult send_urgent(const struct ckc_nccl_batch *b, uint64_t ticket)
{
	ck_nccl_urge_args args = {
		.head.ctx = b->context, .ticket = ticket, .batch = CK_LIST(b->bytes, b->size)};
	ck_nccl_urge_res res;

	memset(&res, 0, sizeof(res));
	return ckc_call_aside(b->client, CK_PROC_nccl_urge, &args, &res);
}

/* *@ticket: 0 if there is no outcome to wait for. */
static ncclResult_t send_batch(struct ckc_nccl_batch *b, unsigned int grouped, uint64_t *ticket)
{
	struct ck_nccl_batch head = {.count = b->count, .grouped = grouped};
	CUresult err;

	memcpy(b->bytes, &head, sizeof(head));
	*ticket = 0;
	if (b->flags || grouped == CK_NCCL_SIMULATED)
		*ticket = atomic_fetch_add(&b->client->nccl->tickets, 1) + 1;
	ckc_route(b->client);
	if (!*ticket)
		err = send_run(b);
	else if (b->flags & CKC_NCCL_URGENT)
		err = send_urgent(b, *ticket);
	else
		err = send_start(b, *ticket);
	if (err)
		*ticket = 0;
	return ckc_nccl_from_driver(err);
}

/* The session's facts about streams that were noted before the work came are void. */
static void note_work(struct ckc_client *c)
{
	ckc_route(c);
	ckc_command_called();
}

ncclResult_t ckc_nccl_fetch(struct ckc_nccl_batch *b, uint64_t ticket, unsigned int ms, bool *done,
			    float *estimated)
{
	ck_nccl_wait_args args = {.ticket = ticket, .milliseconds = ms};
	ncclResult_t ret = ncclInProgress;
	struct ckc_client *c = b->client;
	const uint64_t *values;
	ck_nccl_wait_res res;
	size_t count;
	CUresult err;

	memset(&res, 0, sizeof(res));
	err = ckc_call_aside(c, CK_PROC_nccl_wait, &args, &res);
	*done = err || res.done;
	if (err)
		ret = ckc_nccl_from_driver(err);
	else if (res.done)
		ret = res.result;
	if (*done) {
		values = (const uint64_t *)(const void *)res.values.values_val;
		count = res.values.values_len / sizeof(*values);
		if (!err && ret)
			ckc_nccl_fail_with(ret, res.reason.reason_val, res.reason.reason_len);
		if (estimated && count > 0)
			memcpy(estimated, &values[count - 1], sizeof(*estimated));
		ckc_nccl_batch_done(b, ret, values, count);
		note_work(c);
	}
	xdr_free((xdrproc_t)xdr_ck_nccl_wait_res, &res);
	return ret;
}

/* --- ranks that do not come */

/* When that is; 0: never. */
static int64_t give_up_at(const struct ckc_nccl_batch *b)
{
	const char *text = ck_env_string("CRICKET_NCCL_TIMEOUT");
	uint64_t seconds = 0;

	if (!(b->flags & CKC_NCCL_MAKES) || !text || ck_env_time(text, &seconds) < 0 ||
	    seconds == 0)
		return 0;
	return ck_now_ms() + (int64_t)ck_min(seconds, (uint64_t)INT_MAX) * 1000;
}

/* The worker ends them when NCCL has made them, if it ever does. */
static void give_up(struct ckc_nccl_batch *b)
{
	struct ckc_nccl_batch ends = {.client = b->client, .flags = CKC_NCCL_URGENT};
	int64_t until = ck_now_ms() + LEAVE_MS;
	bool done = false;
	uint64_t ticket;

	for (unsigned int i = 0; i < b->count; i++) {
		struct ckc_nccl_comm *comm = b->afters[i].newcomm;
		struct ck_nccl_op op = {.what = CK_NCCL_ABORT, .context = b->context};

		if (!comm)
			continue;
		op.comm = comm->number;
		if (!ckc_nccl_batch_add(&ends, &op, NULL, 0, &(struct ckc_nccl_after){.comm = comm},
					0))
			break;
	}
	if (ends.count > 0 && send_batch(&ends, CK_NCCL_GROUPED, &ticket) == ncclSuccess) {
		while (!done && ck_now_ms() < until)
			ckc_nccl_fetch(&ends, ticket, CK_NCCL_WAIT_MS, &done, NULL);
	}
	ckc_nccl_batch_free(&ends);
	ckc_nccl_batch_undo(b);
}

static ncclResult_t too_late(void)
{
	return ckc_nccl_fail(ncclSystemError,
			     "the other ranks did not join within %s (CRICKET_NCCL_TIMEOUT)",
			     ck_env_string("CRICKET_NCCL_TIMEOUT"));
}

/* --- all */

static void keep_first(ncclResult_t *first, ncclResult_t result)
{
	/* an error says more than that another session's work goes on */
	if (result && (!*first || *first == ncclInProgress))
		*first = result;
}

/* Batches with tickets, for which a thread waits. */
struct waits {
	struct ckc_nccl_batch *batches;
	uint64_t tickets[CK_SERVERS_MAX];
	unsigned int count, left;
	int64_t until; /* the time for ranks that do not come; 0: no limit */
	ncclResult_t first;
};

static void give_up_rest(struct waits *w)
{
	for (unsigned int i = 0; i < w->count; i++) {
		if (!w->tickets[i] || !(w->batches[i].flags & CKC_NCCL_MAKES))
			continue;
		give_up(&w->batches[i]);
		w->tickets[i] = 0;
		w->left--;
		if (!w->first)
			w->first = too_late();
	}
	w->until = 0;
}

/* When one session's ranks have failed, those of another wait for them in vain. */
static void note_failure(struct waits *w, ncclResult_t result)
{
	int64_t soon = ck_now_ms() + LEAVE_MS;

	keep_first(&w->first, result);
	if (!w->until || w->until > soon)
		w->until = soon;
}

static void note_outcome(struct waits *w, unsigned int i, ncclResult_t result)
{
	w->tickets[i] = 0;
	w->left--;
	if (result)
		note_failure(w, result);
}

static void wait_all(struct waits *w, float *estimated)
{
	while (w->left > 0) {
		unsigned int ms = w->left > 1 ? SHARED_MS : CK_NCCL_WAIT_MS;

		for (unsigned int i = 0; i < w->count; i++) {
			ncclResult_t ret;
			bool done;

			if (!w->tickets[i])
				continue;
			ret = ckc_nccl_fetch(&w->batches[i], w->tickets[i], ms, &done, estimated);
			if (done)
				note_outcome(w, i, ret);
		}
		if (w->until && ck_now_ms() >= w->until)
			give_up_rest(w);
	}
}

/* Those that the program asks for later are not waited for. */
static void keep_for_later(struct waits *w)
{
	for (unsigned int i = 0; i < w->count; i++) {
		if (!w->tickets[i] || w->batches[i].flags & CKC_NCCL_URGENT)
			continue;
		keep_first(&w->first, ckc_nccl_pending_put(&w->batches[i], w->tickets[i]));
		w->tickets[i] = 0;
		w->left--;
	}
}

static void send_all(struct waits *w, unsigned int grouped)
{
	for (unsigned int i = 0; i < w->count; i++) {
		struct ckc_nccl_batch *b = &w->batches[i];
		int64_t until = give_up_at(b);
		ncclResult_t ret;

		if (b->count == 0)
			continue;
		if (until && (!w->until || until < w->until))
			w->until = until;
		ret = send_batch(b, grouped, &w->tickets[i]);
		if (ret) {
			ckc_nccl_batch_done(b, ret, NULL, 0);
			note_failure(w, ret);
		}
		w->left += w->tickets[i] != 0;
	}
}

ncclResult_t ckc_nccl_flush(struct ckc_nccl_batch *batches, unsigned int count,
			    unsigned int grouped, float *estimated)
{
	struct waits w = {.batches = batches, .count = count};
	bool later = false;

	for (unsigned int i = 0; i < count; i++)
		later |= batches[i].nonblocking;
	send_all(&w, grouped);
	if (later)
		keep_for_later(&w);
	wait_all(&w, estimated);
	for (unsigned int i = 0; i < count; i++)
		ckc_nccl_batch_free(&batches[i]);
	return w.first;
}
