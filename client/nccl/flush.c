/*
 * client/nccl/flush.c - send batches to their sessions, and wait for the outcomes of those that may wait for other ranks.
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
			ckc_nccl_told(ret, res.reason.reason_val, res.reason.reason_len);
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
static ncclResult_t give_up(struct ckc_nccl_batch *b)
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
	return ckc_nccl_fail(ncclSystemError,
			     "the other ranks have not come within %s (CRICKET_NCCL_TIMEOUT)",
			     ck_env_string("CRICKET_NCCL_TIMEOUT"));
}

static ncclResult_t wait_for(struct ckc_nccl_batch *b, uint64_t ticket, float *estimated)
{
	int64_t until = give_up_at(b);
	ncclResult_t ret = ncclInProgress;
	bool done = false;

	while (!done) {
		ret = ckc_nccl_fetch(b, ticket, CK_NCCL_WAIT_MS, &done, estimated);
		if (!done && until && ck_now_ms() >= until)
			return give_up(b);
	}
	return ret;
}

/* --- all */

static ncclResult_t finish(struct ckc_nccl_batch *b, uint64_t ticket, bool later, float *estimated)
{
	if (!ticket)
		return ncclSuccess;
	if (later && !(b->flags & CKC_NCCL_URGENT))
		return ckc_nccl_pending_put(b, ticket);
	return wait_for(b, ticket, estimated);
}

static void keep_first(ncclResult_t *first, ncclResult_t result)
{
	/* an error says more than that another session's work goes on */
	if (result && (!*first || *first == ncclInProgress))
		*first = result;
}

ncclResult_t ckc_nccl_flush(struct ckc_nccl_batch *batches, unsigned int count,
			    unsigned int grouped, float *estimated)
{
	uint64_t tickets[CK_SERVERS_MAX] = {0};
	ncclResult_t first = ncclSuccess;
	bool later = false;

	for (unsigned int i = 0; i < count; i++)
		later |= batches[i].nonblocking;
	for (unsigned int i = 0; i < count; i++) {
		ncclResult_t ret;

		if (batches[i].count == 0)
			continue;
		ret = send_batch(&batches[i], grouped, &tickets[i]);
		if (ret)
			ckc_nccl_batch_done(&batches[i], ret, NULL, 0);
		keep_first(&first, ret);
	}
	for (unsigned int i = 0; i < count; i++) {
		if (batches[i].count > 0)
			keep_first(&first, finish(&batches[i], tickets[i], later, estimated));
		ckc_nccl_batch_free(&batches[i]);
	}
	return first;
}
