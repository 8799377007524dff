/*
 * rpc/transport/lasting_link.c - a lasting channel begins, changes its connection, and ends; see
 * rpc/lasting.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rpc/transport/lasting.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

#define CLOSE_MS 1000

/* A wait of the connection for a second is one of the channel. */
static void relay_quiet(void *closure)
{
	struct ck_lasting *l = closure;

	if (l->base.quiet)
		l->base.quiet(l->base.quiet_closure);
}

static void lasting_awake(struct ck_chan *chan)
{
	struct ck_lasting *l = ck_lasting_of(chan);

	pthread_mutex_lock(&l->lock);
	if (l->inner)
		ck_chan_on_quiet(l->inner, relay_quiet, l);
	pthread_mutex_unlock(&l->lock);
}

static void lasting_spin(struct ck_chan *chan, unsigned int us)
{
	struct ck_lasting *l = ck_lasting_of(chan);

	pthread_mutex_lock(&l->lock);
	l->spin_us = us;
	l->spin_due = true;
	pthread_mutex_unlock(&l->lock);
}

static size_t lasting_pending(struct ck_chan *chan)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	size_t n;

	pthread_mutex_lock(&l->lock);
	n = ck_frames_ready(&l->in) + (l->inner ? ck_chan_pending(l->inner) : 0);
	pthread_mutex_unlock(&l->lock);
	return n;
}

static bool lasting_gone(struct ck_chan *chan)
{
	return ck_lasting_state(chan, NULL) == CK_LASTING_ENDED;
}

static void lasting_shutdown(struct ck_chan *chan)
{
	ck_lasting_give_up(chan, -EPIPE);
}

static void destroy_lasting(struct ck_lasting *l)
{
	ck_chan_close(l->inner);
	ck_replay_fini(&l->out);
	ck_frames_fini(&l->in);
	free(l);
}

static void lasting_close(struct ck_chan *chan)
{
	struct ck_lasting *l = ck_lasting_of(chan);

	if (l->process != getpid()) { /* the parent's threads may hold the lock */
		l->out.budget = NULL;
		destroy_lasting(l);
		return;
	}
	if (l->owner.closing)
		l->owner.closing(l->owner.closure, chan);
	ck_lasting_bye(chan, CLOSE_MS);
	pthread_mutex_lock(&l->lock);
	l->owner.changed = NULL;
	ck_lasting_end(l, -EPIPE);
	while (l->users > 0 || l->sleepers > 0) {
		ck_cond_broadcast(&l->changed);
		pthread_mutex_unlock(&l->lock);
		usleep(100); /* rare: normally no thread uses a channel that is closed */
		pthread_mutex_lock(&l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	ck_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	destroy_lasting(l);
}

static const struct ck_transport_ops lasting_ops = {
	.name = "lasting",
	.writev = ck_lasting_writev,
	.read = ck_lasting_read,
	.lend = ck_lasting_lend,
	.reclaim = ck_lasting_reclaim,
	.pending = lasting_pending,
	.awake = lasting_awake,
	.gone = lasting_gone,
	.spin = lasting_spin,
	.shutdown = lasting_shutdown,
	.close = lasting_close,
};

int ck_lasting_create(const char *peer, const struct ck_lasting_owner *owner, size_t limit,
		      struct ck_chan **chan)
{
	struct ck_lasting *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->base.ops = &lasting_ops;
	atomic_init(&l->base.down, false);
	snprintf(l->base.peer, sizeof(l->base.peer), "%s", peer);
	if (owner)
		l->owner = *owner;
	l->out.budget = l->owner.budget;
	l->process = getpid();
	l->out.limit = limit;
	pthread_mutex_init(&l->lock, NULL);
	*chan = &l->base;
	return 0;
}

void ck_lasting_detach(struct ck_chan *chan, uint64_t *received)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	struct ck_chan *old;

	pthread_mutex_lock(&l->lock);
	while (l->detaching)
		ck_lasting_sleep(l, -1);
	l->detaching = true;
	if (l->inner)
		ck_chan_shutdown(l->inner);
	ck_lasting_wake(l);
	while (l->users > 0)
		ck_lasting_sleep(l, -1);
	old = l->inner;
	l->inner = NULL;
	ck_private_fd_plain(&l->base.kept, -1);
	l->greets = false;
	ck_frames_restart(&l->in);
	*received = l->in.received;
	l->detaching = false;
	ck_lasting_wake(l);
	pthread_mutex_unlock(&l->lock);
	ck_chan_close(old);
}

static int may_attach(const struct ck_lasting *l, uint64_t received)
{
	if (l->ended)
		return -EPIPE;
	if (l->inner || l->detaching)
		return -EBUSY;
	if (received < l->out.from)
		return -ESTALE;
	return received > l->reached ? -EPROTO : 0;
}

int ck_lasting_fits(struct ck_chan *chan, uint64_t received)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	int ret;

	pthread_mutex_lock(&l->lock);
	ret = may_attach(l, received);
	pthread_mutex_unlock(&l->lock);
	return ret;
}

