/*
 * client/wire/dial.h - find the server and open connections to it.
 */
#ifndef CK_CLIENT_WIRE_DIAL_H
#define CK_CLIENT_WIRE_DIAL_H

struct ck_chan;
struct ckc_connection;

/*
 * Open the two connections that each session needs, for the hello and for the command stream, at
 * the same time. Notes in @at the server's address and the transports that may be used. 0 or -errno;
 * an error is logged.
 */
int ckc_dial_server(struct ckc_connection *at, struct ck_chan *chans[2]);

/* Open a further connection to the server that @at notes. 0 or -errno. */
int ckc_dial_again(const struct ckc_connection *at, struct ck_chan **chan);

/* Limit of the time for connecting, and for the first reply on a connection. */
int ckc_dial_timeout_ms(void);

#endif
