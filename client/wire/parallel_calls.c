/*
 * client/wire/parallel_calls.c - see client/wire/parallel_calls.h.
 */
#include <errno.h>
#include <string.h>

#include "client/wire/command.h"
#include "client/link/join.h"
#include "client/wire/parallel_calls.h"
#include "client/link/stats.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/cancel.h"

/* The lane broke: the session is lost, as by a call of the program. */
static CUresult handle_broken_lane(struct ckc_parallel *b, int ret)
{
	ckc_lane_destroy(b->lane);
	b->lane = NULL;
	return ckc_call_broken(b->client, ck_procs[b->x.proc].name, ret);
}

static CUresult begin_call(struct ckc_parallel *b)
{
	struct ckc_client *c = b->client;
	int ret;

	if (c->state == CK_STATE_LOST)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (!ckc_session_offers(c, b->x.proc))
		return ckc_not_offered(c, b->x.proc);
	ret = ckc_join_lane(c, &b->lane);
	if (ret < 0) {
		b->lane = NULL;
		return ckc_call_unconnected(c, ck_procs[b->x.proc].name, ret);
	}
	if (((const ck_head *)b->x.args)->seq)
		ckc_command_flush(c);
	ret = ckc_lane_send(b->lane, &b->x);
	if (ret == 0) {
		if (unlikely(ckc_stats_on))
			ckc_stats_sent(b->x.proc, CK_CALL_HEADER + ck_procs[b->x.proc].args_size +
							  b->x.bulk_size);
		return CUDA_SUCCESS;
	}
	if (!b->x.unsent)
		return handle_broken_lane(b, ret);
	ckc_lane_destroy(b->lane);
	b->lane = NULL;
	return ckc_unsent(&ck_procs[b->x.proc], ret);
}

CUresult ckc_parallel_begin(struct ckc_parallel *b, const struct ckc_parallel_call *call)
{
	CUresult err;

	*b = (struct ckc_parallel){.client = call->client};
	b->x = (struct ckc_exchange){
		.proc = call->proc,
		.xdr_args = ck_procs[call->proc].xdr_args,
		.xdr_res = ck_procs[call->proc].xdr_res,
		.args = call->args,
		.res = call->res,
		.bulk = call->bulk,
		.bulk_size = call->bulk_size,
		.idle = true,
	};
	if (call->sink) {
		b->sink = *call->sink;
		b->x.sink = &b->sink;
	}
	*(ck_head *)call->args = (ck_head){.seq = call->seq, .ctx = call->ctx};
	b->cancel = ck_cancel_disable();
	err = begin_call(b);
	((ck_result *)call->res)->err = (int)err;
	return err;
}

CUresult ckc_parallel_end(struct ckc_parallel *b)
{
	ck_result *head = b->x.res;
	CUresult err = (CUresult)head->err;
	int ret;

	if (b->lane) {
		ret = ckc_lane_receive(b->lane, &b->x);
		if (ret == -EOPNOTSUPP)
			err = ckc_not_offered(b->client, b->x.proc);
		else if (ret < 0)
			err = handle_broken_lane(b, ret);
		else
			err = head->err ? (CUresult)head->err : (CUresult)b->x.bulk_err;
	}
	if (b->lane) {
		if (ckc_lane_covered(b->client, head->delivered))
			err = CUDA_ERROR_DEVICE_UNAVAILABLE;
		ckc_lane_release(b->lane);
	}
	b->lane = NULL;
	ck_cancel_restore(b->cancel);
	return err;
}
