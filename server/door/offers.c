/*
 * server/door/offers.c - see offers.h.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "rpc/record.h"
#include "server/children/queue.h"
#include "server/children/workers.h"
#include "server/door/answer.h"
#include "server/door/offers.h"
#include "server/door/request.h"
#include "server/options/options.h"
#include "server/session/version.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

static void send_reply(int fd, const struct cks_peeked *call, ck_offer_status status,
		       const char *why)
{
	ck_offer_res res = {
		.status = status,
		.message = (char *)(uintptr_t)why,
		.release = (char *)(uintptr_t)CK_RELEASE,
	};

	cks_answer(fd, call, (xdrproc_t)xdr_ck_offer_res, &res);
}

/* The part of a GPU with @memory that the policy leaves this identity: its sessions count as if
 * they were all on this one. */
static uint64_t quota_of(struct cks_admission *a, const struct cks_owner *owner, uint64_t memory)
{
	const struct cks_terms *terms = cks_workers_identity_terms(a->workers, &owner->identity);
	uint64_t most = terms->memory ? terms->memory : UINT64_MAX, used = 0;

	if (terms->percent)
		most = ck_min(most, memory / 100 * terms->percent);
	for (struct cks_session_info *s = NULL;
	     most != UINT64_MAX && (s = cks_workers_next(a->workers, s)) != NULL;) {
		if (ck_hash_equal(&s->owner.identity.key, &owner->identity.key))
			used += s->memory;
	}
	return most - ck_min(most, used);
}

static void fill_gpus(struct cks_admission *a, const struct cks_owner *owner,
		      const struct cks_gpu_probe_note *note, ck_offer_res *res,
		      ck_offer_gpu gpus[CK_GPU_PROBE_GPUS])
{
	for (uint32_t i = 0; i < note->count; i++) {
		const struct cks_gpu_probe_gpu *g = &note->gpus[i];

		gpus[i] = (ck_offer_gpu){
			.name = (char *)(uintptr_t)g->name,
			.memory = g->memory,
			.free = ck_min(g->free, quota_of(a, owner, g->memory)),
			.programs = g->programs,
			.utilization = g->utilization,
		};
	}
	res->gpus.gpus_len = note->count;
	res->gpus.gpus_val = gpus;
}

static void send_offer(struct cks_admission *a, int fd, const struct cks_owner *owner,
		       const struct cks_peeked *call, const struct cks_gpu_probe_note *note)
{
	ck_offer_gpu gpus[CK_GPU_PROBE_GPUS];
	char why[CK_WHY_SIZE] = "";
	ck_offer_res res = {
		.status = note->why[0] ? CK_OFFER_NONE : CK_OFFER_OK,
		.message = why,
		.release = (char *)(uintptr_t)CK_RELEASE,
		.ready = cks_admit_would(a, owner, why),
		.sessions = (u_int)cks_workers_serving(a->workers),
		.most = a->draining ? 0 : (u_int)a->options->max_sessions,
		.waiting = (u_int)a->queue->count,
	};

	if (note->why[0])
		res.message = (char *)(uintptr_t)note->why;
	else
		fill_gpus(a, owner, note, &res, gpus);
	cks_answer(fd, call, (xdrproc_t)xdr_ck_offer_res, &res);
}

/* The client may ask. True: ask again in a moment. */
static bool try_offer(struct cks_offers *o, struct cks_admission *a, int fd,
		      const struct cks_owner *owner, const struct cks_peeked *call)
{
	const struct cks_terms *terms = cks_workers_identity_terms(a->workers, &owner->identity);
	const struct cks_gpu_probe_note *note;
	int ret = cks_gpu_probes_look(o, terms->gpus, 0, &note);

	if (ret == -EAGAIN)
		return true;
	if (ret == 0) {
		send_offer(a, fd, owner, call, note);
	} else {
		ck_err("starting a process that reads the state of the GPUs: %s", strerror(-ret));
		send_reply(fd, call, CK_OFFER_NONE, "the server cannot start another process");
	}
	return false;
}

void cks_offers_give_up(int fd, const struct cks_peeked *call)
{
	send_reply(fd, call, CK_OFFER_NONE, "the server's GPUs do not report their state");
}

bool cks_offers_serve(struct cks_offers *o, struct cks_admission *a, int fd,
		      const struct cks_peer *peer, const unsigned char *bytes,
		      const struct cks_peeked *call)
{
	struct cks_owner owner = {.peer = *peer};
	ck_offer_args args = {0};
	char why[CK_WHY_SIZE];
	bool again = false;
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)(uintptr_t)bytes + call->args, (u_int)call->args_size,
		      XDR_DECODE);
	if (xdr_ck_offer_args(&xdrs, &args)) {
		const struct cks_request request = {"cricket servers",
						    "a request about the GPUs is refused",
						    args.token.token_val, args.token.token_len};

		if (cks_request_admit(a, fd, &request, &owner, why))
			again = try_offer(o, a, fd, &owner, call);
		else
			send_reply(fd, call, CK_OFFER_DENIED, why);
	}
	xdr_free((xdrproc_t)xdr_ck_offer_args, &args);
	return again;
}
