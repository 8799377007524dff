/*
 * server/direct/direct.c - the client's messages about bridges, and copies over them.
 *
 * These calls do not pass the gate: they wait for the network and for the other worker. The threads
 * of a bridge pass it for each piece.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "rpc/chan.h"
#include "rpc/tls.h"
#include "server/direct/bridge.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define OWN_ADDRESSES 2048 /* bytes of text */
#define BITMAP_MAX ((size_t)16 << 20)

CUresult ck_serve_direct_ticket(struct cks_request *q, ck_direct_ticket_args *a,
				ck_direct_ticket_res *res)
{
	struct cks_direct *d = q->session->direct;
	struct cks_bridge *b;

	if (a->count == 0 || a->count > CK_BRIDGE_WIDTH)
		return CUDA_ERROR_INVALID_VALUE;
	res->tickets.tickets_val = malloc((size_t)a->count * CK_TICKET);
	res->addresses.addresses_val = malloc(OWN_ADDRESSES);
	if (!res->tickets.tickets_val || !res->addresses.addresses_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	b = cks_bridge_create(d, a->count);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (cks_bridge_issue(d, b, (unsigned char *)res->tickets.tickets_val) < 0) {
		cks_bridge_break(b);
		cks_bridge_put(b);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	res->tickets.tickets_len = a->count * CK_TICKET;
	res->addresses.addresses_len =
		(u_int)cks_dial_own(d, res->addresses.addresses_val, OWN_ADDRESSES);
	res->bridge = b->number;
	cks_bridge_put(b);
	return CUDA_SUCCESS;
}

/* All connections are there: they are the bridge's. */
static CUresult take_all(struct cks_bridge *b, struct ck_chan **chans)
{
	int ret = 0;

	for (unsigned int i = 0; i < b->width; i++)
		cks_bridge_place(b, i, chans[i]);
	for (unsigned int i = 0; ret == 0 && i < b->width; i++)
		ret = cks_bridge_start(&b->ends[i]);
	return ret == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult ck_serve_direct_dial(struct cks_request *q, ck_direct_dial_args *a,
			      ck_direct_dial_res *res)
{
	struct ck_chan *chans[CK_BRIDGE_WIDTH] = {NULL};
	char pin[CK_TLS_PIN] = "";
	struct cks_dial dial = {.addresses = a->addresses.addresses_val,
				.addresses_size = a->addresses.addresses_len,
				.pin = pin,
				.session = (unsigned char *)a->session.session_val,
				.tickets = (unsigned char *)a->tickets.tickets_val,
				.count = a->tickets.tickets_len / CK_TICKET};
	struct cks_bridge *b;
	CUresult err;

	if (a->session.session_len != CK_ID || a->tickets.tickets_len % CK_TICKET ||
	    dial.count == 0 || dial.count > CK_BRIDGE_WIDTH || a->pin.pin_len >= sizeof(pin))
		return CUDA_ERROR_INVALID_VALUE;
	if (a->pin.pin_len > 0)
		memcpy(pin, a->pin.pin_val, a->pin.pin_len);
	if (pin[0] && !ck_tls_is_pin(pin))
		return CUDA_ERROR_INVALID_VALUE;
	b = cks_bridge_create(q->session->direct, dial.count);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = CUDA_ERROR_OPERATING_SYSTEM;
	if (cks_dial(q->session->direct, &dial, chans) == 0)
		err = take_all(b, chans);
	b->tls = dial.tls;
	if (err)
		cks_bridge_break(b);
	res->bridge = b->number;
	cks_bridge_put(b);
	return err;
}

CUresult ck_serve_direct_end(struct cks_request *q, ck_direct_end_args *a, ck_direct_end_res *res)
{
	struct cks_bridge *b = cks_bridge_get(q->session->direct, a->bridge);

	(void)res;
	if (!b)
		return CUDA_SUCCESS; /* it has failed by itself */
	cks_bridge_break(b);
	cks_bridge_put(b);
	return CUDA_SUCCESS;
}

/* --- copies */

/* The context and stream of @part; the call itself binds none. */
static CUresult find_place(struct cks_request *q, uint64_t stream, struct cks_part *part)
{
	part->ctx = q->ctx;
	if (!cks_context_find(q, q->ctx, &part->context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!cks_stream_serial(q, stream, &part->stream, &part->serial))
		return CUDA_ERROR_INVALID_HANDLE;
	return CUDA_SUCCESS;
}

static CUresult map_pieces(struct cks_part *part)
{
	size_t piece = cks_transfer_piece(part), count;

	if (part->sends || !part->walk.flat || piece == 0)
		return CUDA_SUCCESS;
	count = part->walk.total / piece + 1; /* the client's size may be any number */
	if (count / 8 >= BITMAP_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	part->arrived = calloc(count / 8 + 1, 1);
	return part->arrived ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Carry out a copy, if @err is none. Otherwise the other end, which waits, hears of it by the end
 * of the bridge. */
static CUresult carry_out(struct cks_request *q, uint64_t bridge, uint64_t stream,
			  struct cks_part *part, CUresult err)
{
	struct cks_bridge *b = cks_bridge_get(q->session->direct, bridge);

	if (!b)
		return err ? err : CUDA_ERROR_OPERATING_SYSTEM;
	if (!err)
		err = find_place(q, stream, part);
	if (!err && part->walk.total == 0)
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = map_pieces(part);
	if (err)
		cks_bridge_break(b);
	else
		err = cks_bridge_run(b, part);
	free(part->arrived);
	cks_bridge_put(b);
	return err;
}

CUresult ck_serve_direct_send(struct cks_request *q, ck_direct_send_args *a,
			      ck_direct_send_res *res)
{
	struct cks_part part = {.sends = true, .number = a->number};

	(void)res;
	cks_copy_iterator_flat(&part.walk, false, a->src, a->size);
	return carry_out(q, a->bridge, a->stream, &part, CUDA_SUCCESS);
}

CUresult ck_serve_direct_receive(struct cks_request *q, ck_direct_receive_args *a,
				 ck_direct_receive_res *res)
{
	struct cks_part part = {.number = a->number};

	(void)res;
	cks_copy_iterator_flat(&part.walk, true, a->dst, a->size);
	return carry_out(q, a->bridge, a->stream, &part, CUDA_SUCCESS);
}

CUresult ck_serve_direct_send_3d(struct cks_request *q, ck_direct_send_3d_args *a,
				 ck_direct_send_3d_res *res)
{
	struct cks_part part = {.sends = true, .number = a->number};
	CUDA_MEMCPY3D copy;
	CUresult err = cks_copy_decode(q, a->copy, &copy);

	(void)res;
	if (!err)
		err = cks_copy_iterator_box(&part.walk, false, &copy);
	return carry_out(q, a->bridge, a->stream, &part, err);
}

CUresult ck_serve_direct_receive_3d(struct cks_request *q, ck_direct_receive_3d_args *a,
				    ck_direct_receive_3d_res *res)
{
	struct cks_part part = {.number = a->number};
	CUDA_MEMCPY3D copy;
	CUresult err = cks_copy_decode(q, a->copy, &copy);

	(void)res;
	if (!err)
		err = cks_copy_iterator_box(&part.walk, true, &copy);
	return carry_out(q, a->bridge, a->stream, &part, err);
}
