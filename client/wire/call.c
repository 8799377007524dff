/*
 * client/wire/call.c - calls that wait: each on the lane of its thread, in the order of commands.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/link/client.h"
#include "client/wire/command.h"
#include "client/link/hooks.h"
#include "client/link/join.h"
#include "client/link/lane.h"
#include "client/wire/profile.h"
#include "client/link/session_list.h"
#include "client/link/stats.h"
#include "client/wire/user_messages.h"
#include "rpc/activity.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/process/process_limits.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define ENDING_MS 200 /* from a server's last connection to the end of its sessions */
#define ENDING_LOOK_MS 10
#define MEMORY_TRIES 16 /* each may have one other session leave the GPU */

static bool print_output(CUresult err, ck_output_res *res)
{
	if (err == CUDA_SUCCESS) {
		if (res->text.text_len > 0)
			fwrite(res->text.text_val, 1, res->text.text_len, stdout);
		fflush(stdout);
		if (res->errors.errors_len > 0)
			fwrite(res->errors.errors_val, 1, res->errors.errors_len, stderr);
	}
	xdr_free((xdrproc_t)xdr_ck_output_res, res);
	return res->head.err == CUDA_SUCCESS && res->head.output;
}

bool ckc_output_fetch(void)
{
	ck_output_args args = {0};
	ck_output_res res = {0};

	return print_output(ckc_call(CK_PROC_output, &args, &res, NULL), &res);
}

bool ckc_output_fetch_aside(struct ckc_client *c)
{
	ck_output_args args = {0};
	ck_output_res res = {0};

	return print_output(ckc_call_aside(c, CK_PROC_output, &args, &res), &res);
}

