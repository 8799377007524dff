/*
 * server/worker/session_tls.h - TLS that ends in the worker: further connections of a session whose
 * first one uses TLS (D23).
 *
 * They begin with the session's secret, which the client has from the encrypted reply to its hello.
 * The worker has no certificate, and no private key of the server.
 */
#ifndef CK_SERVER_WORKER_SESSION_TLS_H
#define CK_SERVER_WORKER_SESSION_TLS_H

struct ck_chan;
struct cks_first_message;
struct cks_session;

struct cks_session_tls;

/* Choose the session's secret if connection @fd, its first, uses TLS. -errno. */
int cks_session_tls_choose(struct cks_session *session, int fd);

/* For connections of @session, which outlives the object. -errno. */
int cks_session_tls_create(const struct cks_session *session, struct cks_session_tls **tls);

/*
 * Read the first message of a connection of the session, which is not read from yet. If it begins
 * with a handshake, *chan becomes the encrypted channel. A client that is slow, or one that replays
 * a recording, takes one of a few places, for a few seconds. From any thread. -errno, logged if it
 * is about TLS.
 */
int cks_session_tls_read_first(struct cks_session_tls *tls, struct ck_chan **chan,
			       struct cks_first_message *first);

/* The session goes away for a while: cut handshakes that are not finished, and begin no others
 * until it comes back. */
void cks_session_tls_leave(struct cks_session_tls *tls);
void cks_session_tls_return(struct cks_session_tls *tls);

/* While it is away: the session has another id and secret. */
void cks_session_tls_rename(struct cks_session_tls *tls);

#endif
