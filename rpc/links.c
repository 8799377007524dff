/*
 * rpc/links.c - see links.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "rpc/link_watch.h"
#include "rpc/links.h"
#include "util/wait.h"

#define EVENTS 16
#define BUDGET                                                                                     \
	(256u << 20) /* bytes that the channels of a session keep until the peer confirms them */

struct ck_links {
	pthread_mutex_t lock;
	struct ck_cond put; /* a link is no longer held */
	struct ck_link *first;
	struct ck_link_watch watch;
	int (*accept)(void *closure, struct ck_chan *connection);
	void *closure;
	struct ck_lasting_budget budget; /* of all channels */
};

int ck_links_create(int (*accept)(void *closure, struct ck_chan *connection), void *closure,
		    bool guests, struct ck_links **out)
{
	struct ck_links *links = calloc(1, sizeof(*links));
	int ret;

	if (!links)
		return -ENOMEM;
	pthread_mutex_init(&links->lock, NULL);
	links->accept = accept;
	links->closure = closure;
	links->budget.limit = BUDGET;
	atomic_init(&links->budget.used, 0);
	ret = ck_link_watch_open(&links->watch, guests);
	if (ret < 0)
		ck_links_destroy(links);
	else
		*out = links;
	return ret;
}

void ck_links_destroy(struct ck_links *links)
{
	if (!links)
		return;
	ck_link_watch_close(&links->watch);
	ck_cond_destroy(&links->put);
	pthread_mutex_destroy(&links->watch.lock);
	pthread_mutex_destroy(&links->lock);
	free(links);
}

int ck_links_fd(struct ck_links *links)
{
	return ck_private_fd_number(&links->watch.epoll);
}

bool ck_links_unwatched(struct ck_links *links)
{
	return ck_link_watch_gone(&links->watch);
}

void ck_links_wake(struct ck_links *links)
{
	ck_link_watch_wake(&links->watch);
}

/* --- finding links */

static struct ck_link *find_link(struct ck_links *links, uint32_t number)
{
	struct ck_link *link = links->first;

	while (link && (link->number != number || link->closing))
		link = link->next;
	return link;
}

struct ck_link *ck_links_find(struct ck_links *links, uint32_t number)
{
	struct ck_link *link;

	pthread_mutex_lock(&links->lock);
	link = find_link(links, number);
	if (link)
		link->held++;
	pthread_mutex_unlock(&links->lock);
	return link;
}

void ck_links_put(struct ck_links *links, struct ck_link *link)
{
	pthread_mutex_lock(&links->lock);
	if (--link->held == 0)
		ck_cond_broadcast(&links->put);
	pthread_mutex_unlock(&links->lock);
}

static bool link_is_broken(const struct ck_link *link)
{
	return ck_lasting_state(link->chan, NULL) == CK_LASTING_DOWN;
}

static bool link_is_relayed(const struct ck_link *link)
{
	return link->relayed;
}

/* Hold up to @most links that are @chosen and that no thread holds. */
static size_t hold_links(struct ck_links *links, bool (*chosen)(const struct ck_link *link),
			 struct ck_link **found, size_t most)
{
	size_t n = 0;

	pthread_mutex_lock(&links->lock);
	for (struct ck_link *link = links->first; link && n < most; link = link->next) {
		if (link->closing || link->held || !chosen(link))
			continue;
		link->held++;
		found[n++] = link;
	}
	pthread_mutex_unlock(&links->lock);
	return n;
}

size_t ck_links_broken(struct ck_links *links, struct ck_link **found, size_t most)
{
	return hold_links(links, link_is_broken, found, most);
}

size_t ck_links_relayed(struct ck_links *links, struct ck_link **found, size_t most)
{
	return hold_links(links, link_is_relayed, found, most);
}

void ck_links_state(struct ck_links *links, struct ck_links_state *state)
{
	*state = (struct ck_links_state){0};
	pthread_mutex_lock(&links->lock);
	for (struct ck_link *link = links->first; link; link = link->next) {
		switch (ck_lasting_state(link->chan, NULL)) {
		case CK_LASTING_UP:
			state->up++;
			break;
		case CK_LASTING_DOWN:
			state->down++;
			break;
		default:
			state->ended |= 1u << link->kind % 32;
		}
	}
	pthread_mutex_unlock(&links->lock);
}

/* --- channels */

static void handle_channel_change(void *closure)
{
	ck_links_wake(closure);
}

/* The channel closes: wait for those who hold its link, and forget it. */
static void handle_channel_close(void *closure, struct ck_chan *chan)
{
	struct ck_links *links = closure;
	struct ck_link **at = &links->first, *link;

	pthread_mutex_lock(&links->lock);
	while ((*at)->chan != chan)
		at = &(*at)->next;
	link = *at;
	link->closing = true;
	while (link->held > 0)
		ck_cond_wait_with(&links->put, &links->lock);
	for (at = &links->first; *at != link; at = &(*at)->next)
		;
	*at = link->next;
	pthread_mutex_unlock(&links->lock);
	free(link);
}

static int accept_link(void *closure, struct ck_chan *connection)
{
	struct ck_links *links = closure;

	return links->accept ? links->accept(links->closure, connection) : 0;
}

