/*
 * rpc/links.c - see links.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "rpc/links.h"
#include "util/process/private_fds.h"
#include "util/wait.h"

#define WAKE_BELL UINT64_MAX /* epoll's data of the bell; else a link's number */
#define EVENTS 16
#define BUDGET                                                                                     \
	(256u << 20) /* bytes that the channels of a session keep until the peer confirms them */

struct ck_links {
	pthread_mutex_t lock;
	struct ck_cond put; /* a link is no longer held */
	struct ck_link *first;
	bool guests; /* in a program that may close these */
	struct ck_private_fd
		bell[2]; /* a socket pair: what is sent to 1 wakes the thread that watches 0 */
	pthread_mutex_t watch_lock; /* the last of all locks; guards epoll */
	struct ck_private_fd epoll;
	int (*accept)(void *closure, struct ck_chan *connection);
	void *closure;
	struct ck_lasting_budget budget; /* of all channels */
};

/* --- what watches */

static void keep_descriptor(const struct ck_links *links, struct ck_private_fd *kept, int fd,
			    bool twice)
{
	if (links->guests)
		ck_private_fd_take(kept, fd, twice);
	else
		ck_private_fd_plain(kept, fd);
}

/* With the lock. */
static int open_epoll(struct ck_links *links)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_BELL};
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		return -errno;
	keep_descriptor(links, &links->epoll, epoll, false);
	epoll = ck_private_fd_recent(&links->epoll);
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, ck_private_fd_number(&links->bell[0]), &event) < 0)
		return -errno;
	return 0;
}

static int open_watch(struct ck_links *links)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		keep_descriptor(links, &links->bell[i], pair[i], true);
	return open_epoll(links);
}

/*
 * All files of epoll have one inode. Ours is the one that knows the bell; to another one, and to
 * other files with that inode, this does nothing. With the lock.
 */
static int own_epoll(struct ck_links *links)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_BELL};
	int epoll = ck_private_fd_number(&links->epoll),
	    bell = ck_private_fd_number(&links->bell[0]);

	if (epoll < 0 || bell < 0 || epoll_ctl(epoll, EPOLL_CTL_MOD, bell, &event) < 0)
		return -1;
	return epoll;
}

static void close_watch(struct ck_links *links)
{
	if (own_epoll(links) >= 0)
		ck_private_fd_close(&links->epoll);
	for (int i = 0; i < 2; i++)
		ck_private_fd_close(&links->bell[i]);
}

static void read_bell(struct ck_links *links)
{
	char rings[64];

	while (recv(ck_private_fd_recent(&links->bell[0]), rings, sizeof(rings), MSG_DONTWAIT) ==
	       (ssize_t)sizeof(rings))
		;
}

int ck_links_create(int (*accept)(void *closure, struct ck_chan *connection), void *closure,
		    bool guests, struct ck_links **out)
{
	struct ck_links *links = calloc(1, sizeof(*links));
	int ret;

	if (!links)
		return -ENOMEM;
	pthread_mutex_init(&links->lock, NULL);
	pthread_mutex_init(&links->watch_lock, NULL);
	links->guests = guests;
	links->accept = accept;
	links->closure = closure;
	links->budget.limit = BUDGET;
	atomic_init(&links->budget.used, 0);
	ret = open_watch(links);
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
	close_watch(links);
	ck_cond_destroy(&links->put);
	pthread_mutex_destroy(&links->watch_lock);
	pthread_mutex_destroy(&links->lock);
	free(links);
}

int ck_links_fd(struct ck_links *links)
{
	return ck_private_fd_number(&links->epoll);
}

bool ck_links_unwatched(struct ck_links *links)
{
	return ck_private_fd_gone(&links->bell[0]) || ck_private_fd_gone(&links->bell[1]);
}

/* Without a lock, for handlers of signals. If the program has closed the bell, the watching thread
 * finds out at its next look. */
void ck_links_wake(struct ck_links *links)
{
	send(ck_private_fd_number(&links->bell[1]), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
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

static void watch_descriptor(struct ck_links *links, int op, int fd, uint32_t number, bool input)
{
	struct epoll_event event = {.events = EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLET |
					      (input ? EPOLLIN : 0),
				    .data.u64 = number};

	/* if there is no memory for it, a thread that uses the connection notices its end */
	pthread_mutex_lock(&links->watch_lock);
	epoll_ctl(own_epoll(links), op, fd, &event);
	pthread_mutex_unlock(&links->watch_lock);
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
		watch_descriptor(links, EPOLL_CTL_ADD, fd, link->number, greets || listens);
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

/* --- what happens to them */

static void check_link(struct ck_links *links, struct ck_link *link)
{
	bool takes;

	pthread_mutex_lock(&links->lock);
	if (link->fd >= 0 && !link->greeted)
		watch_descriptor(links, EPOLL_CTL_MOD, link->fd, link->number, false);
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

/* The descriptor to wait for. If the program has closed it alone, there is a new one; -EBADF: it
 * has closed the bell too. */
static int whole_epoll(struct ck_links *links)
{
	int epoll, ret = 0;

	if (ck_links_unwatched(links))
		return -EBADF;
	pthread_mutex_lock(&links->lock);
	pthread_mutex_lock(&links->watch_lock);
	epoll = own_epoll(links);
	if (epoll < 0)
		ret = open_epoll(links);
	pthread_mutex_unlock(&links->watch_lock);
	for (struct ck_link *link = links->first; epoll < 0 && ret == 0 && link;
	     link = link->next) {
		if (link->fd >= 0)
			watch_descriptor(links, EPOLL_CTL_ADD, ck_chan_fd(link->chan), link->number,
					 !link->greeted || link->listens);
	}
	pthread_mutex_unlock(&links->lock);
	if (ret < 0)
		return ret;
	return epoll < 0 ? ck_private_fd_number(&links->epoll) : epoll;
}

int ck_links_handle(struct ck_links *links, int ms)
{
	struct epoll_event events[EVENTS];
	int n = whole_epoll(links);

	if (n < 0)
		return n;
	n = epoll_wait(n, events, EVENTS, ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;

	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 != WAKE_BELL) {
			call_with_link(links, (uint32_t)events[i].data.u64, check_link);
			continue;
		}
		read_bell(links);
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
	close_watch(links);
}
