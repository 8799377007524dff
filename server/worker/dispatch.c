/*
 * server/worker/dispatch.c - calls and commands of a client: their order, their errors, their
 * replies.
 *
 * A command has no reply for its error. The session keeps the error until the next call that waits,
 * which returns it without being executed. This file and lane.c check everything about a message
 * that its handler does not check.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "cuda/errors.h"
#include "rpc/proc.h"
#include "server/memory/delivery.h"
#include "server/session/event_retime.h"
#include "server/session/output.h"
#include "server/session/profile.h"
#include "server/worker/commands.h"
#include "server/worker/dispatch.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_SEQ_AHEAD ((uint64_t)1 << 40) /* far more commands than a client can have sent */
/* A busy client makes a call every few microseconds, except while it computes. After this time, an
 * idle one costs no processor time. */
#define LANE_SPIN_US 1000
#define CK_REPLY_MAX (CK_RECORD_MAX + 4096)

/* Does a call wait for a command with an impossible number? */
static bool too_far(const struct cks_lane *l, uint64_t seq)
{
	uint64_t executed = atomic_load(&l->session->executed);

	return seq > executed && seq - executed > CK_SEQ_AHEAD;
}

int cks_dispatch_commands(struct cks_session *s, struct ck_chan *chan, struct ck_reader *reader)
{
	struct cks_lane l;
	int ret = cks_lane_init(&l, s, chan, reader);

	if (ret == 0)
		ret = cks_commands_run(&l);
	cks_lane_fini(&l);
	return ret == -EPIPE ? 0 : ret;
}

static int send_bytes(struct cks_lane *l, void *bytes, size_t size)
{
	unsigned int n = 3 * l->along.count;
	int ret;

	l->along.iov[n] = (struct iovec){.iov_base = bytes, .iov_len = size};
	cks_session_count_reply(l->session, l->along.iov, n + 1);
	ret = ck_chan_writev(l->chan, l->along.iov, (int)n + 1);
	cks_along_sent(l->session, &l->along);
	return ret;
}

static int send_refusal(struct cks_lane *l, uint32_t xid, enum accept_stat stat)
{
	long n = ck_refusal_encode(l->out, l->out_size, xid, stat);

	return n < 0 ? (int)n : send_bytes(l, l->out, (size_t)n);
}

/* The call is of another version of RPC. */
static int send_mismatch(struct cks_lane *l, uint32_t xid)
{
	long n = ck_mismatch_encode(l->out, l->out_size, xid);

	return n < 0 ? (int)n : send_bytes(l, l->out, (size_t)n);
}

/* Encode a result, with @tail bytes to follow; returns its length, or -errno. */
static long encode_result(struct cks_lane *l, uint32_t xid, xdrproc_t xdr, const void *res,
			  size_t tail)
{
	long n = ck_reply_encode(l->out, l->out_size - tail, xid, xdr, res, tail);
	unsigned char *bigger;

	if (n != -ENOSPC || l->out_size >= CK_REPLY_MAX)
		return n;
	bigger = realloc(l->out, CK_REPLY_MAX);
	if (!bigger)
		return -ENOMEM;
	l->out = bigger;
	l->out_size = CK_REPLY_MAX;
	return ck_reply_encode(l->out, l->out_size - tail, xid, xdr, res, tail);
}

/* Encode an empty result with an error, for a result that exceeds a record. */
static long encode_refused(struct cks_lane *l, uint32_t xid, const struct ck_proc *proc,
			   size_t tail)
{
	struct ck_result head;

	memcpy(&head, l->res, sizeof(head));
	head.err = CUDA_ERROR_NOT_SUPPORTED;
	xdr_free(proc->xdr_res, l->res);
	memset(l->res, 0, proc->res_size);
	memcpy(l->res, &head, sizeof(head));
	return encode_result(l, xid, proc->xdr_res, l->res, tail);
}

/*
 * Encode and send the result in lane.res. A call with bulk payload comes here only without any: the
 * tail, which has the status of the payload, is then the result itself.
 */
