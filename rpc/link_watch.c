/*
 * rpc/link_watch.c - see link_watch.h.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "rpc/link_watch.h"

static void keep_descriptor(const struct ck_link_watch *w, struct ck_private_fd *kept, int fd,
			    bool twice)
{
	if (w->guests)
		ck_private_fd_take(kept, fd, twice);
	else
		ck_private_fd_plain(kept, fd);
}

/* With the lock. */
static int open_epoll(struct ck_link_watch *w)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = CK_LINK_WATCH_BELL};
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		return -errno;
	keep_descriptor(w, &w->epoll, epoll, false);
	epoll = ck_private_fd_recent(&w->epoll);
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, ck_private_fd_number(&w->bell[0]), &event) < 0)
		return -errno;
	return 0;
}

int ck_link_watch_open(struct ck_link_watch *w, bool guests)
{
	int pair[2];

	pthread_mutex_init(&w->lock, NULL);
	w->guests = guests;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		keep_descriptor(w, &w->bell[i], pair[i], true);
	return open_epoll(w);
}

/*
 * All files of epoll have one inode. Ours is the one that knows the bell; to another one, and to
 * other files with that inode, this does nothing. With the lock.
 */
static int own_epoll(struct ck_link_watch *w)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = CK_LINK_WATCH_BELL};
	int epoll = ck_private_fd_number(&w->epoll), bell = ck_private_fd_number(&w->bell[0]);

	if (epoll < 0 || bell < 0 || epoll_ctl(epoll, EPOLL_CTL_MOD, bell, &event) < 0)
		return -1;
	return epoll;
}

void ck_link_watch_close(struct ck_link_watch *w)
{
	if (own_epoll(w) >= 0)
		ck_private_fd_close(&w->epoll);
	for (int i = 0; i < 2; i++)
		ck_private_fd_close(&w->bell[i]);
}

bool ck_link_watch_gone(struct ck_link_watch *w)
{
	return ck_private_fd_gone(&w->bell[0]) || ck_private_fd_gone(&w->bell[1]);
}

void ck_link_watch_wake(struct ck_link_watch *w)
{
	send(ck_private_fd_number(&w->bell[1]), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ck_link_watch_heard(struct ck_link_watch *w)
{
	char rings[64];

	while (recv(ck_private_fd_recent(&w->bell[0]), rings, sizeof(rings), MSG_DONTWAIT) ==
	       (ssize_t)sizeof(rings))
		;
}

void ck_link_watch_set(struct ck_link_watch *w, int op, int fd, uint32_t number, bool input)
{
	struct epoll_event event = {.events = EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLET |
					      (input ? EPOLLIN : 0),
				    .data.u64 = number};

	/* if there is no memory for it, a thread that uses the connection notices its end */
	pthread_mutex_lock(&w->lock);
	epoll_ctl(own_epoll(w), op, fd, &event);
	pthread_mutex_unlock(&w->lock);
}

int ck_link_watch_renew(struct ck_link_watch *w, bool *renewed)
{
	int epoll, ret = 0;

	*renewed = false;
	if (ck_link_watch_gone(w))
		return -EBADF;
	pthread_mutex_lock(&w->lock);
	epoll = own_epoll(w);
	if (epoll < 0) {
		*renewed = true;
		ret = open_epoll(w);
		epoll = ck_private_fd_number(&w->epoll);
	}
	pthread_mutex_unlock(&w->lock);
	return ret < 0 ? ret : epoll;
}
