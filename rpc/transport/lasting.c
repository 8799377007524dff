/*
 * rpc/transport/lasting.c - the sending side of a lasting channel, and how its threads wait; see
 * lasting.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "rpc/transport/lasting.h"
#include "rpc/transport/splice.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

#define PIECE (256u << 10) /* copied and sent at a time, so that it is in the cache once */
/* Fewer bytes are copied faster than the peer confirms them: that takes it a write, and this end a
 * read, before its next message. */
#define LEND_LEAST (128u << 10)
#define ASK_EVERY (512u << 10)	/* bytes sent, if they are copied */
#define HEAR_EVERY (256u << 10) /* after a frame of so many bytes */
#define RING_SMALL (1u << 20)
#define GROW_MS 2
#define PATIENCE_NS 2000000 /* for the confirmation of a loan, before it is copied */
#define SLEEP_MS 1000
#define FRAME_PIECES 8

/* --- waiting, the turns, failures */

void ck_lasting_wake(struct ck_lasting *l)
{
	if (l->sleepers > 0)
		ck_cond_broadcast(&l->changed);
}

int ck_lasting_sleep(struct ck_lasting *l, int64_t deadline)
{
	int left = ck_deadline_left(deadline);
	struct timespec until;
	int ret;

	if (left == 0)
		return -ETIMEDOUT;
	until = ck_until((uint64_t)(left < 0 ? SLEEP_MS : ck_min(left, SLEEP_MS)) * CK_NS_PER_MS);
	l->sleepers++;
	ret = ck_cond_timedwait_with(&l->changed, &l->lock, &until);
	l->sleepers--;
	if (ret == ETIMEDOUT && l->base.quiet) {
		l->users++; /* so that no thread frees the channel */
		pthread_mutex_unlock(&l->lock);
		l->base.quiet(l->base.quiet_closure);
		pthread_mutex_lock(&l->lock);
		l->users--;
		ck_lasting_wake(l);
	}
	return 0;
}

/* The error of an end that reads and writes return; 0: it has not ended. */
int ck_lasting_over(const struct ck_lasting *l)
{
	return atomic_load_explicit(&l->base.down, memory_order_relaxed) ? -EPIPE : l->ended;
}

int64_t ck_lasting_deadline(const struct ck_lasting *l)
{
	return ck_deadline(l->base.timeout_ms > 0 ? l->base.timeout_ms : -1);
}

struct ck_chan *ck_lasting_enter(struct ck_lasting *l)
{
	if (l->inner->timeout_ms != l->base.timeout_ms)
		l->inner->timeout_ms = l->base.timeout_ms;
	l->users++;
	pthread_mutex_unlock(&l->lock);
	return l->inner; /* it stays while there are users */
}

void ck_lasting_leave(struct ck_lasting *l)
{
	pthread_mutex_lock(&l->lock);
	l->users--;
}

void ck_lasting_notify(struct ck_lasting *l)
{
	if (l->owner.changed)
		l->owner.changed(l->owner.closure);
}

void ck_lasting_failed(struct ck_lasting *l, const struct ck_chan *inner, int error)
{
	if (l->inner != inner || l->why || l->ended || l->detaching)
		return;
	l->why = error;
	ck_chan_shutdown(l->inner); /* the other threads come back */
	ck_lasting_wake(l);
	ck_lasting_notify(l);
}

void ck_lasting_end(struct ck_lasting *l, int error)
{
	if (l->ended)
		return;
	l->ended = error;
	if (l->inner)
		ck_chan_shutdown(l->inner);
	ck_lasting_wake(l);
	ck_lasting_notify(l);
}

/* --- outgoing */

/* Does the next frame, up to number @end, ask for a confirmation? */
static bool wants_answer(struct ck_lasting *l, uint64_t end)
{
	bool due = l->asked_for < l->ask_at && l->ask_at <= end;

	if (!l->asks && !due &&
	    (end - l->asked_for < ASK_EVERY || ck_replay_held(&l->out) < ASK_EVERY / 2))
		return false;
	l->asks = false;
	l->asked_for = end;
	return true;
}

/* The length word of a frame of @size bytes. A goodbye comes after all data. */
static uint32_t length_word(struct ck_lasting *l, size_t size)
{
	if (size == 0 && l->says_bye) {
		l->said_bye = true;
		return CK_FRAME_BYE;
	}
	return (uint32_t)size | (wants_answer(l, l->sent + size) ? CK_FRAME_ASKS : 0);
}

/*
 * Only a read sees that the peer has closed its end. Once the error of a reset has been returned to
 * one thread, the others get -EPIPE from a write, and the end of the stream from a read.
 */