static int send_result(struct cks_lane *l, uint32_t xid, const struct ck_proc *proc)
{
	const struct ck_result *head = l->res;
	size_t tail = proc->bulk_out ? 4 : 0;
	long n = encode_result(l, xid, proc->xdr_res, l->res, tail);
	uint32_t word;

	if (n == -EINVAL || n == -ENOSPC) {
		ck_err("%s: a reply that cannot be encoded: %s", proc->name, strerror((int)-n));
		n = encode_refused(l, xid, proc, tail);
	}
	if (n < 0)
		return (int)n;
	if (tail) {
		word = htonl((uint32_t)head->err);
		memcpy(l->out + n, &word, sizeof(word));
	}
	return send_bytes(l, l->out, (size_t)n + tail);
}

/* Effects of a call's outcome on others. */
static void handle_outcome(struct cks_lane *l, const struct cks_request *q,
			   const struct ck_proc *proc, CUresult err)
{
	const struct ck_head *head = l->args;
	struct cks_session *s = l->session;

	if (unlikely(err) && ck_error_is_sticky(err)) {
		cks_faults_report(s, proc->name, head->ctx, err);
		cks_deliveries_fail(s->deliveries, head->ctx);
	}
	if (!err && proc->shares)
		atomic_store(&s->shares, true);
	if (q->proc == CK_PROC_upload_beside)
		cks_session_beside(s, err);
}

/* Run a decoded call; its result is in lane.res. */
static void call_run(struct cks_lane *l, struct cks_request *q, const struct ck_proc *proc)
{
	const struct ck_head *head = l->args;
	struct cks_session *s = l->session;
	struct ck_result *result = l->res;
	CUresult err = CUDA_SUCCESS;
	bool uses = !proc->driverless, inside = uses, waits;
	int64_t began = ck_now_us();

	cks_session_wait(s, head->seq);
	waits = cks_stream_holds_enter(&s->holds, proc);
	if (inside) {
		cks_gate_enter(&s->gate, &l->pass);
		cks_session_mark_used(s);
	}
	cks_event_retime_call(&s->retime, proc);
	if (!proc->noerr)
		err = (CUresult)atomic_exchange(&s->async_error, 0);
	if (unlikely(err == CUDA_ERROR_OUT_OF_MEMORY))
		atomic_store(&s->failed_to, l->chan);
	err = err ? cks_lane_turn_away(q, err) : cks_lane_carry_out(l, q, proc, l->res);
	if (waits)
		cks_stream_holds_leave(&s->holds);
	if (err)
		ck_debug("%s: %s", proc->name, cks_error_name(err));
	handle_outcome(l, q, proc, err);
	result->err = (int)err;
	result->output = cks_output_pending(s->output);
	/* A reply to a thread for host functions must not wait for the driver: see
	 * delivery_part.h. */
	if (!inside)
		inside = q->proc != CK_PROC_callback_next &&
			 cks_gate_try_uncounted(&s->gate, &l->pass);
	/* all replies must fit the buffers of the connection: they carry no copies */
	if (proc->ahead)
		result->delivered = cks_deliveries_report(s);
	else if (q->proc != CK_PROC_delivery_next && !q->replied)
		result->delivered = cks_deliveries_take(s, inside, &l->along);
	if (inside && uses)
		cks_gate_leave(&l->pass);
	else if (inside) /* an idle session stays idle */
		cks_gate_leave_uncounted(&l->pass);
	atomic_fetch_add_explicit(&s->calls, 1, memory_order_relaxed);
	if (uses) /* others may wait for the program */
		cks_call_times_note(l, began);
}

/* The number of the command that the call comes after: the first word of its arguments. */
static uint64_t seq_of(const struct ck_record *record, const struct ck_call_header *header)
{
	uint64_t seq = 0;

	if (record->body_size - header->size >= sizeof(seq))
		memcpy(&seq, record->body + header->size, sizeof(seq));
	return be64toh(seq);
}

/* Handle a call of driver.api. */
static int regular_call(struct cks_lane *l, const struct ck_proc *proc,
			const struct ck_record *record, const struct ck_call_header *header)
{
	const struct ck_head *head = l->args;
	struct cks_request q = {.chan = l->chan, .reader = l->reader};
	int ret;

	l->ordered = seq_of(record, header) != 0;
	cks_commands_finish(l, seq_of(record, header)); /* uses lane.args */
	if (cks_lane_decode(l, proc, record, header, &q) < 0) {
		ck_warn("%s: arguments that cannot be decoded", proc->name);
		send_refusal(l, header->xid, GARBAGE_ARGS);
		ret = -EPROTO;
	} else if (too_far(l, head->seq)) {
		ck_warn("%s: waits for command %llu", proc->name, (unsigned long long)head->seq);
		ret = -EPROTO;
	} else {
		memset(l->res, 0, proc->res_size);
		call_run(l, &q, proc);
		ret = q.broken;
		if (!ret && !q.replied)
			ret = send_result(l, q.xid, proc);
		xdr_free(proc->xdr_res, l->res);
	}
	cks_lane_release(l, proc);
	return ret;
}