CUresult ckc_call_broken(struct ckc_client *c, const char *name, int ret)
{
	char why[128];

	snprintf(why, sizeof(why), "%s: %s", name, ckc_wire_error(ret));
	ckc_session_lost(c, why);
	return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult ckc_call_unconnected(struct ckc_client *c, const char *name, int ret)
{
	if (c->state == CK_STATE_LOST || ckc_command_over(c))
		return ckc_call_broken(c, name, ret);
	ck_info("%s: no connection for this thread: %s", name, strerror(-ret));
	return CUDA_ERROR_OPERATING_SYSTEM;
}

/* A server that ends refuses connections before it closes its sessions, which then have a line of
 * their own. */
static bool is_server_gone(int ret)
{
	return ret == -ECONNREFUSED || ret == -ECONNRESET || ret == -EPIPE;
}

static void await_session_end(const struct ckc_client *c)
{
	for (unsigned int ms = 0; ms < ENDING_MS && !ckc_command_over(c); ms += ENDING_LOOK_MS)
		usleep(ENDING_LOOK_MS * 1000);
}

/* A program that has changed its user or root directory may no longer reach the server's socket. */
static CUresult report_unconnected(struct ckc_client *c, const char *name, int ret)
{
	bool report = !is_server_gone(ret) && !atomic_exchange(&c->lanes.refused, true);
	char text[CK_LIMIT_TEXT];
	CUresult err;

	if (report)
		await_session_end(c);
	err = ckc_call_unconnected(c, name, ret);
	if (report && err == CUDA_ERROR_OPERATING_SYSTEM)
		ck_warn("no further connection to the GPU server at %s: %s: calls of threads "
			"without one fail, as %s now",
			c->connection.address, ck_limit_text(ret, text), name);
	return err;
}

/* Handle a call that failed on the wire. A lane that broke in the middle of a call ends the
 * session. The session continues if nothing was sent. */
CUresult ckc_call_lost(struct ckc_client *c, const struct ckc_exchange *x, int ret)
{
	const struct ck_proc *p = &ck_procs[x->proc];
	const struct ckc_thread *t = ckc_thread();

	if (x->unsent)
		return ckc_unsent(p, ret);
	if (ret == -EOPNOTSUPP) /* PROC_UNAVAIL: the session lives */
		return ckc_not_offered(c, x->proc);
	return t && t->lane ? ckc_call_broken(c, p->name, ret)
			    : report_unconnected(c, p->name, ret);
}

/* Does the thread have a lane of @c? Give up one of another session. */
static bool has_lane(const struct ckc_client *c, struct ckc_thread *t)
{
	if (likely(t->lane && ckc_lane_client(t->lane) == c))
		return true;
	if (t->lane)
		ckc_lane_release(t->lane);
	t->lane = NULL;
	return false;
}

static int lane_for(struct ckc_client *c, struct ckc_thread *t)
{
	return likely(has_lane(c, t)) ? 0 : ckc_join_lane_soon(c, &t->lane);
}

int ckc_lane_open(struct ckc_client *c)
{
	struct ckc_thread *t = ckc_thread();
	int cancel = ck_cancel_disable();
	int ret = t ? 0 : -ENOMEM;

	if (t && !has_lane(c, t))
		ret = ckc_join_lane(c, &t->lane);
	ck_cancel_restore(cancel);
	return ret;
}

/* Make the call on the thread's lane. If the server refuses the lane, take another one: the call
 * has not been carried out. */
static int exchange_message(struct ckc_client *c, struct ckc_thread *t, struct ckc_exchange *x)
{
	int ret = ckc_lane_exchange(t->lane, x);

	if (likely(ret == 0) || !ckc_lane_joining(t->lane) || x->unsent)
		return ret;
	ckc_lane_destroy(t->lane);
	t->lane = NULL;
	if (ckc_join_passing(ret) && !ckc_command_over(c))
		ret = ckc_join_lane(c, &t->lane);
	return t->lane ? ckc_lane_exchange(t->lane, x) : ret;
}

/* The exchange of message @proc, without a payload. */
static struct ckc_exchange exchange_of(uint32_t proc, void *args, void *res)
{
	return (struct ckc_exchange){
		.proc = proc,
		.xdr_args = ck_procs[proc].xdr_args,
		.xdr_res = ck_procs[proc].xdr_res,
		.args = args,
		.res = res,
	};
}

static CUresult call_aside(struct ckc_client *c, struct ckc_exchange *x)
{
	struct ckc_thread *t = ckc_thread();
	int cancel, ret;

	if (unlikely(!t))
		return CUDA_ERROR_OUT_OF_MEMORY;
	x->idle = true;
	cancel = ck_cancel_disable();
	ret = lane_for(c, t);
	if (ret == 0)
		ret = exchange_message(c, t, x);
	ck_cancel_restore(cancel);
	return ret < 0 ? ckc_call_lost(c, x, ret) : (CUresult)((const ck_result *)x->res)->err;
}

CUresult ckc_call_aside(struct ckc_client *c, uint32_t proc, void *args, void *res)
{
	struct ckc_exchange x = exchange_of(proc, args, res);
	CUresult err = call_aside(c, &x);

	return err ? err : ckc_lane_covered(c, ((const ck_result *)res)->delivered);
}

CUresult ckc_call_aside_bulk(struct ckc_client *c, uint32_t proc, void *args, void *res,
			     ckc_place_fn place, void *closure)
{
	struct ckc_exchange x = exchange_of(proc, args, res);
	struct ckc_sink sink = {0};

	x.sink = &sink;
	x.place = place;
	x.closure = closure;
	return call_aside(c, &x);
}

/* Print the output of kernels before the program continues; like deliveries, a wait covers it. */
static CUresult fetch_output(const struct ckc_client *c, CUresult err)
{
	while (ckc_output_fetch())
		;
	return unlikely(c->state == CK_STATE_LOST) ? CUDA_ERROR_DEVICE_UNAVAILABLE : err;
}

/* The reply is here. Wait for everything that it covers. */
static CUresult handle_reply(struct ckc_client *c, const struct ckc_lane *lane,
			     const struct ck_proc *p, struct ckc_exchange *x, uint64_t began)
{
	const ck_head *args = x->args;
	ck_result *head = x->res;
	CUresult missing;

	if (head->err == 0)
		head->err = x->bulk_err;
	missing = ckc_lane_covered(c, head->delivered);
	if (unlikely(missing))
		return missing;
	if (unlikely(ckc_stats_on))
		ckc_stats_waited(x->proc, CK_CALL_HEADER + p->args_size + x->bulk_size,
				 ckc_lane_received(lane), began);
	if (unlikely(ckc_trace_on))
		ckc_trace_message(x->proc, args, head, (CUresult)head->err, began, x->bulk_size);
	if (unlikely(head->err))
		ckc_context_outcome(args->ctx, (CUresult)head->err);
	if (unlikely(head->output) && !p->silent) /* a thread in a fetch may hold the stdout lock */
		return fetch_output(c, (CUresult)head->err);
	return (CUresult)head->err;
}

static void note_profile(const struct ckc_exchange *x, uint64_t began, CUresult err)
{
	const struct ckc_thread *t = ckc_thread();

	if (!t || !t->lane)
		return;
	ckc_profile_end(&(struct ckc_message){
		.proc = x->proc,
		.waits = true,
		.id = CK_ACTIVITY_CALL | ckc_lane_xid(t->lane),
		.began = began,
		.err = err,
		.sent = CK_CALL_HEADER + ck_procs[x->proc].args_size + x->bulk_size,
		.received = ckc_lane_received(t->lane),
	});
}

/* Make a call, ordered after all commands sent so far. */
static CUresult call_server_once(struct ckc_client *c, struct ckc_exchange *x)
{
	const struct ck_proc *p = &ck_procs[x->proc];
	struct ckc_thread *t = ckc_thread();
	ck_head *args = (ck_head *)(uintptr_t)x->args;
	uint64_t began = unlikely(ckc_stats_on || ckc_trace_on) ? ck_now_ns() : 0;
	int ret;

	if (unlikely(c->state == CK_STATE_LOST))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (unlikely(!t))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (unlikely(!ckc_session_offers(c, x->proc)))
		return ckc_not_offered(c, x->proc);
	if (unlikely(p->shares))
		c->shares = true;
	ret = lane_for(c, t);
	if (x->sink && x->sink->size > 0) {
		x->sink->data = ckc_payload_reach(x->sink->data, x->sink->size, true);
		if (unlikely(!x->sink->data))
			return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	if (ret == 0) {
		args->seq = ckc_command_before(c);
		ret = exchange_message(c, t, x);
	}
	if (unlikely(ret < 0))
		return ckc_call_lost(c, x, ret);
	return handle_reply(c, t->lane, p, x, began);
}

/* Did not the call, but a command before it find no memory? It was not carried out: success of the
 * call would hide that. */
static bool is_of_command(struct ckc_client *c)
{
	int failed = 0;

	ckc_route(c);
	return ckc_session_offers(c, CK_PROC_command_failed) &&
	       !ck_wire_command_failed(0, &failed) && failed;
}

/* The server has no memory for the call: is there any after this process has returned some? */
static bool gained_memory(struct ckc_client *c, const struct ckc_exchange *x)
{
	const ck_head *args = x->args;
	bool any = false;

	if (ckc_aside || x->fd || x->sink || ck_procs[x->proc].nomem || is_of_command(c))
		return false;
	ckc_each_hook(shortage, h) any |= h->run(c, args->ctx);
	return any;
}

static bool lacks_memory(const struct ckc_exchange *x, CUresult err)
{
	return unlikely(err == CUDA_ERROR_OUT_OF_MEMORY) &&
	       ((const ck_result *)x->res)->err == CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult call_uncancelled(struct ckc_client *c, struct ckc_exchange *x)
{
	CUresult err = call_server_once(c, x);

	/* first this process returns memory, then others may, one after the other */
	for (int tries = 0; tries < MEMORY_TRIES && lacks_memory(x, err) && gained_memory(c, x);
	     tries++) {
		xdr_free(x->xdr_res, x->res);
		memset(x->res, 0, ck_procs[x->proc].res_size);
		err = call_server_once(c, x);
	}
	if (lacks_memory(x, err))
		ckc_user_messages_refused(c);
	return err;
}

static CUresult make_call(struct ckc_client *c, struct ckc_exchange *x)
{
	uint64_t began = ckc_profile_begin();
	int cancel = ck_cancel_disable();
	CUresult err = call_uncancelled(c, x);

	if (unlikely(began))
		note_profile(x, began, err);
	ck_cancel_restore(cancel);
	return err;
}

CUresult ckc_call_bulk(uint32_t proc, void *args, void *res, const void *bulk, size_t bulk_size,
		       struct ckc_sink *sink)
{
	struct ckc_exchange x = exchange_of(proc, args, res);
	struct ckc_client *c = ckc_session_of(proc, args);

	x.bulk = bulk;
	x.bulk_size = bulk_size;
	x.sink = sink;
	return likely(c != NULL) ? make_call(c, &x) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ckc_call_fd(uint32_t proc, void *args, void *res, struct ck_private_fd *fd)
{
	struct ckc_exchange x = exchange_of(proc, args, res);
	struct ckc_client *c = ckc_session_of(proc, args);

	x.fd = fd;
	return c && c->passes_fds ? make_call(c, &x) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ckc_call(uint32_t proc, void *args, void *res, struct ckc_sink *sink)
{
	return ckc_call_bulk(proc, args, res, NULL, 0, sink);
}
