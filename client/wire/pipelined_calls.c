/*
 * client/wire/pipelined_calls.c - see client/wire/pipelined_calls.h.
 */
#include <errno.h>

#include "client/wire/command.h"
#include "client/link/lane.h"
#include "client/wire/pipelined_calls.h"
#include "client/wire/profile.h"
#include "client/wire/progress.h"
#include "client/link/stats.h"
#include "rpc/activity.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/until.h"

/* A reply takes 40 bytes: as many fit any buffer of a socket, so the server never waits for the
 * client to read. */
#define WAITING_MAX 64

static CUresult get_result(const struct ckc_pipelined *a)
{
	return a->broken ? a->broken : (CUresult)a->result.err;
}

void ckc_pipelined_begin(struct ckc_pipelined *a, struct ckc_client *c, uint64_t ctx)
{
	int ret = -EPIPE;

	*a = (struct ckc_pipelined){.client = c, .ctx = ctx, .began = ck_now_ns()};
	a->cancel = ck_cancel_disable();
	if (c->state != CK_STATE_LOST)
		ret = ckc_lane_open(c);
	if (ret < 0) {
		a->broken = ckc_call_unconnected(c, "an upload", ret);
		return;
	}
	a->lane = ckc_thread()->lane;
	a->seq = ckc_command_before(c);
}

static void take_reply(struct ckc_pipelined *a)
{
	ck_result result = {0};
	struct ckc_exchange x = {
		.proc = a->proc, .xdr_res = (xdrproc_t)xdr_ck_result, .res = &result};
	int ret = ckc_lane_receive(a->lane, &x);

	a->waiting--;
	if (ret < 0) {
		a->broken = ckc_call_lost(a->client, &x, ret);
		return;
	}
	a->received += ckc_lane_received(a->lane);
	a->result.output |= result.output;
	a->result.delivered = result.delivered;
	if (!a->result.err)
		a->result.err = result.err;
}

void ckc_pipelined_note(const struct ckc_lane *lane, uint32_t proc, const void *args, size_t size,
			uint64_t began, uint64_t profiled)
{
	size_t bytes = CK_CALL_HEADER + ck_procs[proc].args_size + size;

	ckc_progress_sent(size, began);
	if (unlikely(profiled))
		ckc_profile_end(&(struct ckc_message){
			.proc = proc,
			.waits = true,
			.id = CK_ACTIVITY_CALL | ckc_lane_xid(lane),
			.began = profiled,
			.sent = bytes,
		});
	if (unlikely(ckc_stats_on))
		ckc_stats_sent(proc, bytes);
	if (unlikely(ckc_trace_on))
		ckc_trace_message(proc, args, NULL, CUDA_SUCCESS, 0, size);
}

CUresult ckc_pipelined_call(struct ckc_pipelined *a, uint32_t proc, void *args, const void *bulk,
			    size_t size)
{
	struct ckc_exchange x = {.proc = proc,
				 .xdr_args = ck_procs[proc].xdr_args,
				 .args = args,
				 .bulk = bulk,
				 .bulk_size = size,
				 .passing = proc != CK_PROC_upload_part};
	uint64_t began = ck_now_ns(), profiled;
	int ret;

	*(ck_head *)args = (ck_head){.seq = a->seq, .ctx = a->ctx};
	a->proc = proc;
	if (!a->broken && a->waiting == WAITING_MAX)
		take_reply(a);
	if (get_result(a))
		return get_result(a);
	profiled = ckc_profile_begin();
	ret = ckc_lane_send(a->lane, &x);
	if (ret < 0) {
		CUresult err = ckc_call_lost(a->client, &x, ret);

		if (x.unsent)
			a->result.err = (int)err; /* the lane is as before */
		else
			a->broken = err;
		return err;
	}
	a->waiting++;
	ckc_pipelined_note(a->lane, proc, args, size, began, profiled);
	return CUDA_SUCCESS;
}

CUresult ckc_pipelined_end(struct ckc_pipelined *a)
{
	CUresult err;

	while (a->waiting > 0 && !a->broken)
		take_reply(a);
	err = get_result(a);
	if (!a->broken && a->received > 0 && ckc_lane_covered(a->client, a->result.delivered))
		err = CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (unlikely(ckc_stats_on) && a->proc)
		ckc_stats_waited(a->proc, 0, a->received, a->began);
	if (unlikely(err))
		ckc_context_outcome(a->ctx, err);
	while (unlikely(a->result.output) && !a->broken && ckc_output_fetch())
		;
	ck_cancel_restore(a->cancel);
	return err;
}
