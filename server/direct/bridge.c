/*
 * server/direct/bridge.c - bridges: their connections and the threads of these.
 *
 * Each connection has a thread, which waits for copies. The user of a bridge counts as its user:
 * the list, each thread, each call. The last one frees it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/chan.h"
#include "rpc/tls.h"
#include "server/copy/staging.h"
#include "server/direct/bridge.h"
#include "server/session/locks.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define LEAVE_MS 2000		   /* for threads to close their connections */
#define ALL_FROM ((size_t)4 << 20) /* smaller copies use one connection */

int cks_direct_create(struct cks_session *session, struct cks_direct **out)
{
	struct cks_direct *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->session = session;
	d->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_DIRECT);
	*out = d;
	return 0;
}

void cks_direct_set_up(struct cks_direct *d, const struct cks_allowed_peers *allowed,
		       const char *const *listen, size_t count)
{
	d->allowed = allowed;
	d->listen = listen;
	d->listen_count = count;
}

void cks_direct_destroy(struct cks_direct *d)
{
	if (!d)
		return;
	cks_direct_leave(d);
	ck_lock(&d->lock);
	while (d->count > 0)
		ck_cond_wait(&d->gone, &d->lock);
	ck_unlock(&d->lock);
	ck_cond_destroy(&d->gone);
	ck_mutex_destroy(&d->lock);
	free(d);
}

/* Close bridges whose connections have not come in time. Call with the lock held; returns one to
 * break. */
static struct cks_bridge *find_stale(struct cks_direct *d, int64_t now)
{
	struct cks_bridge *b = d->bridges;

	while (b && (now < b->until || b->there == b->width))
		b = b->next;
	if (b)
		atomic_fetch_add(&b->users, 1);
	return b;
}

static void expire_bridges(struct cks_direct *d)
{
	int64_t now = ck_now_ms();
	struct cks_bridge *stale;

	do {
		ck_lock(&d->lock);
		stale = find_stale(d, now);
		ck_unlock(&d->lock);
		if (stale) {
			cks_bridge_break(stale);
			cks_bridge_put(stale);
		}
	} while (stale);
}

struct cks_bridge *cks_bridge_create(struct cks_direct *d, unsigned int width)
{
	struct cks_bridge *b;
	bool full;

	expire_bridges(d);
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_DIRECT_BRIDGE);
	b->owner = d;
	b->width = width;
	b->until = ck_now_ms() + CK_BRIDGE_TICKET_MS;
	atomic_store(&b->users, 2); /* the list, and the caller */
	for (unsigned int i = 0; i < width; i++)
		b->ends[i].bridge = b;
	ck_lock(&d->lock);
	full = d->count == CK_BRIDGES_MAX || d->ends + width > CK_BRIDGE_ENDS_MAX;
	if (!full) {
		d->count++;
		d->ends += width;
		b->number = ++d->numbers;
		b->next = d->bridges;
		d->bridges = b;
	}
	ck_unlock(&d->lock);
	if (!full)
		return b;
	free(b);
	return NULL;
}

struct cks_bridge *cks_bridge_get(struct cks_direct *d, uint64_t number)
{
	struct cks_bridge *b;

	ck_lock(&d->lock);
	for (b = d->bridges; b && b->number != number;)
		b = b->next;
	if (b)
		atomic_fetch_add(&b->users, 1);
	ck_unlock(&d->lock);
	return b;
}

/* No thread reads or writes it any more. */
static void close_end(struct cks_end *e)
{
	struct cks_direct *d = e->bridge->owner;
	struct ck_chan *chan;

	ck_lock(&e->bridge->lock);
	chan = e->chan;
	e->chan = NULL;
	ck_unlock(&e->bridge->lock);
	if (!chan)
		return;
	ck_chan_close(chan);
	ck_lock(&d->lock);
	d->open--;
	ck_cond_broadcast(&d->gone);
	ck_unlock(&d->lock);
}

void cks_bridge_put(struct cks_bridge *b)
{
	struct cks_direct *d = b->owner;
	unsigned int width = b->width;

	if (atomic_fetch_sub(&b->users, 1) > 1)
		return;
	for (unsigned int i = 0; i < b->width; i++)
		close_end(&b->ends[i]);
	ck_tls_destroy(b->tls);
	ck_cond_destroy(&b->changed);
	ck_mutex_destroy(&b->lock);
	free(b);
	ck_lock(&d->lock);
	d->count--;
	d->ends -= width;
	ck_cond_broadcast(&d->gone);
	ck_unlock(&d->lock);
}

/* True: it was listed. */
static bool unlist_bridge(struct cks_bridge *b)
{
	struct cks_direct *d = b->owner;
	struct cks_bridge **at = &d->bridges;
	bool found;

	ck_lock(&d->lock);
	while (*at && *at != b)
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = b->next;
	ck_unlock(&d->lock);
	return found;
}

void cks_bridge_break(struct cks_bridge *b)
{
	bool listed = unlist_bridge(b);

	ck_lock(&b->lock);
	atomic_store(&b->broken, true);
	for (unsigned int i = 0; i < b->width; i++) {
		if (b->ends[i].chan)
			ck_chan_shutdown(b->ends[i].chan);
	}
	ck_cond_broadcast(&b->changed);
	ck_unlock(&b->lock);
	cks_gate_wake(&b->owner->session->gate); /* its threads may wait there */
	if (listed)
		cks_bridge_put(b);
}