int ck_links_open(struct ck_links *links, const char *peer, uint32_t number, uint32_t kind,
		  struct ck_link **out)
{
	const struct ck_lasting_owner owner = {handle_channel_change, handle_channel_close,
					       accept_link, links, &links->budget};
	struct ck_link *link = calloc(1, sizeof(*link));
	int ret = link ? 0 : -ENOMEM;

	pthread_mutex_lock(&links->lock);
	if (ret == 0 && find_link(links, number))
		ret = -EEXIST;
	if (ret == 0)
		ret = ck_lasting_create(peer, &owner, CK_LASTING_LIMIT, &link->chan);
	if (ret == 0) {
		link->number = number;
		link->kind = kind;
		link->fd = -1;
		link->held = 1;
		link->next = links->first;
		links->first = link;
		*out = link;
	}
	pthread_mutex_unlock(&links->lock);
	if (ret < 0)
		free(link);
	return ret;
}

/* The peer's first words are taken in when they come, even if no call needs them: a socket with
 * unread bytes that closes with its process looks like a broken network. */
int ck_links_attach(struct ck_links *links, struct ck_link *link, struct ck_chan *connection,
		    uint64_t received, bool greets, bool listens)
{
	int fd = ck_chan_fd(connection), ret;

	if (ck_links_unwatched(links)) {
		ck_chan_close(connection);
		return -EBADF;
	}
	pthread_mutex_lock(&links->lock);
	ret = ck_lasting_attach(link->chan, connection, received, greets);
	if (ret == 0) {
		link->fd = fd;
		link->greeted = listens || !greets;
		link->listens = listens;
		ck_link_watch_set(&links->watch, EPOLL_CTL_ADD, fd, link->number,
				  greets || listens);
	}
	pthread_mutex_unlock(&links->lock);
	return ret;
}

/* The descriptor may be another connection's as soon as it is closed. */
void ck_links_detach(struct ck_links *links, struct ck_link *link, uint64_t *received)
{
	pthread_mutex_lock(&links->lock);
	link->fd = -1;
	pthread_mutex_unlock(&links->lock);
	ck_lasting_detach(link->chan, received);
}

/* --- their events */

static void check_link(struct ck_links *links, struct ck_link *link)
{
	bool takes;

	pthread_mutex_lock(&links->lock);
	if (link->fd >= 0 && !link->greeted)
		ck_link_watch_set(&links->watch, EPOLL_CTL_MOD, link->fd, link->number, false);
	link->greeted = true;
	takes = link->listens;
	pthread_mutex_unlock(&links->lock);
	ck_lasting_look(link->chan, takes);
}

static void detach_link(struct ck_links *links, struct ck_link *link)
{
	uint64_t received;

	ck_links_detach(links, link, &received);
}

static void call_with_link(struct ck_links *links, uint32_t number,
			   void (*act)(struct ck_links *links, struct ck_link *link))
{
	struct ck_link *link = ck_links_find(links, number);

	if (!link)
		return;
	act(links, link);
	ck_links_put(links, link);
}

static void with_all(struct ck_links *links,
		     void (*act)(struct ck_links *links, struct ck_link *link))
{
	uint32_t *numbers = NULL;
	size_t n = 0;

	pthread_mutex_lock(&links->lock);
	for (struct ck_link *link = links->first; link; link = link->next)
		n++;
	numbers = n > 0 ? malloc(n * sizeof(*numbers)) : NULL;
	n = 0;
	for (struct ck_link *link = links->first; link && numbers; link = link->next)
		numbers[n++] = link->number;
	pthread_mutex_unlock(&links->lock);
	while (n > 0)
		call_with_link(links, numbers[--n], act);
	free(numbers);
}

void ck_links_cut(struct ck_links *links)
{
	with_all(links, detach_link);
}

/* The descriptor to wait for, or -errno. A new one watches the connections from now on. */
static int renew_watch(struct ck_links *links)
{
	bool renewed;
	int epoll;

	pthread_mutex_lock(&links->lock);
	epoll = ck_link_watch_renew(&links->watch, &renewed);
	for (struct ck_link *link = links->first; renewed && epoll >= 0 && link;
	     link = link->next) {
		if (link->fd >= 0)
			ck_link_watch_set(&links->watch, EPOLL_CTL_ADD, ck_chan_fd(link->chan),
					  link->number, !link->greeted || link->listens);
	}
	pthread_mutex_unlock(&links->lock);
	return epoll;
}

int ck_links_handle(struct ck_links *links, int ms)
{
	struct epoll_event events[EVENTS];
	int n = renew_watch(links);

	if (n < 0)
		return n;
	n = epoll_wait(n, events, EVENTS, ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;

	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 != CK_LINK_WATCH_BELL) {
			call_with_link(links, (uint32_t)events[i].data.u64, check_link);
			continue;
		}
		ck_link_watch_heard(&links->watch);
		/* a thread may have read a connection while its end was looked for */
		with_all(links, check_link);
	}
	return n > 0;
}

void ck_links_bye(struct ck_links *links, uint32_t kinds, int ms)
{
	pthread_mutex_lock(&links->lock);
	for (struct ck_link *link = links->first; link; link = link->next) {
		if (kinds & 1u << link->kind % 32)
			ck_lasting_bye(link->chan, ms);
	}
	pthread_mutex_unlock(&links->lock);
}

void ck_links_forked(struct ck_links *links)
{
	for (struct ck_link *link = links->first; link; link = link->next)
		ck_chan_forked(link->chan);
	ck_link_watch_close(&links->watch);
}
