/*
 * rpc/link_watch.h - notices events of the connections of a session's links, for links.c.
 *
 * A program may close descriptors that it does not know. These are found again if it closes one of
 * them, and their loss is noticed.
 */
#ifndef CK_RPC_LINK_WATCH_H
#define CK_RPC_LINK_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/process/private_fds.h"

#define CK_LINK_WATCH_BELL UINT64_MAX /* epoll's data of the bell; else a link's number */

struct ck_link_watch {
	bool guests; /* in a program that may close these */
	struct ck_private_fd
		bell[2];      /* a socket pair: a byte sent to 1 wakes the thread that watches 0 */
	pthread_mutex_t lock; /* the last of all locks; guards epoll */
	struct ck_private_fd epoll;
};

/* -errno; call ck_link_watch_close() in any case. */
int ck_link_watch_open(struct ck_link_watch *watch, bool guests);
/* Close the descriptors, also in a forked child. */
void ck_link_watch_close(struct ck_link_watch *watch);

/* Has the program closed the bell? */
bool ck_link_watch_gone(struct ck_link_watch *watch);

/* Wake the watching thread. Without a lock, for handlers of signals. If the program has closed the
 * bell, the thread finds out at its next look. */
void ck_link_watch_wake(struct ck_link_watch *watch);
/* It has been woken. */
void ck_link_watch_heard(struct ck_link_watch *watch);

/* @op of epoll_ctl for the descriptor of link @number; @input: also when bytes arrive. */
void ck_link_watch_set(struct ck_link_watch *watch, int op, int fd, uint32_t number, bool input);

/* The descriptor to wait for. *@renewed: the program had closed it alone; this is a new one, which
 * watches no connection yet. -errno; -EBADF: ck_link_watch_gone(). */
int ck_link_watch_renew(struct ck_link_watch *watch, bool *renewed);

#endif
