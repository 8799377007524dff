/*
 * client/link/repair.h - one attempt to continue channels over new connections.
 *
 * A program that `cricket snapshot` writes into files, and each copy of it, has a file that names
 * its server (REMOTE_GPU_ADDRESS=file:). Each line is the server's address, and one of
 *
 *     hold                       the program is being written: it must have no connections
 *     copy SESSION NAMES SECRET  this process is a copy: its session has names of its own
 *
 * SESSION is the beginning of a hash of the id that the session had, so each process of a program
 * finds its own line. NAMES are the new id and key, SECRET is for TLS.
 */
#ifndef CK_CLIENT_LINK_REPAIR_H
#define CK_CLIENT_LINK_REPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/client.h"
#include "client/link/dial.h"
#include "rpc/links.h"

struct ckc_repair {
	struct ckc_client *client;
	struct ck_link *links[CK_DIAL_MAX];
	struct ck_chan *connections[CK_DIAL_MAX];
	uint64_t received[CK_DIAL_MAX]; /* by the server, of each link's bytes */
	int answers[CK_DIAL_MAX];
	size_t count;
	int error;    /* the first of the attempt */
	bool held;    /* there was none: the program is being written into files */
	bool relayed; /* a process of the server relays one of the new connections */
	bool leaves;  /* the session is about to leave its server */
};

/* Does a thread of its own read the channel of @link? Commands have no other reader. */
static inline bool ckc_link_needs_listener(const struct ck_link *link)
{
	return link->kind == CK_LANE_COMMAND;
}

/* Make one attempt for all links of @r, and put them; @r->error says how it went. No channel goes
 * on before all answers are known: if one of them says that the session is an older one, the others
 * have nothing to send. */
void ckc_repair_attempt(struct ckc_repair *r);

#endif
