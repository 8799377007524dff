/*
 * client/cupti/calls.c - records of the program's driver calls, with the ids that the program has pushed.
 *
 * A call is recorded by its message, so calls that the client answers itself have no record. The number that
 * ties it to records of the GPU follows from the message's number on the server.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cupti/cupti.h"
#include "client/wire/hooks.h"
#include "client/wire/profile.h"
#include "cricket.h"
#include "rpc/activity.h"

#define PUSHED 32
#define PIECES_MAX 4096 /* 256 MiB that the program has not flushed */

static __thread struct {
	uint32_t kind;
	uint64_t id;
} pushed[PUSHED] __attribute__((tls_model("initial-exec")));
static __thread unsigned int depth __attribute__((tls_model("initial-exec")));
static __thread uint32_t thread_id __attribute__((tls_model("initial-exec")));

/* CUPTI's numbers of driver calls, by message; 0: the message is not a call of its own. */
static const uint16_t call_ids[CK_PROC_END] = {
#define CKC_CUPTI_CALL(name, id) [CK_PROC_##name] = (id),
#include "client/cupti/call_ids.def"
};

/* Lock held. */
static void *reserve(struct ckc_cupti *s, size_t size)
{
	struct ckc_cupti_piece *p = s->last;
	void *at;

	if (!p || sizeof(p->bytes) - p->size < size) {
		p = s->pieces < PIECES_MAX ? malloc(sizeof(*p)) : NULL;
		if (!p) {
			s->dropped++;
			return NULL;
		}
		p->next = NULL;
		p->size = 0;
		if (s->last)
			s->last->next = p;
		else
			s->first = p;
		s->last = p;
		s->pieces++;
	}
	at = p->bytes + p->size;
	p->size += size;
	return at;
}

void ckc_cupti_note(struct ckc_cupti *s, const void *record, size_t size)
{
	void *at;

	ck_lock(&s->lock);
	at = reserve(s, size);
	if (at)
		memcpy(at, record, size);
	ck_unlock(&s->lock);
}

static uint32_t own_thread(void)
{
	if (thread_id == 0)
		thread_id = (uint32_t)gettid();
	return thread_id;
}

void ckc_cupti_note_api(struct ckc_cupti *s, struct ck_cupti_api *api)
{
	api->process = (uint32_t)getpid();
	api->thread = own_thread();
	ckc_cupti_note(s, api, sizeof(*api));
}

struct ckc_cupti_piece *ckc_cupti_calls_take(struct ckc_cupti *s)
{
	struct ckc_cupti_piece *first;

	ck_lock(&s->lock);
	first = s->first;
	s->first = s->last = NULL;
	s->pieces = 0;
	ck_unlock(&s->lock);
	return first;
}

CUptiResult ckc_cupti_push(uint32_t kind, uint64_t id)
{
	if (depth == PUSHED)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	pushed[depth].kind = kind;
	pushed[depth++].id = id;
	return CUPTI_SUCCESS;
}

/* Each kind has a stack of its own. */
CUptiResult ckc_cupti_pop(uint32_t kind, uint64_t *id)
{
	unsigned int at = depth;

	while (at > 0 && pushed[at - 1].kind != kind)
		at--;
	if (at == 0)
		return CUPTI_ERROR_QUEUE_EMPTY;
	if (id)
		*id = pushed[at - 1].id;
	memmove(&pushed[at - 1], &pushed[at], (depth - at) * sizeof(pushed[0]));
	depth--;
	return CUPTI_SUCCESS;
}

/* The newest id of each kind. */
static void note_pushed(struct ckc_cupti *s, uint32_t correlation)
{
	uint32_t seen = 0;

	for (unsigned int at = depth; at > 0; at--) {
		struct ck_cupti_external external = {
			.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
			.external_kind = pushed[at - 1].kind,
			.external = pushed[at - 1].id,
			.correlation = correlation,
		};

		if (seen >> external.external_kind & 1)
			continue;
		seen |= 1u << external.external_kind;
		ckc_cupti_note(s, &external, sizeof(external));
	}
}

/* A wait within a call of the runtime does not give that call its number. */
static bool is_wait(uint32_t proc)
{
	return proc == CK_PROC_cuStreamSynchronize || proc == CK_PROC_cuCtxSynchronize ||
	       proc == CK_PROC_cuEventSynchronize;
}

static void note_message(struct ckc_cupti *s, const struct ckc_message *m)
{
	struct ckc_cupti_message record = {
		.kind = CKC_CUPTI_MESSAGE,
		.proc = m->proc,
		.start = m->began,
		.end = ckc_cupti_clock(),
		.thread = own_thread(),
		.sent = m->sent,
		.received = m->received,
		.result = (uint32_t)m->err,
		.waits = m->waits,
	};

	ckc_cupti_note(s, &record, sizeof(record));
	atomic_fetch_add_explicit(&s->own.messages, 1, memory_order_relaxed);
}

/* Messages of the profile itself do not belong to it. */
static bool is_ours(uint32_t proc)
{
	return proc == CK_PROC_profile || proc == CK_PROC_profile_clock ||
	       proc == CK_PROC_profile_fetch;
}

static void on_message(const struct ckc_message *m)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;
	struct ck_cupti_api api = {
		.kind = CUPTI_ACTIVITY_KIND_DRIVER,
		.call = call_ids[m->proc],
		.start = m->began,
		.correlation = ckc_cupti_correlation(m->id),
		.result = (uint32_t)m->err,
	};

	if (ckc_cupti_wants(s, CKC_CUPTI_MESSAGE) && !is_ours(m->proc))
		note_message(s, m);
	if (api.call == 0)
		return;
	if (ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
		note_pushed(s, api.correlation);
	if (ckc_cupti_runtime_inside(api.correlation, !is_wait(m->proc)) ||
	    !ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_DRIVER))
		return;
	api.end = ckc_cupti_clock();
	ckc_cupti_note_api(s, &api);
}
CK_HOOK(message, on_message, ckc_cupti_clock, on_message);
