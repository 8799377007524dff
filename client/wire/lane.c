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
#include "client/wire/dial.h"
#include "client/wire/lane.h"
#include "client/wire/hooks.h"
#include "rpc/lasting.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

struct ckc_lane {
	struct ckc_client *client;
	struct ck_chan *chan;
	struct ck_reader *reader;
	uint32_t sent, answered; /* xids of the last call and of the last reply */
	uint32_t first_xid;	 /* after the join's */
	bool busy;		 /* a call is in progress */
	bool idle;		 /* see struct ckc_exchange */
	bool joining;		 /* the server has not accepted it: no reply has been read */
	bool linked;	       /* its channel is a lasting one, which reads the reply to the link */
	size_t received;       /* bytes of the last reply */
	struct ckc_lane *next; /* in the pool */
	struct ckc_lane *older; /* in the list of all */
	size_t size;
	unsigned char *buf;
};

#define LANE_BUFFER 4096
#define JOIN_XID 1 /* of a lane's first message */
#define LANE_XIDS                                                                                  \
	(1u << 22) /* the second message's is a multiple: rarely do those of two lanes meet */
#define LANES_APART 511
/* A round trip takes a few microseconds, a step of a model some milliseconds. Waking a sleeper
 * costs up to 50 us on a virtual machine. The driver itself spins without limit while it waits for
 * the GPU. */
#define LANE_SPIN_US 10000

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
	lane->first_xid = (c->lanes.made++ % LANES_APART + 1) * LANE_XIDS;
	lane->older = c->lanes.newest;
	c->lanes.newest = lane;
	/* a loss that came before this has not shut it down */
	if (c->state == CK_STATE_LOST)
		ck_chan_shutdown(chan);
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
	ck_mutex_renew(&c->lanes.lock);
	c->lanes.pool = NULL;
	while (c->lanes.newest)
		ckc_lane_destroy(c->lanes.newest);
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

struct ckc_client *ckc_lane_client(const struct ckc_lane *lane)
{
	return lane->client;
}

bool ckc_lane_joining(const struct ckc_lane *lane)
{
	return lane->joining;
}

struct ck_chan *ckc_lane_chan(const struct ckc_lane *lane)
{
	return lane->chan;
}

struct ckc_lane *ckc_lane_pooled(struct ckc_client *c)
{
	struct ckc_lanes *lanes = &c->lanes;
	struct ckc_lane *lane;

	ck_lock(&lanes->lock);
	lane = lanes->pool;
	if (lane)
		lanes->pool = lane->next;
	ck_unlock(&lanes->lock);
	return lane;
}

/* The xid after @xid; 0 marks a delivery sent ahead of a reply. */
static uint32_t xid_after(const struct ckc_lane *lane, uint32_t xid)
{
	if (xid == JOIN_XID)
		return lane->first_xid;
	return xid == UINT32_MAX ? JOIN_XID : xid + 1;
}

uint32_t ckc_lane_xid(const struct ckc_lane *lane)
{
	return lane->sent;
}

int ckc_lane_send(struct ckc_lane *lane, struct ckc_exchange *x)
{
	static const unsigned char zero[4];
	struct iovec iov[3];
	long n;

	lane->busy = true;
	lane->idle = x->idle;
	for (;;) {
		unsigned char *bigger;

		n = ck_call_encode(lane->buf, lane->size, xid_after(lane, lane->sent), x->proc,
				   x->xdr_args, x->args, x->bulk_size);
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
	lane->sent = xid_after(lane, lane->sent);
	iov[0] = (struct iovec){lane->buf, (size_t)n};
	iov[1] = (struct iovec){(void *)(uintptr_t)x->bulk, x->bulk_size};
	iov[2] = (struct iovec){(void *)(uintptr_t)zero, -x->bulk_size & 3};
	if (x->fd)
		return ck_chan_writev_fd(lane->chan, iov, x->bulk_size ? 3 : 1, *x->fd);
	return ck_chan_lend(lane->chan, iov, x->bulk_size ? 3 : 1, x->passing ? -1 : 1);
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

int ckc_lane_send_join(struct ckc_lane *lane, struct ckc_exchange *x)
{
	int ret = ckc_lane_send(lane, x);

	lane->joining = ret == 0;
	return ret;
}

void ckc_lane_linked(struct ckc_lane *lane)
{
	lane->linked = lane->joining = true;
}

/* Read the reply to the join. -EACCES: the server refuses. */
static int take_join_reply(struct ckc_lane *lane)
{
	ck_join_res res = {.status = 1};
	struct ckc_exchange x = {.xdr_res = (xdrproc_t)xdr_ck_join_res, .res = &res};
	struct ck_record record;
	uint32_t xid;
	size_t offset;
	int ret;

	if (lane->linked) {
		ret = ck_lasting_greeted(lane->chan);
		lane->joining = ret < 0;
		return ret;
	}
	ckc_lane_timeout(lane, ckc_dial_timeout_ms());
	ret = next_reply(lane, &record, &xid, &offset);
	if (ret == 0)
		ret = xid == JOIN_XID ? take_results(lane, &record, offset, &x) : -EPROTO;
	if (ret == 0 && res.status != 0)
		ret = -EACCES;
	lane->answered = JOIN_XID;
	ckc_lane_timeout(lane, 0);
	lane->joining = ret < 0;
	return ret;
}

int ckc_lane_accept(struct ckc_lane *lane)
{
	return lane->joining ? take_join_reply(lane) : 0;
}

int ckc_lane_receive(struct ckc_lane *lane, struct ckc_exchange *x)
{
	struct ck_record record;
	uint32_t xid;
	size_t offset;
	int ret = unlikely(lane->joining) ? take_join_reply(lane) : 0;

	x->bulk_err = 0;
	lane->received = 0;
	lane->answered = xid_after(lane, lane->answered);
	xid = 0;
	while (ret == 0 && xid == 0) {
		ret = next_reply(lane, &record, &xid, &offset);
		if (ret == 0 && xid == 0)
			ret = take_along(lane, &record, offset);
	}
	if (ret == 0)
		ret = xid == lane->answered ? take_results(lane, &record, offset, x) : -EPROTO;
	lane->busy = lane->answered != lane->sent;
	if (!lane->busy || ret < 0)
		ck_chan_settle(lane->chan); /* the caller may reuse what it lent */
	return ret;
}

/* The shortest exchange is nearest to the network's round trip. */
static void note_round_trip(struct ckc_lanes *lanes, uint64_t ns)
{
	uint64_t shortest = atomic_load_explicit(&lanes->round_trip_ns, memory_order_relaxed);

	if (shortest == 0 || ns < shortest)
		atomic_store_explicit(&lanes->round_trip_ns, ns, memory_order_relaxed);
}

int ckc_lane_exchange(struct ckc_lane *lane, struct ckc_exchange *x)
{
	struct ckc_client *c = lane->client;
	uint64_t began = c->passes_fds ? 0 : ck_now_ns();
	int ret;

	ret = ckc_lane_send(lane, x);
	if (ret == 0)
		ret = ckc_lane_receive(lane, x);
	else
		lane->busy = false;
	if (ret < 0)
		ck_chan_settle(lane->chan);
	if (ret == 0 && began)
		note_round_trip(&c->lanes, ck_now_ns() - began);
	return ret;
}
