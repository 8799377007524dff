/*
 * client/wire/lane.c - a lane: a connection with a reader and a buffer. A thread keeps its lane.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/client.h"
#include "client/wire/command.h"
#include "client/wire/lane.h"
#include "client/wire/hooks.h"
#include "client/wire/stats.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

struct ckc_lane {
	struct ckc_client *client;
	struct ck_chan *chan;
	struct ck_reader *reader;
	uint32_t xid;
	bool busy;		/* a call is in progress */
	bool idle;		/* see struct ckc_exchange */
	size_t received;	/* bytes of the last reply */
	struct ckc_lane *next;	/* in the pool */
	struct ckc_lane *older; /* in the list of all */
	size_t size;
	unsigned char *buf;
};

#define LANE_BUFFER 4096
/* A round trip takes a few microseconds, a step of a model some milliseconds. Waking a sleeper
 * costs up to 50 us on a virtual machine. The driver itself spins without limit while it waits for
 * the GPU. */
#define LANE_SPIN_US 10000

#define JOIN_FIRST_MS 10 /* between two attempts; doubled each time */
#define JOIN_LAST_MS 640

static void quiet(void *closure)
{
	const struct ckc_lane *lane = closure;

	if (!lane->idle)
		ckc_quiet(lane->client);
}

int ckc_lane_create(struct ckc_client *c, struct ck_chan *chan, struct ckc_lane **out)
{
	struct ckc_lane *lane = calloc(1, sizeof(*lane));
	int ret = -ENOMEM;

	if (!lane)
		goto close_chan;
	lane->size = LANE_BUFFER;
	lane->buf = malloc(lane->size);
	if (!lane->buf)
		goto free_lane;
	ret = ck_reader_create(chan, &lane->reader);
	if (ret < 0)
		goto free_buf;
	ck_chan_spin(chan, LANE_SPIN_US);
	ck_chan_on_quiet(chan, quiet, lane);
	lane->client = c;
	lane->chan = chan;
	ck_lock(&c->lanes.lock);
	lane->older = c->lanes.newest;
	c->lanes.newest = lane;
	ck_unlock(&c->lanes.lock);
	*out = lane;
	return 0;
free_buf:
	free(lane->buf);
free_lane:
	free(lane);
close_chan:
	ck_chan_close(chan);
	return ret;
}

static void unlist(struct ckc_lane *lane)
{
	struct ckc_lanes *lanes = &lane->client->lanes;
	struct ckc_lane **at = &lanes->newest;

	ck_lock(&lanes->lock);
	while (*at != lane)
		at = &(*at)->older;
	*at = lane->older;
	ck_unlock(&lanes->lock);
}

void ckc_lane_destroy(struct ckc_lane *lane)
{
	unlist(lane);
	ck_reader_destroy(lane->reader);
	ck_chan_close(lane->chan);
	free(lane->buf);
	free(lane);
}

struct ck_chan *ckc_lane_detach(struct ckc_lane *lane)
{
	struct ck_chan *chan = lane->chan;

	ck_chan_on_quiet(chan, NULL, NULL);
	unlist(lane);
	ck_reader_destroy(lane->reader);
	free(lane->buf);
	free(lane);
	return chan;
}

void ckc_lane_release(struct ckc_lane *lane)
{
	struct ckc_lanes *lanes = &lane->client->lanes;

	ck_lock(&lanes->lock);
	lane->next = lanes->pool;
	lanes->pool = lane;
	ck_unlock(&lanes->lock);
}

void ckc_lane_drop_all(struct ckc_client *c)
{
	struct ckc_lane *lane, *next;

	ck_lock(&c->lanes.lock);
	lane = c->lanes.pool;
	c->lanes.pool = NULL;
	ck_unlock(&c->lanes.lock);
	for (; lane; lane = next) {
		next = lane->next;
		ckc_lane_destroy(lane);
	}
}

void ckc_lane_shut_all(struct ckc_client *c)
{
	ck_lock(&c->lanes.lock);
	for (struct ckc_lane *lane = c->lanes.newest; lane; lane = lane->older)
		ck_chan_shutdown(lane->chan);
	ck_unlock(&c->lanes.lock);
}

void ckc_lane_forked(struct ckc_client *c)
{
	for (struct ckc_lane *lane = c->lanes.newest; lane; lane = lane->older)
		close(ck_chan_fd(lane->chan));
}

void ckc_lane_forget(struct ckc_client *c)
{
	struct ckc_thread *t = ckc_thread();

	ck_mutex_renew(&c->lanes.lock);
	c->lanes.pool = NULL;
	while (c->lanes.newest)
		ckc_lane_destroy(c->lanes.newest);
	if (t)
		t->lane = NULL;
}

