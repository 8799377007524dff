/*
 * server/memory/m3_notices.c - news from the memory broker for subscribers, on behalf of this
 * worker's client.
 *
 * Each subscription has its own connection to the broker, so that news never come between a request
 * and its answer. A thread of the client waits here in a call on its own lane.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/memory/share.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/until.h"
#include "util/util.h"

#define SUBSCRIPTIONS_MAX 4 /* each uses one of the principal's 1024 connections */

enum over { GOES_ON, OVER, BROKER_LOST }; /* values in a reply */

struct subscription {
	struct subscription *next;
	unsigned int number;
	int sock;
	unsigned int waiting; /* calls that poll the socket now */
	bool ended;	      /* freed with the last of them */
};

static struct ck_mutex subscriptions_lock = CK_MUTEX(CK_RANK_M3_NEWS);
static struct subscription *all;
static unsigned int count, numbers;

/* Call with the lock held, as for the next functions. */
static struct subscription **find_subscription(unsigned int number)
{
	struct subscription **at = &all;

	while (*at && ((*at)->number != number || (*at)->ended))
		at = &(*at)->next;
	return at;
}

static void put_subscription(struct subscription *s)
{
	struct subscription **at = &all;

	if (!s->ended || s->waiting)
		return;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	count--;
	close(s->sock);
	free(s);
}

/* Open a connection and subscribe. */
static int open_news(unsigned int mask, int *out)
{
	struct ck_m3_request q;
	int sock, status = cks_broker_connect(&sock);

	if (status != M3_OK)
		return status;
	ck_m3_request_init(&q, CK_M3_SUBSCRIBE);
	q.value = mask;
	status = cks_broker_exchange(sock, &q);
	if (status == M3_OK)
		*out = sock;
	else
		close(sock);
	return status;
}

CUresult ck_serve_m3_subscribe(struct cks_request *q, ck_m3_subscribe_args *a,
			       ck_m3_subscribe_res *res)
{
	struct subscription *s;
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;
	int status;

	(void)q;
	if (!cks_broker_has_m3())
		return CUDA_ERROR_NOT_PERMITTED;
	ck_lock(&subscriptions_lock);
	s = count < SUBSCRIPTIONS_MAX ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		goto unlock;
	status = open_news(a->mask, &s->sock);
	err = cks_broker_error(status);
	if (status != M3_OK) {
		free(s);
		goto unlock;
	}
	s->number = res->number = ++numbers;
	s->next = all;
	all = s;
	count++;
unlock:
	ck_unlock(&subscriptions_lock);
	return err;
}

/* Receive one item of news, if one arrives in time. */
static enum over receive_news(int sock, unsigned int milliseconds, ck_m3_news_res *res)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	struct ck_m3_reply news;
	int fd = -1;
	long n;

	if (poll(&p, 1, ck_poll_ms(milliseconds)) <= 0)
		return GOES_ON;
	n = ck_m3_receive(sock, &news, sizeof(news), &fd, MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
	if (n == -EAGAIN)
		return GOES_ON;
	if (n != (long)sizeof(news) || news.op != CK_M3_SUBSCRIBE)
		return BROKER_LOST;
	res->event = (unsigned int)news.count;
	res->region = news.region;
	return GOES_ON;
}

CUresult ck_serve_m3_news(struct cks_request *q, ck_m3_news_args *a, ck_m3_news_res *res)
{
	struct subscription *s;

	res->over = OVER;
	ck_lock(&subscriptions_lock);
	s = *find_subscription(a->number);
	if (s)
		s->waiting++;
	ck_unlock(&subscriptions_lock);
	if (!s)
		return CUDA_SUCCESS;
	res->over = receive_news(s->sock, ck_min(a->milliseconds, q->session->wait_max_ms), res);
	ck_lock(&subscriptions_lock);
	s->waiting--;
	if (s->ended)
		res->over = OVER;
	put_subscription(s);
	ck_unlock(&subscriptions_lock);
	return CUDA_SUCCESS;
}

CUresult ck_serve_m3_unsubscribe(struct cks_request *q, ck_m3_unsubscribe_args *a,
				 ck_m3_unsubscribe_res *res)
{
	struct subscription *s;

	(void)q;
	(void)res;
	ck_lock(&subscriptions_lock);
	s = *find_subscription(a->number);
	if (s) {
		s->ended = true;
		shutdown(s->sock, SHUT_RDWR); /* wakes the waiting calls */
		put_subscription(s);
	}
	ck_unlock(&subscriptions_lock);
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
