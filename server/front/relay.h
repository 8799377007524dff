/*
 * server/front/relay.h - the bytes of one connection, after its handshake.
 */
#ifndef CK_SERVER_FRONT_RELAY_H
#define CK_SERVER_FRONT_RELAY_H

struct ck_chan;

/* In a process of its own: relay between @chan, which uses TLS, and @plain, until either ends. Does
 * not return. */
_Noreturn void cks_relay_run(struct ck_chan *chan, int plain);

#endif
