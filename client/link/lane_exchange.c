/*
 * client/link/lane_exchange.c - a call on a lane and its reply; the reply to the lane's join
 * before the first one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/link/dial.h"
#include "client/link/hooks.h"
#include "client/link/lane.h"
#include "client/link/lane_part.h"
#include "rpc/chan.h"
#include "rpc/lasting.h"
#include "rpc/record.h"
#include "util/log.h"
#include "util/process/private_fds.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define JOIN_XID 1 /* of a lane's first message */

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
		return ck_chan_writev_fd(lane->chan, iov, x->bulk_size ? 3 : 1,
					 ck_private_fd_number(x->fd));
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
	lane->sent = lane->answered = JOIN_XID; /* so that no call of any lane has it */
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
		ck_chan_reclaim(lane->chan); /* the caller may reuse the lent memory */
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
		ck_chan_reclaim(lane->chan);
	if (ret == 0 && began)
		note_round_trip(&c->lanes, ck_now_ns() - began);
	return ret;
}
