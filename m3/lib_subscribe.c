/*
 * m3/lib_subscribe.c - libm3: m3_subscribe. A thread waits for news of the broker: on a connection
 * of its own, so that news do not come between a question and its answer, or through the session.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "m3/lib.h"

static int next_local(m3_client *c, unsigned int *event, m3_rid *rid)
{
	struct ck_m3_reply news;
	int fd = -1;
	long n = ck_m3_receive(c->event_sock, &news, sizeof(news), &fd, 0);

	if (fd >= 0)
		close(fd);
	*event = (unsigned int)news.count;
	*rid = news.region;
	return n == (long)sizeof(news) ? 0 : -EPIPE;
}

static void *listen_for_news(void *data)
{
	m3_client *c = data;
	unsigned int event = 0;
	m3_rid rid = 0;
	int ret;

	while ((ret = c->shim ? c->shim->news(c->event_number, &event, &rid)
			      : next_local(c, &event, &rid)) == 0) {
		if (event)
			c->notify(event, rid, c->notify_data);
		event = 0;
	}
	if (!c->event_over && ret == -EPIPE) {
		c->event_over = true;
		c->notify(M3_ON_BROKER_LOST, 0, c->notify_data);
	}
	return NULL;
}

void ck_m3_news_end(m3_client *c)
{
	if (!c->subscribed)
		return;
	c->event_over = true;
	if (c->shim)
		c->shim->unsubscribe(c->event_number);
	else
		shutdown(c->event_sock, SHUT_RDWR);
	pthread_join(c->event_thread, NULL);
	if (!c->shim)
		close(c->event_sock);
	c->event_sock = -1;
	c->subscribed = false;
}

static int open_local(m3_client *c, unsigned int mask)
{
	struct ck_m3_request q = c->hello;
	struct ck_m3_reply reply = {.status = M3_EIO};
	int sock = ck_m3_dial(c->path), fd;

	if (sock < 0)
		return M3_EIO;
	for (int i = 0; i < 2; i++) {
		if (ck_m3_send(sock, &q, sizeof(q), NULL, 0, -1, 0) < 0 ||
		    ck_m3_receive(sock, &reply, sizeof(reply), &fd, 0) != (long)sizeof(reply))
			reply.status = M3_EIO;
		if (reply.status != M3_OK) {
			close(sock);
			return reply.status;
		}
		ck_m3_request_init(&q, CK_M3_SUBSCRIBE);
		q.value = mask;
	}
	c->event_sock = sock;
	return M3_OK;
}

int m3_subscribe(m3_client *c, unsigned int mask,
		 void (*notify)(unsigned int event, m3_rid rid, void *data), void *data)
{
	int status;

	if (!c || !notify)
		return M3_EINVAL;
	if (c->subscribed && (!c->event_over || pthread_equal(c->event_thread, pthread_self())))
		return M3_EBUSY;
	ck_m3_news_end(c); /* of a broker that is gone */
	if (c->shim)
		status = c->shim->subscribe(mask, &c->event_number) < 0 ? M3_EIO : M3_OK;
	else
		status = open_local(c, mask);
	if (status != M3_OK)
		return status;
	c->event_over = false;
	c->notify = notify;
	c->notify_data = data;
	c->subscribed = pthread_create(&c->event_thread, NULL, listen_for_news, c) == 0;
	if (c->subscribed)
		return M3_OK;
	if (c->shim)
		c->shim->unsubscribe(c->event_number);
	else
		close(c->event_sock);
	c->event_sock = -1;
	return M3_ENOMEM;
}