bool ckc_lane_busy(const struct ckc_lane *lane)
{
	return lane->busy;
}

size_t ckc_lane_received(const struct ckc_lane *lane)
{
	return lane->received;
}

void ckc_lane_timeout(struct ckc_lane *lane, int milliseconds)
{
	ck_chan_timeout(lane->chan, milliseconds);
}

/* A temporary failure: with too many new connections at once, the server closes one or cannot pass
 * it to the worker. */
static bool is_passing(int ret)
{
	return ret == -EACCES || ret == -EPIPE || ret == -ECONNRESET || ret == -EAGAIN;
}

static int join_patiently(struct ckc_client *c, struct ck_chan **chan)
{
	int ret = ckc_session_join(c, CK_LANE_CALL, chan);

	for (unsigned int ms = JOIN_FIRST_MS; is_passing(ret) && ms <= JOIN_LAST_MS; ms *= 2) {
		if (ckc_command_over(c))
			break;
		usleep(ms * 1000);
		ret = ckc_session_join(c, CK_LANE_CALL, chan);
	}
	return ret;
}

int ckc_lane_take(struct ckc_client *c, struct ckc_lane **lane)
{
	struct ck_chan *chan;
	int ret;

	ck_lock(&c->lanes.lock);
	*lane = c->lanes.pool;
	if (*lane)
		c->lanes.pool = (*lane)->next;
	ck_unlock(&c->lanes.lock);
	if (*lane)
		return 0;
	ret = join_patiently(c, &chan);
	return ret < 0 ? ret : ckc_lane_create(c, chan, lane);
}

static int send_call(struct ckc_lane *lane, struct ckc_exchange *x)
{
	static const unsigned char zero[4];
	struct iovec iov[3];
	long n;

	if (++lane->xid == 0)
		lane->xid = 1; /* xid 0 marks a delivery sent ahead of a reply */
	for (;;) {
		unsigned char *bigger;

		n = ck_call_encode(lane->buf, lane->size, lane->xid, x->proc, x->xdr_args, x->args,
				   x->bulk_size);
		if (n != -ENOSPC || lane->size >= CK_RECORD_MAX)
			break;
		bigger = realloc(lane->buf, lane->size * 4);
		if (!bigger) {
			n = -ENOMEM;
			break;
		}
		lane->buf = bigger;
		lane->size *= 4;
	}
	x->unsent = n < 0;
	if (n < 0)
		return (int)n;
	iov[0] = (struct iovec){lane->buf, (size_t)n};
	iov[1] = (struct iovec){(void *)(uintptr_t)x->bulk, x->bulk_size};
	iov[2] = (struct iovec){(void *)(uintptr_t)zero, -x->bulk_size & 3};
	if (x->fd)
		return ck_chan_writev_fd(lane->chan, iov, x->bulk_size ? 3 : 1, *x->fd);
	return ck_chan_writev(lane->chan, iov, x->bulk_size ? 3 : 1);
}

/* Receive the payload after the results at @offset, up to the sink's size, then the CUresult. */
static int take_bulk(struct ckc_lane *lane, size_t offset, uint32_t length, struct ckc_exchange *x)
{
	unsigned char pad[4];
	uint32_t word;
	int ret = ck_reader_bulk_begin(lane->reader, offset);

	if (ret == 0 && length > x->sink->size)
		ret = -EPROTO;
	if (ret == 0 && length > 0)
		ret = ck_reader_bulk(lane->reader, x->sink->data, length);
	if (ret == 0 && length % 4)
		ret = ck_reader_bulk(lane->reader, pad, 4 - length % 4);
	if (ret == 0)
		ret = ck_reader_bulk(lane->reader, &word, sizeof(word));
	if (ret == 0)
		x->bulk_err = (int)ntohl(word);
	return ret;
}

/* Receive the next reply: its xid, and the offset of its results. */
static int next_reply(struct ckc_lane *lane, struct ck_record *record, uint32_t *xid,
		      size_t *offset)
{
	uint32_t low, high;
	int ret = ck_reader_next(lane->reader, record);

	if (ret < 0)
		return ret;
	lane->received += record->total;
	ret = ck_reply_decode(record->body, record->body_size, xid, offset, &low, &high);
	if (ret == -EPROTONOSUPPORT)
		ck_err("the server speaks version %u to %u of the protocol, this client %u", low,
		       high, CK_VERSION);
	return ret;
}