static void write_failed(struct ck_lasting *l, const struct ck_chan *inner, int error)
{
	if (error == -ECONNRESET && l->inner == inner && l->why == -EPIPE)
		l->why = error;
	ck_lasting_failed(l, inner, error == -EPIPE ? -ECONNRESET : error);
}

/* Without the lock. Bit i of @lent: entry i may be sent from where it is. */
static int write_pieces(struct ck_chan *inner, struct iovec *iov, int count, unsigned int lent,
			struct ck_splice *splice)
{
	int from = 0, ret = 0;

	for (int i = 0; i < count; i++) {
		long n = 0;

		if (!(lent >> i & 1) || iov[i].iov_len < CK_SPLICE_LEAST || splice->failed)
			continue;
		inner->more = true;
		ret = ck_chan_writev(inner, iov + from, i - from);
		inner->more = false;
		if (ret == 0)
			n = ck_splice_send(splice, inner, iov[i].iov_base, iov[i].iov_len);
		if (ret < 0 || n < 0)
			return ret < 0 ? ret : (int)n;
		iov[i].iov_base = (char *)iov[i].iov_base + n;
		iov[i].iov_len -= (size_t)n;
		from = i;
	}
	return ck_chan_writev(inner, iov + from, count - from);
}

static void send_frame(struct ck_lasting *l, struct ck_splice *splice)
{
	unsigned char head[CK_FRAME_HEAD];
	struct iovec iov[1 + FRAME_PIECES] = {{head, sizeof(head)}};
	struct ck_chan *inner;
	unsigned int lent;
	size_t size;
	int ret, count = 1;

	count += ck_replay_gather(&l->out, l->sent, CK_FRAME_MAX, iov + 1, FRAME_PIECES, &size,
				  &lent);
	ck_frame_encode(head, length_word(l, size), l->in.received);
	l->told = l->in.received;
	l->owes = false;
	l->reached = ck_max(l->reached, l->sent + size);
	inner = ck_lasting_enter(l);
	if (!l->base.pages || !inner->ops->sends_pages || inner->timeout_ms > 0)
		lent = 0;
	ret = write_pieces(inner, iov, count, lent << 1, splice);
	ck_lasting_leave(l);
	if (ret < 0)
		write_failed(l, inner, ret);
	else
		l->sent += size;
	ck_lasting_take_heads(l, 0);
	if (size >= HEAR_EVERY)
		ck_lasting_drain_input(l, false);
}

bool ck_lasting_unsent(const struct ck_lasting *l)
{
	return l->sent < l->out.to || l->owes || l->asks || (l->says_bye && !l->said_bye);
}

void ck_lasting_transmit(struct ck_lasting *l)
{
	struct ck_splice splice = {.open = false};

	if (l->writing)
		return; /* that thread sends it too */
	l->writing = true;
	while (ck_lasting_up(l) && ck_lasting_unsent(l))
		send_frame(l, &splice);
	ck_splice_close(&splice);
	l->writing = false;
	ck_lasting_wake(l);
}

/* Wait for something to change, by reading if no other thread does. */
static int await_peer(struct ck_lasting *l, int64_t deadline)
{
	long ret = -ENOBUFS;

	if (ck_lasting_up(l) && !l->reading)
		ret = ck_lasting_receive(l, NULL, 0, 1);
	return ret == -ENOBUFS ? ck_lasting_sleep(l, deadline) : (int)ret;
}

/*
 * May the ring grow? While it is small, and while there is no connection. Otherwise only if the
 * peer takes long to confirm, as over a long line: a larger ring does not stay in the cache. The
 * thread waits here for that time.
 */
static bool should_grow(struct ck_lasting *l)
{
	struct pollfd pfd = {.events = POLLIN};
	bool late;

	if (l->writing) /* a thread sends from the ring */
		return false;
	if (l->out.size < RING_SMALL || !ck_lasting_up(l))
		return true;
	l->asks = true;
	ck_lasting_transmit(l);
	if (ck_replay_room(&l->out) > 0 || l->reading || !ck_lasting_up(l))
		return false;
	pfd.fd = ck_chan_fd(ck_lasting_enter(l));
	late = poll(&pfd, 1, GROW_MS) == 0;
	ck_lasting_leave(l);
	ck_lasting_wake(l);
	return late && !l->writing;
}

