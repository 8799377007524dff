/*
 * command/offer.c - ask a server what it could give; see offer.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "command/command.h"
#include "command/offer.h"
#include "command/reach.h"
#include "cricket.h"
#include "rpc/chan.h"
#include "rpc/record.h"
#include "util/text.h"
#include "util/util.h"

#define SILENCE_MS 10000
#define XID 1

static int send_question(struct ck_chan *chan, const struct ckx_server *server)
{
	ck_offer_args args = {
		.token = {(u_int)strlen(server->token), (char *)(uintptr_t)server->token},
		.release = (char *)(uintptr_t)CK_RELEASE,
	};
	char out[CKX_TOKEN + 512];
	long size = ck_call_encode(out, sizeof(out), XID, CK_OFFER, (xdrproc_t)xdr_ck_offer_args,
				   &args, 0);
	struct iovec iov = {out, (size_t)size};
	int ret = size < 0 ? (int)size : ck_chan_writev(chan, &iov, 1);

	explicit_bzero(out, sizeof(out));
	return ret;
}

static void take(const ck_offer_res *res, struct ckx_offer *o)
{
	o->admission =
		res->status == CK_OFFER_DENIED ? CKX_ADMISSION_DENIED : CKX_ADMISSION_GRANTED;
	o->answers = res->status == CK_OFFER_OK;
	o->ready = o->answers && res->ready;
	ck_text_copy(o->why, sizeof(o->why), res->message);
	ck_text_copy(o->release, sizeof(o->release), res->release);
	o->sessions = res->sessions;
	o->most = res->most;
	o->waiting = res->waiting;
	o->count = o->answers ? ck_min(res->gpus.gpus_len, (u_int)CKX_OFFER_GPUS) : 0;
	for (unsigned int i = 0; i < o->count; i++) {
		const ck_offer_gpu *g = &res->gpus.gpus_val[i];

		ck_text_copy(o->gpus[i].name, sizeof(o->gpus[i].name), g->name);
		o->gpus[i].memory = g->memory;
		o->gpus[i].free = ck_min(g->free, g->memory);
		o->gpus[i].programs = g->programs;
		o->gpus[i].utilization =
			g->utilization >= 0 && g->utilization <= 100 ? g->utilization : -1;
	}
}

int ckx_offer_decode(const unsigned char *body, size_t size, struct ckx_offer *o)
{
	ck_offer_res res = {0};
	uint32_t xid, low, high;
	size_t results;
	XDR xdrs;
	int ret = ck_reply_decode(body, size, &xid, &results, &low, &high);

	memset(o, 0, sizeof(*o));
	if (ret == 0 && xid != XID)
		ret = -EPROTO;
	if (ret < 0)
		return ret;
	xdrmem_create(&xdrs, (char *)(uintptr_t)body + results, (u_int)(size - results),
		      XDR_DECODE);
	if (xdr_ck_offer_res(&xdrs, &res))
		take(&res, o);
	else
		ret = -EPROTO;
	xdr_free((xdrproc_t)xdr_ck_offer_res, &res);
	return ret;
}

static int hear(struct ck_chan *chan, struct ckx_offer *o)
{
	struct ck_reader *reader;
	struct ck_record record;
	int ret = ck_reader_create(chan, &reader);

	if (ret < 0)
		return ret;
	ret = ck_reader_next(reader, &record);
	if (ret == 0)
		ret = ckx_offer_decode(record.body, record.body_size, o);
	ck_reader_destroy(reader);
	return ret;
}

void ckx_offer_ask(const struct ckx_server *server, struct ckx_offer *o)
{
	struct ckx_reach reach;
	struct ck_chan *chan;
	int ret = ckx_reach_dial(server, &reach, &chan);

	memset(o, 0, sizeof(*o));
	if (ret < 0) {
		o->error = reach.error;
		ck_text_copy(o->why, sizeof(o->why), reach.why);
		return;
	}
	ck_chan_timeout(chan, SILENCE_MS);
	ret = send_question(chan, server);
	if (ret == 0)
		ret = hear(chan, o);
	ck_chan_close(chan);
	if (ret == -EOPNOTSUPP) {
		o->admission = CKX_ADMISSION_OLD;
		snprintf(o->why, sizeof(o->why), "its release is too old to report its GPUs");
	} else if (ret < 0) {
		snprintf(o->why, sizeof(o->why), "it does not answer: %s", strerror(-ret));
	}
}