/* Decode the results at @offset, and receive the payload that follows them. */
static int take_results(struct ckc_lane *lane, const struct ck_record *record, size_t offset,
			struct ckc_exchange *x)
{
	uint32_t length;
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)(uintptr_t)record->body + offset,
		      (u_int)(record->body_size - offset), XDR_DECODE);
	if (!x->xdr_res(&xdrs, x->res))
		return -EPROTO;
	if (!x->sink)
		return 0;
	offset += xdr_getpos(&xdrs);
	/* the length is the last word of the results; it may be unaligned */
	memcpy(&length, record->body + offset - sizeof(length), sizeof(length));
	length = ntohl(length);
	if (x->place)
		*x->sink = (struct ckc_sink){x->place(x->closure, x->res, length), length};
	if (x->place && !x->sink->data)
		return -EPROTO;
	if (((const ck_result *)x->res)->err == 0 && length != x->sink->size)
		return -EPROTO;
	return take_bulk(lane, offset, length, x);
}

CUresult ckc_lane_covered(struct ckc_client *c, uint32_t rank)
{
	if (likely(rank == atomic_load_explicit(&c->lanes.delivered, memory_order_acquire)))
		return CUDA_SUCCESS;
	return __start_ck_along->wait(c, rank);
}

/* Receive a small copy that the server sent ahead of the reply. */
static int take_along(struct ckc_lane *lane, const struct ck_record *record, size_t offset)
{
	const struct ckc_hook_along *along = __start_ck_along; /* there is one: delivery.c's */
	struct ckc_along closure = {.client = lane->client};
	ck_delivery_next_res res = {0};
	struct ckc_sink sink = {0};
	struct ckc_exchange x = {.xdr_res = (xdrproc_t)xdr_ck_delivery_next_res,
				 .res = &res,
				 .sink = &sink,
				 .place = along->place,
				 .closure = &closure};
	int ret = take_results(lane, record, offset, &x);

	if (ret == 0)
		along->arrived(&closure, &res);
	else
		along->broken(&closure);
	return ret;
}

static int receive_reply(struct ckc_lane *lane, struct ckc_exchange *x)
{
	struct ck_record record;
	uint32_t xid;
	size_t offset;
	int ret;

	lane->received = 0;
	do {
		ret = next_reply(lane, &record, &xid, &offset);
		if (ret == 0 && xid == 0)
			ret = take_along(lane, &record, offset);
	} while (ret == 0 && xid == 0);
	if (ret < 0)
		return ret;
	return xid == lane->xid ? take_results(lane, &record, offset, x) : -EPROTO;
}

int ckc_lane_exchange(struct ckc_lane *lane, struct ckc_exchange *x)
{
	int ret;

	lane->busy = true;
	lane->idle = x->idle;
	ret = send_call(lane, x);
	x->bulk_err = 0;
	if (ret == 0)
		ret = receive_reply(lane, x);
	lane->busy = false;
	return ret;
}

bool ckc_output_fetch(void)
{
	void *text = NULL, *errors = NULL;
	size_t size = 0, errors_size = 0;
	bool any;

	any = ck_wire_output(0, &text, &size, &errors, &errors_size) == CUDA_SUCCESS &&
	      (size > 0 || errors_size > 0);
	if (any && size > 0) {
		fwrite(text, 1, size, stdout);
		fflush(stdout);
	}
	if (any && errors_size > 0)
		fwrite(errors, 1, errors_size, stderr);
	free(text);
	free(errors);
	return any;
}

/* Handle a call that failed on the wire. A lane that broke in the middle of a call ends the
 * session. The session continues if nothing was sent, or if the thread got no lane (the process may
 * be out of descriptors). */
