/*
 * server/door/disconnected_sessions.h - sessions whose clients have lost all connections: they wait
 * for others (server/worker/reconnect.c).
 *
 * The program may have ended, which a far kernel does not report. So other processes of its machine
 * do: a client that begins is asked about the programs of these sessions (CK_HELLO_KEPT), and a
 * process that has started programs reports their end (CK_ENDED). A report is believed as soon as
 * the session has lost its connections, so it harms none that has some. The report may come first,
 * as from a process that has executed another program.
 */
#ifndef CK_SERVER_DOOR_DISCONNECTED_SESSIONS_H
#define CK_SERVER_DOOR_DISCONNECTED_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cricket.h"
#include "server/processes/connection_peek.h"
#include "server/processes/session_info.h"

struct cks_admission;
struct cks_workers;

static inline bool cks_disconnected(const struct cks_session_info *session)
{
	return session->cut.since != 0;
}

/* Sessions may have lost their connections: those end of which others have reported that their
 * programs have ended, and, beyond @most (--max-kept), the ones that have waited longest. */
void cks_disconnected_run(struct cks_workers *workers, size_t most);

/* A client of @identity begins. */
struct cks_newcomer {
	const struct cks_identity *identity;
	const char *program, *host;
	unsigned int pid;
	const ck_hello_place *place;
};

/* Does it know of kept sessions of its machine, and of those of its own process, whether their
 * programs have ended? True: it was asked on @fd, and begins again. */
bool cks_disconnected_ask(struct cks_workers *workers, const struct cks_newcomer *newcomer, int fd,
			  const struct cks_peeked *call);
/* Those of which it says so end. True: they, or one that has given way, are not gone yet, and it
 * waits for that. */
bool cks_disconnected_clear(struct cks_workers *workers, const struct cks_newcomer *newcomer);
/* It lacks a place or memory: end a kept session that it has probably come to replace, because
 * program, machine's name and identity are the same. False: there is none. */
bool cks_disconnected_replace(struct cks_workers *workers, const struct cks_newcomer *newcomer);
/* Are sessions of @identity (NULL: any) ending that were kept, or about to? Their memory will be
 * free. */
bool cks_disconnected_ending(struct cks_workers *workers, const struct cks_identity *identity);
/* The same as cks_disconnected_replace for session @guest. */
bool cks_disconnected_give_way(struct cks_workers *workers, const struct cks_session_info *guest);

/* Answer a report (CK_ENDED) in @bytes that @peer has sent on @fd; the caller closes @fd. */
void cks_disconnected_serve(struct cks_workers *workers, struct cks_admission *admission, int fd,
			    const struct cks_peer *peer, const unsigned char *bytes,
			    const struct cks_peeked *call);

#endif