/* The ring is full. */
static int make_room(struct ck_lasting *l, int64_t deadline)
{
	int ret = -ENOBUFS;

	ck_lasting_transmit(l);
	ck_lasting_drain_input(l, false);
	if (ck_lasting_over(l))
		return ck_lasting_over(l);
	if (ck_replay_room(&l->out) > 0)
		return 0;
	if (should_grow(l))
		ret = ck_replay_grow(&l->out);
	if (ret != -ENOBUFS)
		return ret;
	l->asks = true;
	ck_lasting_transmit(l);
	return ck_replay_room(&l->out) > 0 ? 0 : await_peer(l, deadline);
}

static int queue_bytes(struct ck_lasting *l, const unsigned char *data, size_t size,
		       int64_t deadline)
{
	while (size > 0) {
		size_t n = ck_min(ck_min(size, (size_t)PIECE), ck_replay_room(&l->out));
		int ret;

		if (n == 0) {
			ret = make_room(l, deadline);
			if (ret < 0)
				return ret;
			continue;
		}
		ck_replay_put(&l->out, data, n);
		data += n;
		size -= n;
		if (l->out.to - l->sent >= PIECE)
			ck_lasting_transmit(l);
	}
	return 0;
}

/* Lend @iov, or, if there are too many loans, copy it. */
static int lend_iov(struct ck_lasting *l, const struct iovec *iov, uint64_t *until,
		    int64_t deadline)
{
	int ret = 0;

	if (until)
		l->ask_at = *until = l->out.to + iov->iov_len;
	if (!ck_replay_lend(&l->out, iov->iov_base, iov->iov_len))
		ret = queue_bytes(l, iov->iov_base, iov->iov_len, deadline);
	return ret;
}

int ck_lasting_lend(struct ck_chan *chan, struct iovec *iov, int count, int lent, uint64_t *until)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	int64_t deadline = ck_lasting_deadline(l);
	int ret;

	pthread_mutex_lock(&l->lock);
	ret = ck_lasting_over(l);
	for (int i = 0; i < count && ret == 0; i++) {
		if (i == lent && iov[i].iov_len >= LEND_LEAST)
			ret = lend_iov(l, &iov[i], until, deadline);
		else
			ret = queue_bytes(l, iov[i].iov_base, iov[i].iov_len, deadline);
	}
	ck_lasting_transmit(l);
	if (ret == 0)
		ret = ck_lasting_over(l);
	pthread_mutex_unlock(&l->lock);
	return ret;
}

int ck_lasting_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	(void)fd; /* there is never one: the channel has no take_fd */
	return ck_lasting_lend(chan, iov, count, -1, NULL);
}

/* Wait a short time for something to hear. Returns whether the peer has confirmed bytes. */
static bool listen_shortly(struct ck_lasting *l)
{
	const struct timespec patience = {.tv_nsec = PATIENCE_NS};
	struct pollfd pfd = {.events = POLLIN};
	uint64_t before = l->out.from;

	pfd.fd = ck_chan_fd(ck_lasting_enter(l));
	ppoll(&pfd, 1, &patience, NULL);
	ck_lasting_leave(l);
	ck_lasting_wake(l);
	ck_lasting_drain_input(l, true);
	return l->out.from != before;
}

/*
 * Wait for the peer to confirm, as long as it goes on doing so. On a long line this is in vain, and
 * would be so for each part: there only the last wait is made, which delays nothing and tells
 * whether the line is still long.
 */
static void be_patient(struct ck_lasting *l, uint64_t until)
{
	bool heard = !l->slow || until == UINT64_MAX;

	if (!ck_replay_lent(&l->out, until))
		return;
	ck_lasting_drain_input(l, false);
	while (heard && ck_replay_lent(&l->out, until) && ck_lasting_up(l) && !l->reading &&
	       !l->writing)
		heard = listen_shortly(l);
	l->slow = ck_replay_lent(&l->out, until);
}

/* Nearly always a reply has confirmed all loans of a call. */
void ck_lasting_reclaim(struct ck_chan *chan, uint64_t until)
{
	struct ck_lasting *l = ck_lasting_of(chan);

	pthread_mutex_lock(&l->lock);
	be_patient(l, until);
	while (ck_replay_lent(&l->out, until) && !ck_lasting_over(l)) {
		ck_lasting_drain_input(l, false);
		if (!l->writing && ck_replay_own(&l->out, until) == 0)
			break;
		l->asks = true;
		ck_lasting_transmit(l);
		if (ck_replay_lent(&l->out, until))
			await_peer(l, -1);
	}
	while (l->writing && ck_replay_lent(&l->out, until)) /* shut down: not for long */
		ck_lasting_sleep(l, -1);
	pthread_mutex_unlock(&l->lock);
}