bool ck_lasting_reaches(struct ck_chan *chan, uint64_t received)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	bool reaches;

	pthread_mutex_lock(&l->lock);
	reaches = received <= l->reached;
	pthread_mutex_unlock(&l->lock);
	return reaches;
}

int ck_lasting_attach(struct ck_chan *chan, struct ck_chan *connection, uint64_t received,
		      bool greets)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	int ret;

	pthread_mutex_lock(&l->lock);
	ret = may_attach(l, received);
	if (ret == 0) {
		ck_replay_confirm(&l->out, received);
		l->sent = l->asked_for = received;
		l->told = l->in.received;
		l->in.heard = false;
		l->owes = false;
		l->inner = connection;
		ck_private_fd_share(&l->base.kept, &connection->kept);
		l->greets = greets;
		l->why = 0;
		l->spin_due = l->spin_us > 0;
		if (l->base.quiet)
			ck_chan_on_quiet(connection, relay_quiet, l);
		ck_lasting_wake(l);
	}
	pthread_mutex_unlock(&l->lock);
	if (ret < 0)
		ck_chan_close(connection);
	return ret;
}

bool ck_lasting_has_unsent(struct ck_chan *chan)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	bool behind;

	pthread_mutex_lock(&l->lock);
	behind = ck_lasting_up(l) && !l->writing && ck_lasting_unsent(l);
	pthread_mutex_unlock(&l->lock);
	return behind;
}

void ck_lasting_resend(struct ck_chan *chan)
{
	struct ck_lasting *l = ck_lasting_of(chan);

	pthread_mutex_lock(&l->lock);
	ck_lasting_transmit(l);
	pthread_mutex_unlock(&l->lock);
}

enum ck_lasting_state ck_lasting_state(struct ck_chan *chan, int *why)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	enum ck_lasting_state state;

	pthread_mutex_lock(&l->lock);
	state = l->ended ? CK_LASTING_ENDED : ck_lasting_up(l) ? CK_LASTING_UP : CK_LASTING_DOWN;
	if (why)
		*why = l->ended ? l->ended : l->why;
	pthread_mutex_unlock(&l->lock);
	return state;
}

void ck_lasting_look(struct ck_chan *chan, bool takes)
{
	struct ck_lasting *l = ck_lasting_of(chan);

	pthread_mutex_lock(&l->lock);
	if (ck_lasting_up(l) && (takes || l->greets || ck_chan_peer_gone(l->inner)))
		ck_lasting_drain_input(l, true);
	pthread_mutex_unlock(&l->lock);
}

void ck_lasting_give_up(struct ck_chan *chan, int error)
{
	struct ck_lasting *l = ck_lasting_of(chan);

	pthread_mutex_lock(&l->lock);
	ck_lasting_end(l, error);
	pthread_mutex_unlock(&l->lock);
}

void ck_lasting_bye(struct ck_chan *chan, int ms)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	struct timespec until = ck_until((uint64_t)ms * CK_NS_PER_MS);
	int64_t deadline = ck_deadline(ms);

	/* a signal handler may have interrupted the thread that holds it */
	if (ck_mutex_lock_until(&l->lock, &until) != 0)
		return;
	l->says_bye = true;
	l->base.timeout_ms = ms;
	while (l->writing && ck_lasting_up(l) && ck_lasting_sleep(l, deadline) == 0)
		;
	ck_lasting_drain_input(
		/* a socket that closes with unread bytes discards the bytes that it has sent */
		l, false);
	ck_lasting_transmit(l);
	pthread_mutex_unlock(&l->lock);
}
