/*
 * wcm/link.c - a rank's connection to its meeting place; see link.h.
 *
 * A thread receives: it hands the results of exchanges to their callers, and reports releases and
 * losses as they arrive, independently of the rank's own threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "util/log.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"
#include "wcm/link.h"
#include "wcm/message.h"
#include "wcm/wcm.h"

CK_LOG_DEFINE("wcm");

#define RETRY_MS 5
#define GRACE_MS 5000 /* the meeting place answers at once, if it answers */

struct ck_wcm_link {
	int sock, rank;
	unsigned int timeout_ms;
	const struct ck_wcm_link_ops *ops;
	void *data;
	pthread_t thread;
	pthread_mutex_t turn; /* one exchange at a time */
	pthread_mutex_t lock; /* the data that follows */
	struct ck_cond answered;
	uint64_t serial; /* of the last exchange */
	struct ck_wcm_exchange *waiting;
	int status;		     /* of it, when it is answered */
	bool got, over;		     /* it is; the connection has ended */
	struct ck_wcm_packet packet; /* room of the thread */
};

static int ms_until(const struct timespec *t)
{
	struct timespec now;
	int64_t ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ms = (int64_t)(t->tv_sec - now.tv_sec) * 1000 + (t->tv_nsec - now.tv_nsec) / 1000000;
	return ck_poll_ms(ck_max(ms, (int64_t)0));
}

static bool is_past(const struct timespec *t)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

/* --- the thread */

static void close_fds(const int *fds, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		close(fds[i]);
}

/* The answer to an exchange, into it. Lock held. */
static void handle_answer(struct ck_wcm_link *l, const struct ck_wcm_packet *p, const int *fds,
			  unsigned int count)
{
	const struct ck_wcm_message *h = &p->head;
	struct ck_wcm_exchange *x = l->waiting;
	unsigned int next = 0;

	if (!x || h->serial != l->serial || l->got) {
		close_fds(fds, count); /* no thread waits for it any more */
		return;
	}
	l->got = true;
	l->status = h->status;
	if (l->status == WCM_OK && (h->size != x->size || h->mask != x->mask))
		l->status = WCM_EVERSION;
	if (l->status != WCM_OK) {
		close_fds(fds, count);
	} else {
		memcpy(x->all, p->bytes, x->size * (unsigned int)__builtin_popcount(x->mask));
		for (int i = 0; i < WCM_RANKS_MAX; i++)
			x->fds[i] = h->fds >> i & 1 ? fds[next++] : -1;
		x->number = h->number;
	}
	ck_cond_broadcast(&l->answered);
}

static void handle_packet(struct ck_wcm_link *l, const struct ck_wcm_packet *p, const int *fds,
			  unsigned int count)
{
	if (p->head.op == CK_WCM_EXCHANGED) {
		pthread_mutex_lock(&l->lock);
		handle_answer(l, p, fds, count);
		pthread_mutex_unlock(&l->lock);
		return;
	}
	close_fds(fds, count);
	if (p->head.op == CK_WCM_RELEASED)
		l->ops->released(l->data, p->head.number, p->head.mask);
	else if (p->head.op == CK_WCM_LOST)
		l->ops->lost(l->data, p->head.mask);
}

static void *link_main(void *data)
{
	struct ck_wcm_link *l = data;
	int fds[WCM_RANKS_MAX], ret;
	unsigned int count = 0;

	while ((ret = ck_wcm_receive(l->sock, &l->packet, fds, &count, 0)) == 0)
		handle_packet(l, &l->packet, fds, count);
	ck_debug("rank %d: the meeting place has gone: %s", l->rank, strerror(-ret));
	pthread_mutex_lock(&l->lock);
	l->over = true;
	ck_cond_broadcast(&l->answered);
	pthread_mutex_unlock(&l->lock);
	l->ops->lost(l->data, (1u << WCM_RANKS_MAX) - 1);
	return NULL;
}

/* --- coming and going */

static int status_of(int ret)
{
	switch (ret) {
	case 0:
		return WCM_OK;
	case -EPERM:
		return WCM_EPERM;
	case -ENOMEM:
		return WCM_ENOMEM;
	case -ETIMEDOUT:
		return WCM_ETIMEDOUT;
	case -ECONNRESET:
	case -EPIPE:
		return WCM_EPEERLOST;
	default:
		return WCM_EIO;
	}
}

/* Rank 0 may not be there yet. */
static int dial_meet(const char *name, const struct timespec *until, int *sock)
{
	for (;;) {
		*sock = ck_wcm_dial(name);
		if (*sock >= 0)
			return WCM_OK;
		if (*sock != -ECONNREFUSED && *sock != -ENOENT && *sock != -EAGAIN)
			return status_of(*sock);
		if (is_past(until))
			return WCM_ETIMEDOUT;
		nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000l}, NULL);
	}
}

