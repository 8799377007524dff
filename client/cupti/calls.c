/*
 * client/cupti/calls.c - records of calls wait here for a flush; ids that the program has pushed.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cupti/cupti.h"

#define PIECES_MAX 4096 /* 256 MiB that the program has not flushed */

/* Lock held. */
static void *reserve_record(struct ckc_cupti *s, size_t size)
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
	at = reserve_record(s, size);
	if (at)
		memcpy(at, record, size);
	ck_unlock(&s->lock);
}

uint32_t ckc_cupti_thread(void)
{
	struct ckc_cupti_self *self = ckc_cupti_self();

	if (!self)
		return (uint32_t)gettid();
	if (self->number == 0)
		self->number = (uint32_t)gettid();
	return self->number;
}

void ckc_cupti_note_api(struct ckc_cupti *s, struct ck_cupti_api *api)
{
	api->process = (uint32_t)getpid();
	api->thread = ckc_cupti_thread();
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
	struct ckc_cupti_self *self = ckc_cupti_self();

	if (!self || self->pushes == CKC_CUPTI_PUSHED)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	self->pushed[self->pushes].kind = kind;
	self->pushed[self->pushes++].id = id;
	return CUPTI_SUCCESS;
}

/* Each kind has a stack of its own. */
CUptiResult ckc_cupti_pop(uint32_t kind, uint64_t *id)
{
	struct ckc_cupti_self *self = ckc_cupti_self();
	unsigned int at = self ? self->pushes : 0;

	while (at > 0 && self->pushed[at - 1].kind != kind)
		at--;
	if (at == 0)
		return CUPTI_ERROR_QUEUE_EMPTY;
	if (id)
		*id = self->pushed[at - 1].id;
	memmove(&self->pushed[at - 1], &self->pushed[at],
		(self->pushes - at) * sizeof(self->pushed[0]));
	self->pushes--;
	return CUPTI_SUCCESS;
}

void ckc_cupti_note_pushed(struct ckc_cupti *s, uint32_t correlation)
{
	const struct ckc_cupti_self *self = ckc_cupti_self();
	uint32_t seen = 0;

	for (unsigned int at = self ? self->pushes : 0; at > 0; at--) {
		struct ck_cupti_external external = {
			.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
			.external_kind = self->pushed[at - 1].kind,
			.external = self->pushed[at - 1].id,
			.correlation = correlation,
		};

		if (seen >> external.external_kind & 1)
			continue;
		seen |= 1u << external.external_kind;
		ckc_cupti_note(s, &external, sizeof(external));
	}
}
