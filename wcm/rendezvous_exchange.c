/*
 * wcm/rendezvous_exchange.c - exchanges at the meeting place; see rendezvous.h and message.h.
 *
 * An exchange does not wait for a rank that has gone: its other ranks are notified. The same holds
 * for ranks that wait for each other in a circle.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wcm/rendezvous_state.h"
#include "wcm/wcm.h"

uint32_t ck_wcm_rendezvous_all(const struct ck_wcm_rendezvous *m)
{
	return (1u << m->size) - 1;
}

/* Those that have come and gone. */
static uint32_t gone_ranks(const struct ck_wcm_rendezvous *m)
{
	return m->came & ~m->here;
}

void ck_wcm_rendezvous_notify(struct ck_wcm_rendezvous *m, int rank,
			      const struct ck_wcm_message *head, const void *bytes, size_t size,
			      const int *fds, unsigned int count)
{
	struct ck_wcm_rendezvous_rank *r = &m->ranks[rank];

	if (r->sock >= 0 && ck_wcm_send(r->sock, head, bytes, size, fds, count, MSG_DONTWAIT) < 0)
		shutdown(r->sock, SHUT_RDWR); /* the loop handles its end later */
}

/* --- exchanges */

static void leave_exchange(struct ck_wcm_rendezvous_rank *r)
{
	r->waiting = false;
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

static void fail_rank(struct ck_wcm_rendezvous *m, int rank, int status)
{
	struct ck_wcm_message head;

	ck_wcm_message_init(&head, CK_WCM_EXCHANGED);
	head.serial = m->ranks[rank].serial;
	head.status = status;
	leave_exchange(&m->ranks[rank]);
	ck_wcm_rendezvous_notify(m, rank, &head, NULL, 0, NULL, 0);
}

static bool same_exchange(const struct ck_wcm_rendezvous_rank *a,
			  const struct ck_wcm_rendezvous_rank *b)
{
	return a->waiting && b->waiting && a->mask == b->mask;
}

/* Who of @mask has come to its exchange. */
static uint32_t find_waiting_ranks(const struct ck_wcm_rendezvous *m, uint32_t mask)
{
	uint32_t found = 0;

	for (int i = 0; i < m->size; i++) {
		if ((mask >> i & 1) && m->ranks[i].waiting && m->ranks[i].mask == mask)
			found |= 1u << i;
	}
	return found;
}

/* All have come: everybody gets everything. */
static void complete_exchange(struct ck_wcm_rendezvous *m, uint32_t mask)
{
	struct ck_wcm_packet *p = &m->packet;
	int fds[WCM_RANKS_MAX], first = __builtin_ctz(mask);
	unsigned int fd_count = 0;
	size_t at = 0;

	ck_wcm_message_init(&p->head, CK_WCM_EXCHANGED);
	p->head.number = ++m->number;
	p->head.mask = mask;
	p->head.size = m->ranks[first].size;
	for (int i = first; i < m->size; i++) {
		struct ck_wcm_rendezvous_rank *r = &m->ranks[i];

		if (!(mask >> i & 1))
			continue;
		if (r->size != p->head.size)
			p->head.status = WCM_EMISMATCH;
		memcpy(p->bytes + at, r->bytes, r->size);
		at += r->size;
		if (r->fd >= 0) {
			p->head.fds |= 1u << i;
			fds[fd_count++] = r->fd;
		}
	}
	if (p->head.status != WCM_OK) {
		at = fd_count = 0;
		p->head.fds = 0;
	}
	for (int i = first; i < m->size; i++) {
		if (!(mask >> i & 1))
			continue;
		p->head.serial = m->ranks[i].serial;
		ck_wcm_rendezvous_notify(m, i, &p->head, p->bytes, at, fds, fd_count);
	}
	for (int i = first; i < m->size; i++) {
		if (mask >> i & 1)
			leave_exchange(&m->ranks[i]);
	}
}

static void fail_exchange(struct ck_wcm_rendezvous *m, uint32_t mask, int status)
{
	uint32_t who = find_waiting_ranks(m, mask);

	for (int i = 0; i < m->size; i++) {
		if (who >> i & 1)
			fail_rank(m, i, status);
	}
}

/*
 * Ranks that wait for each other in different exchanges would never finish. An exchange can still
 * complete if all missing ranks are free, or are in one that can still complete.
 */
static void end_circles(struct ck_wcm_rendezvous *m)
{
	uint32_t hopeful = 0, before; /* ranks that wait, but may come out of it */
	int i, k;

	do {
		before = hopeful;
		for (i = 0; i < m->size; i++) {
			const struct ck_wcm_rendezvous_rank *r = &m->ranks[i];
			bool may = r->waiting;

			for (k = 0; k < m->size && may; k++) {
				if (r->mask >> k & 1)
					may = !m->ranks[k].waiting ||
					      same_exchange(r, &m->ranks[k]) || (hopeful >> k & 1);
			}
			if (may)
				hopeful |= 1u << i;
		}
	} while (hopeful != before);
	for (i = 0; i < m->size; i++) {
		if (m->ranks[i].waiting && !(hopeful >> i & 1))
			fail_rank(m, i, WCM_EMISMATCH);
	}
}

static void look_at_exchanges(struct ck_wcm_rendezvous *m)
{
	for (int i = 0; i < m->size; i++) {
		uint32_t mask = m->ranks[i].mask;

		if (!m->ranks[i].waiting)
			continue;
		if (mask & gone_ranks(m))
			fail_exchange(m, mask, WCM_EPEERLOST);
		else if (find_waiting_ranks(m, mask) == mask)
			complete_exchange(m, mask);
	}
	end_circles(m);
}

void ck_wcm_rendezvous_exchange(struct ck_wcm_rendezvous *m, int rank,
				const struct ck_wcm_packet *p, int fd)
{
	struct ck_wcm_rendezvous_rank *r = &m->ranks[rank];

	r->serial = p->head.serial;
	r->mask = p->head.mask;
	r->size = p->head.size;
	r->fd = fd;
	r->waiting = true;
	memcpy(r->bytes, p->bytes, p->head.size);
	look_at_exchanges(m);
}

void ck_wcm_rendezvous_cancel(struct ck_wcm_rendezvous *m, int rank, uint64_t serial)
{
	const struct ck_wcm_rendezvous_rank *r = &m->ranks[rank];

	if (r->waiting && r->serial == serial)
		fail_exchange(m, r->mask, WCM_ETIMEDOUT);
}

/* --- objects */

static void look_at_object(struct ck_wcm_rendezvous *m, struct ck_wcm_rendezvous_object **at)
{
	struct ck_wcm_rendezvous_object *o = *at;
	struct ck_wcm_message head;

	if ((o->mask & ~(o->done | gone_ranks(m))) != 0)
		return;
	ck_wcm_message_init(&head, CK_WCM_RELEASED);
	head.number = o->number;
	head.mask = o->mask & ~o->done;
	for (int i = 0; i < m->size; i++) {
		if (o->done >> i & 1)
			ck_wcm_rendezvous_notify(m, i, &head, NULL, 0, NULL, 0);
	}
	*at = o->next;
	free(o);
}

/* Without memory for that it is never released: no harm is done. */
void ck_wcm_rendezvous_done(struct ck_wcm_rendezvous *m, int rank, uint64_t number, uint32_t mask)
{
	struct ck_wcm_rendezvous_object **at = &m->objects, *o;

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	o = *at;
	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return;
		o->number = number;
		o->mask = mask;
		*at = o;
	}
	o->done |= 1u << rank & o->mask;
	look_at_object(m, at);
}

static void look_at_objects(struct ck_wcm_rendezvous *m)
{
	struct ck_wcm_rendezvous_object **at = &m->objects, *o;

	while ((o = *at) != NULL) {
		look_at_object(m, at);
		if (*at == o)
			at = &o->next;
	}
}

void ck_wcm_rendezvous_without(struct ck_wcm_rendezvous *m, int rank)
{
	leave_exchange(&m->ranks[rank]);
	look_at_objects(m);
	look_at_exchanges(m);
}

void ck_wcm_rendezvous_forget(struct ck_wcm_rendezvous *m)
{
	struct ck_wcm_rendezvous_object *o;

	for (int i = 0; i < m->size; i++)
		leave_exchange(&m->ranks[i]);
	while ((o = m->objects) != NULL) {
		m->objects = o->next;
		free(o);
	}
}
