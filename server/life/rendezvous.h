/*
 * server/life/rendezvous.h - where processes that have outlived a crashed supervisor find the
 * next one; see orphan_reconnect.h.
 */
#ifndef CK_SERVER_LIFE_RENDEZVOUS_H
#define CK_SERVER_LIFE_RENDEZVOUS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/policy/users.h"
#include "server/processes/sockets.h"

#define CK_RENDEZVOUS_MAX 16 /* connections that have not described themselves; others wait */
#define CK_RENDEZVOUS_POLL (1 + CK_RENDEZVOUS_MAX)

struct cks_broker;
struct cks_workers;

struct cks_rendezvous {
	struct cks_socket socket; /* its fd is -1: none */
	int waiting[CK_RENDEZVOUS_MAX];
	int64_t since[CK_RENDEZVOUS_MAX];
	const struct cks_user_range *users; /* of workers */
};

/* Without a socket. */
void cks_rendezvous_init(struct cks_rendezvous *rendezvous);
/* Listen in @folder, for processes of the server and of @users, which must live longer. -errno,
 * logged; -EADDRINUSE: another server uses the folder. */
int cks_rendezvous_open(struct cks_rendezvous *rendezvous, const char *folder,
			const struct cks_user_range *users);
void cks_rendezvous_close(struct cks_rendezvous *rendezvous);

/* Fill in CK_RENDEZVOUS_POLL descriptors; and handle poll(2)'s results for them. */
size_t cks_rendezvous_poll(const struct cks_rendezvous *rendezvous, struct pollfd *fds);
void cks_rendezvous_run(struct cks_rendezvous *rendezvous, const struct pollfd *fds,
			struct cks_workers *workers, struct cks_broker *broker);

#endif
