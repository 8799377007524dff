/*
 * server/front/handshakes.h - the TLS handshakes that the front process makes, all at a time and
 * without waiting.
 */
#ifndef CK_SERVER_FRONT_HANDSHAKES_H
#define CK_SERVER_FRONT_HANDSHAKES_H

#include <poll.h>
#include <stddef.h>

struct ck_chan;
struct ck_tls;

/* Most at a time; the supervisor keeps to fewer (server/door/new_connection_tls.c). */
#define CK_HANDSHAKES 1664
#define CK_HANDSHAKES_POLL (2 * CK_HANDSHAKES)

struct cks_handshakes;

/* NULL: out of memory. */
struct cks_handshakes *cks_handshakes_create(void);
/* Give up all handshakes. */
void cks_handshakes_destroy(struct cks_handshakes *shakes);

/* From now on, make handshakes with @tls, which it owns. The earlier one is destroyed when the
 * handshakes that use it have ended. -ENOMEM: the earlier one stays, and @tls is destroyed. */
int cks_handshakes_use(struct cks_handshakes *shakes, struct ck_tls *tls);

/* Begin one over @wire, for the relay's end @plain of a pair; takes both descriptors. They are
 * closed if it cannot begin. */
void cks_handshakes_add(struct cks_handshakes *shakes, int wire, int plain);

/* Fill in @fds, which has room for CK_HANDSHAKES_POLL; how many. */
size_t cks_handshakes_poll(const struct cks_handshakes *shakes, struct pollfd *fds);

/*
 * Go on with those for which something has come: call before more are added. A connection over
 * which the client has sent something gets a process, which relays it; in that process, which has
 * no other connections, this does not return.
 */
void cks_handshakes_run(struct cks_handshakes *shakes, const struct pollfd *fds);

/* --- the bytes of a connection after its handshake (relay.c) */

/* In a process of its own: relay between @chan, which uses TLS, and @plain, until either ends. Does
 * not return. */
_Noreturn void cks_relay_run(struct ck_chan *chan, int plain);

#endif