void cks_direct_leave(struct cks_direct *d)
{
	struct timespec until = ck_until(LEAVE_MS * CK_NS_PER_MS);
	struct cks_bridge *b;

	do {
		ck_lock(&d->lock);
		b = d->bridges;
		if (b)
			atomic_fetch_add(&b->users, 1);
		ck_unlock(&d->lock);
		if (b) {
			cks_bridge_break(b);
			cks_bridge_put(b);
		}
	} while (b);
	ck_lock(&d->lock);
	while (d->open > 0 && ck_cond_timedwait(&d->gone, &d->lock, &until) != ETIMEDOUT)
		;
	ck_unlock(&d->lock);
}

void cks_bridge_place(struct cks_bridge *b, unsigned int at, struct ck_chan *chan)
{
	ck_lock(&b->owner->lock);
	b->owner->open++;
	ck_unlock(&b->owner->lock);
	ck_lock(&b->lock);
	b->ends[at].chan = chan;
	ck_chan_timeout(chan, CK_BRIDGE_SILENCE_MS);
	if (b->broken)
		ck_chan_shutdown(chan);
	ck_unlock(&b->lock);
}

/* --- threads */

/* The copy in progress, if the thread of @e has to take part in it. Call with the bridge's lock
 * held. */
static struct cks_part *next_part(struct cks_end *e)
{
	struct cks_bridge *b = e->bridge;

	if (!b->part || b->turn == e->turn)
		return NULL;
	e->turn = b->turn;
	return e < b->ends + b->part->width ? b->part : NULL;
}

/* Call with the bridge's lock held; it is released during the transfer. */
static void take_part(struct cks_end *e, struct cks_part *part)
{
	struct cks_bridge *b = e->bridge;
	bool ok = !b->broken;

	ck_unlock(&b->lock);
	ok = ok && cks_transfer(e, part);
	if (!ok)
		cks_bridge_break(b); /* the other threads of the copy wait in vain */
	ck_lock(&b->lock);
	part->failed |= !ok;
	if (--part->left == 0)
		ck_cond_broadcast(&b->changed);
}

static void *serve_connection(void *data)
{
	struct cks_end *e = data;
	struct cks_bridge *b = e->bridge;
	struct cks_session *s = b->owner->session;
	struct cks_part *part;

	cks_gate_join(&s->gate, &e->pass);
	ck_lock(&b->lock);
	for (;;) {
		part = next_part(e);
		if (part)
			take_part(e, part);
		else if (b->broken)
			break;
		else
			ck_cond_wait(&b->changed, &b->lock);
	}
	ck_unlock(&b->lock);
	close_end(e);
	cks_staging_give(s->staging, e->ring);
	cks_gate_part(&s->gate, &e->pass);
	cks_bridge_put(b);
	return NULL;
}

int cks_bridge_start(struct cks_end *e)
{
	struct cks_bridge *b = e->bridge;
	pthread_attr_t attributes;
	pthread_t thread;
	int ret = -ENOMEM;

	e->ring = cks_staging_take(b->owner->session->staging);
	if (e->ring) {
		atomic_fetch_add(&b->users, 1);
		pthread_attr_init(&attributes);
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		ret = -pthread_create(&thread, &attributes, serve_connection, e);
		pthread_attr_destroy(&attributes);
	}
	if (ret == 0) {
		ck_lock(&b->lock);
		atomic_fetch_add(&b->there, 1);
		ck_cond_broadcast(&b->changed);
		ck_unlock(&b->lock);
		return 0;
	}
	if (e->ring) {
		cks_staging_give(b->owner->session->staging, e->ring);
		cks_bridge_put(b);
	}
	cks_bridge_break(b);
	ck_warn("no thread for a connection to another server: %s", strerror(-ret));
	return ret;
}

/* Can it carry a copy now? The threads of the last connections may be about to start. Call with the
 * lock held. */
static bool is_whole(struct cks_bridge *b)
{
	struct timespec until = ck_until(CK_BRIDGE_TICKET_MS * CK_NS_PER_MS);

	for (unsigned int i = 0; i < b->width; i++) {
		if (!b->ends[i].chan)
			return false;
	}
	while (!b->broken && !b->part && atomic_load(&b->there) < b->width) {
		if (ck_cond_timedwait(&b->changed, &b->lock, &until) == ETIMEDOUT)
			return false;
	}
	return !b->broken && !b->part;
}

CUresult cks_bridge_run(struct cks_bridge *b, struct cks_part *part)
{
	bool all = part->walk.flat && part->walk.total >= ALL_FROM, ok;

	ck_lock(&b->lock);
	ok = is_whole(b);
	if (ok) {
		part->width = part->left = all ? b->width : 1;
		b->part = part;
		b->turn++;
		ck_cond_broadcast(&b->changed);
		while (part->left > 0)
			ck_cond_wait(&b->changed, &b->lock);
		b->part = NULL;
		ok = !part->failed && (part->sends || part->received == part->walk.total);
	}
	ck_unlock(&b->lock);
	if (!ok)
		cks_bridge_break(b);
	if (part->err)
		return part->err;
	return ok ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