/* Say hello; -ECONNRESET: the place was closed just then, and another may follow. */
static int exchange_hello(int sock, int rank, int size, const struct timespec *until, int *status)
{
	struct pollfd fd = {.fd = sock, .events = POLLIN};
	int fds[WCM_RANKS_MAX], ret;
	struct ck_wcm_message hello;
	struct ck_wcm_packet *p;
	unsigned int count = 0;

	ck_wcm_message_init(&hello, CK_WCM_HELLO);
	hello.rank = (uint32_t)rank;
	hello.count = (uint32_t)size;
	ret = ck_wcm_send(sock, &hello, NULL, 0, NULL, 0, 0);
	if (ret == 0 && poll(&fd, 1, ms_until(until)) == 0)
		ret = -ETIMEDOUT;
	p = malloc(sizeof(*p));
	if (ret == 0)
		ret = p ? ck_wcm_receive(sock, p, fds, &count, 0) : -ENOMEM;
	close_fds(fds, count);
	if (ret == 0)
		*status = p->head.version != CK_WCM_VERSION ? WCM_EVERSION : p->head.status;
	free(p);
	return ret == -EPIPE ? -ECONNRESET : ret;
}

static int connect_link(const char *name, int rank, int size, unsigned int timeout_ms, int *sock)
{
	struct timespec until = ck_until(timeout_ms * CK_NS_PER_MS);
	int status, ret;

	do {
		status = dial_meet(name, &until, sock);
		if (status != WCM_OK)
			return status;
		ret = exchange_hello(*sock, rank, size, &until, &status);
		if (ret == 0 && status == WCM_OK)
			return WCM_OK;
		close(*sock);
	} while (ret == -ECONNRESET && !is_past(&until));
	return ret < 0 ? status_of(ret) : status;
}

int ck_wcm_link_open(const char *name, int rank, int size, unsigned int timeout_ms,
		     const struct ck_wcm_link_ops *ops, void *data, struct ck_wcm_link **link)
{
	struct ck_wcm_link *l = calloc(1, sizeof(*l));
	int status;

	if (!l)
		return WCM_ENOMEM;
	status = connect_link(name, rank, size, timeout_ms, &l->sock);
	if (status != WCM_OK) {
		free(l);
		return status;
	}
	l->rank = rank;
	l->timeout_ms = timeout_ms;
	l->ops = ops;
	l->data = data;
	pthread_mutex_init(&l->turn, NULL);
	pthread_mutex_init(&l->lock, NULL);
	if (pthread_create(&l->thread, NULL, link_main, l)) {
		close(l->sock);
		free(l);
		return WCM_ENOMEM;
	}
	*link = l;
	return WCM_OK;
}

void ck_wcm_link_close(struct ck_wcm_link *l)
{
	if (!l)
		return;
	shutdown(l->sock, SHUT_RDWR);
	pthread_join(l->thread, NULL);
	close(l->sock);
	ck_cond_destroy(&l->answered);
	pthread_mutex_destroy(&l->lock);
	pthread_mutex_destroy(&l->turn);
	free(l);
}

/* --- messages of a rank */

/* Until it is answered, or the connection ends. Lock held. */
static int wait_for(struct ck_wcm_link *l, unsigned int ms)
{
	struct timespec until = ck_until(ms * CK_NS_PER_MS);

	while (!l->got && !l->over) {
		if (ck_cond_timedwait_with(&l->answered, &l->lock, &until) == ETIMEDOUT)
			return l->got ? l->status : WCM_ETIMEDOUT;
	}
	return l->got ? l->status : WCM_EPEERLOST;
}

/* Lock held. */
static int wait_or_cancel(struct ck_wcm_link *l)
{
	struct ck_wcm_message cancel;
	int status = wait_for(l, l->timeout_ms);

	if (status != WCM_ETIMEDOUT || l->got)
		return status;
	ck_wcm_message_init(&cancel, CK_WCM_CANCEL);
	cancel.serial = l->serial;
	ck_wcm_send(l->sock, &cancel, NULL, 0, NULL, 0, MSG_DONTWAIT);
	return wait_for(l, GRACE_MS); /* it may have come about meanwhile */
}

int ck_wcm_link_exchange(struct ck_wcm_link *l, struct ck_wcm_exchange *x)
{
	struct ck_wcm_message m;
	int status;

	ck_wcm_message_init(&m, CK_WCM_EXCHANGE);
	m.mask = x->mask;
	m.size = (uint32_t)x->size;
	m.fds = x->give_fd >= 0 ? 1u << l->rank : 0;
	pthread_mutex_lock(&l->turn);
	pthread_mutex_lock(&l->lock);
	m.serial = ++l->serial;
	l->waiting = x;
	l->got = false;
	status = l->over ? WCM_EPEERLOST
			 : status_of(ck_wcm_send(l->sock, &m, x->give, x->size, &x->give_fd,
						 x->give_fd >= 0, 0));
	if (status == WCM_OK)
		status = wait_or_cancel(l);
	l->waiting = NULL;
	pthread_mutex_unlock(&l->lock);
	pthread_mutex_unlock(&l->turn);
	return status;
}

bool ck_wcm_link_done(struct ck_wcm_link *l, uint64_t number, uint32_t mask)
{
	struct ck_wcm_message m;

	ck_wcm_message_init(&m, CK_WCM_DONE);
	m.number = number;
	m.mask = mask;
	return ck_wcm_send(l->sock, &m, NULL, 0, NULL, 0, 0) == 0;
}
