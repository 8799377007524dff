/*
 * server/worker/lane.c - decode a message, bind its context, run its handler; see lane.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "rpc/activity.h"
#include "rpc/fields.h"
#include "rpc/proc.h"
#include "server/memory/lease.h"
#include "server/worker/lane.h"
#include "server/session/profile.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_REPLY_START 16384
#define CK_TRACE_TEXT 400

int cks_lane_init(struct cks_lane *l, struct cks_session *s, struct ck_chan *chan,
		  struct ck_reader *reader)
{
	size_t args = sizeof(struct ck_head), res = sizeof(struct ck_result);

	for (uint32_t i = 0; i < CK_PROC_END; i++) {
		args = ck_max(args, ck_procs[i].args_size);
		res = ck_max(res, ck_procs[i].res_size);
	}
	*l = (struct cks_lane){.session = s, .chan = chan, .reader = reader};
	l->epoch = atomic_load(&s->context_epoch);
	l->out_size = CK_REPLY_START;
	l->args = malloc(args);
	l->res = malloc(res);
	l->out = malloc(l->out_size);
	cks_gate_join(&s->gate, &l->pass);
	return l->args && l->res && l->out ? 0 : -ENOMEM;
}

void cks_lane_fini(struct cks_lane *l)
{
	cks_gate_part(&l->session->gate, &l->pass);
	free(l->args);
	free(l->res);
	free(l->out);
}

/*
 * Make the caller's context current in this thread. An unknown id (of a primary context that was
 * not retained, or a destroyed context) means no context: the driver returns INVALID_CONTEXT for a
 * call that needs one; other calls work.
 */
static CUresult bind_context(struct cks_lane *l, uint64_t id)
{
	uint64_t epoch = atomic_load_explicit(&l->session->context_epoch, memory_order_acquire);
	CUcontext context = NULL;
	CUresult err;

	if (id == l->bound && epoch == l->epoch)
		return CUDA_SUCCESS;
	if (id != 0)
		context = cks_handles_get(l->session->handles, id, CK_KIND_CONTEXT);
	if (!ck_driver.cuCtxSetCurrent)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuCtxSetCurrent(context);
	l->bound = err ? ~(uint64_t)0 : id; /* after an error: bind again next time */
	l->epoch = epoch;
	return err;
}

/* The length word of the payload, at the end of the arguments. */
static size_t payload_size(const struct ck_proc *proc, const void *args)
{
	const struct ck_field *f;
	u_int size = 0;

	for (f = proc->in; f && f->kind != CK_FIELD_END; f++) {
		if (f->kind == CK_FIELD_BULK)
			memcpy(&size, (const char *)args + f->offset, sizeof(size));
	}
	return size;
}

/* Decode by XDR. Returns the size of the arguments, or -EBADMSG. xdrmem reads nothing outside the
 * record. */
static long decode_xdr(struct cks_lane *l, const struct ck_proc *proc,
		       const struct ck_record *record, size_t at)
{
	XDR xdrs;

	memset(l->args, 0, proc->args_size);
	xdrmem_create(&xdrs, (char *)record->body + at, (u_int)(record->body_size - at),
		      XDR_DECODE);
	return proc->xdr_args(&xdrs, l->args) ? (long)xdr_getpos(&xdrs) : -EBADMSG;
}

int cks_lane_decode(struct cks_lane *l, const struct ck_proc *proc, const struct ck_record *record,
		    const struct ck_call_header *header, struct cks_request *q)
{
	size_t at = header->size, end;
	long size = -EOPNOTSUPP;

	q->session = l->session;
	q->pass = &l->pass;
	q->xid = header->xid;
	q->proc = header->proc;
	if (proc->one_way)
		size = ck_message_decode(record->body + at, record->body_size - at, q->proc,
					 l->args);
	l->in_place = size != -EOPNOTSUPP;
	if (!l->in_place)
		size = decode_xdr(l, proc, record, at);
	if (size < 0)
		return (int)size;
	end = at + (size_t)size;
	q->bulk_offset = end;
	q->bulk_size = proc->bulk_in ? payload_size(proc, l->args) : 0;
	if (end + CK_ALIGN_UP(q->bulk_size, 4u) != record->total)
		return -EBADMSG;
	return 0;
}

void cks_lane_release(struct cks_lane *l, const struct ck_proc *proc)
{
	if (!l->in_place)
		xdr_free(proc->xdr_args, l->args);
}

static void trace_message(const struct ck_proc *proc, const void *args)
{
	char text[CK_TRACE_TEXT];

	if (!ck_log_enabled(CK_LOG_TRACE))
		return;
	ck_fields_print(proc->in, args, text, sizeof(text));
	ck_trace("%s(%s)", proc->name, text);
}

CUresult cks_lane_turn_away(struct cks_request *q, CUresult err)
{
	int fd;

	while ((fd = ck_chan_take_fd(q->chan)) >= 0)
		close(fd);
	return err;
}

/* For a command: the client does it for its calls (client/wire/call.c). Not while the program has
 * yet to learn that an earlier one has failed. */
static bool find_memory(struct cks_request *q, const struct ck_proc *proc, unsigned int round)
{
	return proc->one_way && !proc->driverless && q->bulk_size == 0 &&
	       !atomic_load(&q->session->async_error) && cks_lease_make_room(q, round);
}

CUresult cks_lane_carry_out(struct cks_lane *l, struct cks_request *q, const struct ck_proc *proc,
			    void *res)
{
	const struct ck_head *head = l->args;
	ck_handler handler = ck_handlers[q->proc];
	bool profiled;
	CUresult err;

	trace_message(proc, l->args);
	if (!handler)
		return cks_lane_turn_away(q, CUDA_ERROR_NOT_SUPPORTED);
	err = proc->driverless ? CUDA_SUCCESS : bind_context(l, head->ctx);
	if (err)
		return cks_lane_turn_away(q, err);
	q->ctx = head->ctx;
	profiled = cks_profile_enter(proc->one_way ? head->seq : CK_ACTIVITY_CALL | q->xid);
	err = handler(q, l->args, res);
	for (unsigned int i = 0;
	     unlikely(err == CUDA_ERROR_OUT_OF_MEMORY) && find_memory(q, proc, i); i++)
		err = handler(q, l->args, res);
	if (unlikely(profiled))
		cks_profile_pop();
	return err;
}

int cks_lane_read(struct ck_chan *chan, struct ck_reader *reader, struct ck_record *record,
		  struct ck_call_header *header)
{
	int ret = ck_reader_next(reader, record);

	if (ret == 0)
		ret = ck_call_decode(record->body, record->body_size, header);
	if (ret == -EPROTO)
		ck_warn("%s: not an RPC call", ck_chan_peer(chan));
	return ret;
}