static CUresult lost(struct ckc_client *c, const struct ck_proc *p, const struct ckc_exchange *x,
		     int ret)
{
	const struct ckc_thread *t = ckc_thread();
	char why[128];

	if (x->unsent)
		return ckc_unsent(p, ret);
	if (ret == -EOPNOTSUPP) /* PROC_UNAVAIL: the session lives */
		return ckc_not_offered(c, x->proc);
	if ((!t || !t->lane) && !ckc_command_over(c)) {
		ck_info("%s: no connection for this thread: %s", p->name, strerror(-ret));
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	snprintf(why, sizeof(why), "%s: %s", p->name,
		 ret == -EPIPE ? "the server closed the connection" : strerror(-ret));
	ckc_session_lost(c, why);
	return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

/* See to it that the thread has a lane of @c, and not of another session. */
static int lane_for(struct ckc_client *c, struct ckc_thread *t)
{
	if (likely(t->lane && t->lane->client == c))
		return 0;
	if (t->lane)
		ckc_lane_release(t->lane);
	t->lane = NULL;
	return ckc_lane_take(c, &t->lane);
}

static CUresult call_aside(struct ckc_client *c, struct ckc_exchange *x)
{
	const struct ck_proc *p = &ck_procs[x->proc];
	struct ckc_thread *t = ckc_thread();
	int cancel, ret;

	if (unlikely(!t))
		return CUDA_ERROR_OUT_OF_MEMORY;
	cancel = ck_cancel_disable();
	ret = lane_for(c, t);
	if (ret == 0)
		ret = ckc_lane_exchange(t->lane, x);
	ck_cancel_restore(cancel);
	return ret < 0 ? lost(c, p, x, ret) : (CUresult)((const ck_result *)x->res)->err;
}

CUresult ckc_call_aside(struct ckc_client *c, uint32_t proc, void *args, void *res)
{
	const struct ck_proc *p = &ck_procs[proc];
	struct ckc_exchange x = {.proc = proc,
				 .xdr_args = p->xdr_args,
				 .xdr_res = p->xdr_res,
				 .args = args,
				 .res = res,
				 .idle = true};
	CUresult err = call_aside(c, &x);

	return err ? err : ckc_lane_covered(c, ((const ck_result *)res)->delivered);
}

CUresult ckc_call_aside_bulk(struct ckc_client *c, uint32_t proc, void *args, void *res,
			     ckc_place_fn place, void *closure)
{
	const struct ck_proc *p = &ck_procs[proc];
	struct ckc_sink sink = {0};
	struct ckc_exchange x = {.proc = proc,
				 .xdr_args = p->xdr_args,
				 .xdr_res = p->xdr_res,
				 .args = args,
				 .res = res,
				 .sink = &sink,
				 .place = place,
				 .closure = closure,
				 .idle = true};

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
static CUresult answered(struct ckc_client *c, const struct ckc_lane *lane, const struct ck_proc *p,
			 struct ckc_exchange *x, uint64_t began)
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
				 lane->received, began);
	if (unlikely(ckc_trace_on))
		ckc_trace_message(x->proc, args, head, (CUresult)head->err);
	if (unlikely(head->err))
		ckc_context_outcome(args->ctx, (CUresult)head->err);
	/* not in a fetch: a thread that faulted on a page may hold the stdout lock */
	if (unlikely(head->output) && x->proc != CK_PROC_output && x->proc != CK_PROC_fetch)
		return fetch_output(c, (CUresult)head->err);
	return (CUresult)head->err;
}

/* Make a call, ordered after all commands sent so far. */
static CUresult call_uncancelled(struct ckc_client *c, struct ckc_exchange *x)
{
	const struct ck_proc *p = &ck_procs[x->proc];
	struct ckc_thread *t = ckc_thread();
	ck_head *args = (ck_head *)(uintptr_t)x->args;
	uint64_t began = unlikely(ckc_stats_on) ? ckc_stats_clock() : 0;
	int ret;

	if (unlikely(c->state == CK_STATE_LOST))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (unlikely(!t))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (unlikely(!ckc_session_offers(c, x->proc)))
		return ckc_not_offered(c, x->proc);
	ret = lane_for(c, t);
	if (x->sink && x->sink->size > 0) {
		x->sink->data = ckc_payload_reach(x->sink->data, x->sink->size, true);
		if (unlikely(!x->sink->data))
			return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	if (ret == 0 && likely(!ckc_aside)) {
		args->seq = ckc_command_number(c);
		ckc_command_flush(c);
	}
	if (ret == 0)
		ret = ckc_lane_exchange(t->lane, x);
	if (unlikely(ret < 0))
		return lost(c, p, x, ret);
	return answered(c, t->lane, p, x, began);
}

static CUresult call(struct ckc_client *c, struct ckc_exchange *x)
{
	int cancel = ck_cancel_disable();
	CUresult err = call_uncancelled(c, x);

	ck_cancel_restore(cancel);
	return err;
}

CUresult ckc_call_bulk(uint32_t proc, void *args, void *res, const void *bulk, size_t bulk_size,
		       struct ckc_sink *sink)
{
	const struct ck_proc *p = &ck_procs[proc];
	struct ckc_exchange x = {.proc = proc,
				 .xdr_args = p->xdr_args,
				 .xdr_res = p->xdr_res,
				 .args = args,
				 .res = res,
				 .bulk = bulk,
				 .bulk_size = bulk_size,
				 .sink = sink};

	return call(ckc_client_current(), &x);
}

CUresult ckc_call_fd(uint32_t proc, void *args, void *res, int fd)
{
	const struct ck_proc *p = &ck_procs[proc];
	struct ckc_exchange x = {.proc = proc,
				 .xdr_args = p->xdr_args,
				 .xdr_res = p->xdr_res,
				 .args = args,
				 .res = res,
				 .fd = &fd};
	struct ckc_client *c = ckc_client_current();

	return c->passes_fds ? call(c, &x) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ckc_call(uint32_t proc, void *args, void *res, struct ckc_sink *sink)
{
	return ckc_call_bulk(proc, args, res, NULL, 0, sink);
}
