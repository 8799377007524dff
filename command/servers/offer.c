/*
 * command/servers/offer.c - ask a server for its offer; see offer.h.
 */
#include <errno.h>
#include <string.h>

#include "command/config/command.h"
#include "command/servers/exchange.h"
#include "command/servers/offer.h"
#include "cricket.h"
#include "util/text.h"
#include "util/util.h"

static void fill_offer(const ck_offer_res *res, struct ckx_offer *o)
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
	int ret = ckx_exchange_decode(body, size, (xdrproc_t)xdr_ck_offer_res, &res);

	memset(o, 0, sizeof(*o));
	if (ret == 0)
		fill_offer(&res, o);
	xdr_free((xdrproc_t)xdr_ck_offer_res, &res);
	return ret;
}

void ckx_offer_ask(const struct ckx_server *server, struct ckx_offer *o)
{
	ck_offer_args args = {
		.token = {(u_int)strlen(server->token), (char *)(uintptr_t)server->token},
		.release = (char *)(uintptr_t)CK_RELEASE,
	};
	ck_offer_res res = {0};
	const struct ckx_exchange exchange = {
		.proc = CK_OFFER,
		.purpose = "to report its GPUs",
		.code_args = (xdrproc_t)xdr_ck_offer_args,
		.code_res = (xdrproc_t)xdr_ck_offer_res,
		.args = &args,
		.res = &res,
	};
	struct ckx_connection reach;
	int ret = ckx_exchange(server, &exchange, &reach);

	*o = (struct ckx_offer){.error = reach.error};
	if (ret == 0)
		fill_offer(&res, o);
	else
		ck_text_copy(o->why, sizeof(o->why), reach.why);
	if (ret == -EOPNOTSUPP)
		o->admission = CKX_ADMISSION_OLD;
	xdr_free((xdrproc_t)xdr_ck_offer_res, &res);
}