/* Handle a procedure of control.x; those here take no arguments. */
static int control_call(struct cks_lane *l, const struct ck_call_header *header)
{
	long n;
	int ret;

	if (header->proc != NULLPROC && header->proc != CK_PING && header->proc != CK_BYE) {
		cks_lane_turn_away(&(struct cks_request){.chan = l->chan},
				   CUDA_ERROR_NOT_SUPPORTED);
		return send_refusal(l, header->xid, PROC_UNAVAIL);
	}
	n = encode_result(l, header->xid, ck_code_nothing, NULL, 0);
	ret = n < 0 ? (int)n : send_bytes(l, l->out, (size_t)n);
	return ret == 0 && header->proc == CK_BYE ? CK_DISPATCH_BYE : ret;
}

static int answer_call(struct cks_lane *l, const struct ck_record *record,
		       const struct ck_call_header *header)
{
	const struct ck_proc *proc;

	if (header->program != CK_PROGRAM)
		return send_refusal(l, header->xid, PROG_UNAVAIL);
	if (header->version != CK_VERSION)
		return send_refusal(l, header->xid, PROG_MISMATCH);
	proc = ck_proc(header->proc);
	if (!proc)
		return control_call(l, header);
	if (proc->one_way) {
		ck_warn("%s: a command on a call lane", proc->name);
		return -EPROTO;
	}
	return regular_call(l, proc, record, header);
}

static int serve_call(struct cks_lane *l)
{
	struct ck_call_header header;
	struct ck_spin_turn turn;
	struct ck_record record;
	int ret;

	cks_commands_poll(l, &turn);
	ret = cks_lane_read(l->chan, l->reader, &record, &header);
	ck_spin_end(&turn);
	if (ret == 0 || ret == -EPROTONOSUPPORT) {
		atomic_fetch_add_explicit(&l->session->bytes_in, record.total,
					  memory_order_relaxed);
		cks_rate_limit_take(&l->session->pace, CK_WAY_IN, record.total);
		cks_rate_limit_wait(&l->session->pace, CK_WAY_IN);
		cks_rate_limit_wait(&l->session->pace, CK_WAY_OUT);
		ret = ret < 0 ? send_mismatch(l, header.xid) : answer_call(l, &record, &header);
	}
	cks_commands_finish(l, 0); /* if that has not */
	return ret;
}

/* In shared memory, a lane spins here, where it looks for commands too. */
static void init_spin(struct cks_lane *l)
{
	ck_spin_init(&l->spin, LANE_SPIN_US);
	ck_chan_spin(l->chan, ck_chan_ring(l->chan) ? 0 : LANE_SPIN_US);
}

int cks_dispatch_calls(struct cks_session *s, struct ck_chan *chan, struct ck_reader *reader)
{
	struct cks_lane l;
	int ret = cks_lane_init(&l, s, chan, reader);

	init_spin(&l);
	while (ret == 0)
		ret = serve_call(&l);
	cks_lane_fini(&l);
	return ret == -EPIPE ? 0 : ret;
}

int cks_dispatch_reply(struct ck_chan *chan, uint32_t xid, xdrproc_t xdr, const void *res)
{
	unsigned char *out = malloc(CK_REPLY_MAX);
	struct iovec iov;
	size_t size;
	long n;

	if (!out)
		return -ENOMEM;
	n = ck_reply_encode(out, CK_REPLY_MAX, xid, xdr, res, 0);
	if (n >= 0) {
		iov = (struct iovec){.iov_base = out, .iov_len = size = (size_t)n};
		n = ck_chan_writev(chan, &iov, 1);
		explicit_bzero(out, size); /* it may have secrets of the session */
	}
	free(out);
	return (int)n;
}
