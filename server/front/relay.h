/*
 * server/front/relay.h - the handshake of one connection, and its bytes from then on.
 */
#ifndef CK_SERVER_FRONT_RELAY_H
#define CK_SERVER_FRONT_RELAY_H

struct ck_tls;

/* In a process of its own: relay between @wire, where a probe or a handshake has begun, and @plain, until either ends. @report
 * is a datagram socket for one line about a client that is not admitted. Does not return. */
_Noreturn void cks_relay_run(struct ck_tls *tls, int wire, int plain, int report);

#endif
