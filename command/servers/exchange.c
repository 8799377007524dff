/*
 * command/servers/exchange.c - see exchange.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "command/servers/exchange.h"
#include "cricket.h"
#include "rpc/chan.h"
#include "rpc/record.h"

#define SILENCE_MS 10000
#define XID 1
#define ARGUMENTS 1024 /* without the token */

static int send_question(struct ck_chan *chan, const struct ckx_exchange *x)
{
	char out[CKX_TOKEN + ARGUMENTS];
	long size = ck_call_encode(out, sizeof(out), XID, x->proc, x->code_args, x->args, 0);
	struct iovec iov = {out, (size_t)size};
	int ret = size < 0 ? (int)size : ck_chan_writev(chan, &iov, 1);

	explicit_bzero(out, sizeof(out)); /* it has the token */
	return ret;
}

int ckx_exchange_decode(const unsigned char *body, size_t size, xdrproc_t code_res, void *res)
{
	uint32_t xid, low, high;
	size_t results;
	XDR xdrs;
	int ret = ck_reply_decode(body, size, &xid, &results, &low, &high);

	if (ret < 0 || xid != XID)
		return ret < 0 ? ret : -EPROTO;
	xdrmem_create(&xdrs, (char *)(uintptr_t)body + results, (u_int)(size - results),
		      XDR_DECODE);
	return code_res(&xdrs, res) ? 0 : -EPROTO;
}

static int read_answer(struct ck_chan *chan, const struct ckx_exchange *x)
{
	struct ck_reader *reader;
	struct ck_record record;
	int ret = ck_reader_create(chan, &reader);

	if (ret < 0)
		return ret;
	ret = ck_reader_next(reader, &record);
	if (ret == 0)
		ret = ckx_exchange_decode(record.body, record.body_size, x->code_res, x->res);
	ck_reader_destroy(reader);
	return ret;
}

int ckx_exchange(const struct ckx_server *server, const struct ckx_exchange *x,
		 struct ckx_connection *reach)
{
	struct ck_chan *chan;
	int ret = ckx_connection_dial(server, reach, &chan);

	if (ret < 0)
		return ret;
	ck_chan_timeout(chan, SILENCE_MS);
	ret = send_question(chan, x);
	if (ret == 0)
		ret = read_answer(chan, x);
	ck_chan_close(chan);
	if (ret == -EOPNOTSUPP)
		snprintf(reach->why, sizeof(reach->why), "its release is too old %s", x->purpose);
	else if (ret < 0 && !ck_chan_helper_ended(reach->at, reach->why, sizeof(reach->why)))
		snprintf(reach->why, sizeof(reach->why), "it does not answer: %s",
			 ckx_connection_error(ret));
	return ret;
}
