/*
 * server/supervisor/rendezvous.h - where processes that have outlived a crashed supervisor find the
 * next one; see leash.h.
 */
#ifndef CK_SERVER_SUPERVISOR_RENDEZVOUS_H
#define CK_SERVER_SUPERVISOR_RENDEZVOUS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/processes/sockets.h"

#define CK_RENDEZVOUS_MAX 16 /* connections that have not described themselves; others wait */
#define CK_RENDEZVOUS_POLL (1 + CK_RENDEZVOUS_MAX)

struct cks_broker;
struct cks_workers;

struct cks_rendezvous {
	struct cks_socket socket; /* its fd is -1: none */
	int waiting[CK_RENDEZVOUS_MAX];
	int64_t since[CK_RENDEZVOUS_MAX];
};

/* Without a socket. */
void cks_rendezvous_init(struct cks_rendezvous *rendezvous);
/* Listen in @folder. -errno, logged; -EADDRINUSE: another server uses the folder. */
int cks_rendezvous_open(struct cks_rendezvous *rendezvous, const char *folder);
void cks_rendezvous_close(struct cks_rendezvous *rendezvous);

/* Fill in CK_RENDEZVOUS_POLL descriptors; and handle what poll(2) says of them. */
size_t cks_rendezvous_poll(const struct cks_rendezvous *rendezvous, struct pollfd *fds);
void cks_rendezvous_run(struct cks_rendezvous *rendezvous, const struct pollfd *fds,
			struct cks_workers *workers, struct cks_broker *broker);

#endif
