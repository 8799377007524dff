/*
 * server/front/shakes.h - the TLS handshakes that the front process makes, all at a time and
 * without waiting.
 */
#ifndef CK_SERVER_FRONT_SHAKES_H
#define CK_SERVER_FRONT_SHAKES_H

#include <poll.h>
#include <stddef.h>

struct ck_tls;

/* Most at a time; the supervisor keeps to fewer (server/door/fresh_tls.c). */
#define CK_SHAKES 1280
#define CK_SHAKES_POLL (2 * CK_SHAKES)

struct cks_shakes;

/* NULL: out of memory. */
struct cks_shakes *cks_shakes_create(void);
/* Give up all handshakes. */
void cks_shakes_destroy(struct cks_shakes *shakes);

/* From now on, make handshakes with @tls, which it owns. The earlier one is destroyed when the
 * handshakes that use it have ended. -ENOMEM: the earlier one stays, and @tls is destroyed. */
int cks_shakes_use(struct cks_shakes *shakes, struct ck_tls *tls);

/* Begin one over @wire, for the relay's end @plain of a pair; takes both descriptors. They are
 * closed if it cannot begin. */
void cks_shakes_add(struct cks_shakes *shakes, int wire, int plain);

/* Fill in @fds, which has room for CK_SHAKES_POLL; how many. */
size_t cks_shakes_poll(const struct cks_shakes *shakes, struct pollfd *fds);

/*
 * Go on with those for which something has come: call before more are added. A connection over
 * which the client has sent something gets a process, which relays it; in that process, which has
 * no other connections, this does not return.
 */
void cks_shakes_run(struct cks_shakes *shakes, const struct pollfd *fds);

#endif
