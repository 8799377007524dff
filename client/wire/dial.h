/*
 * client/wire/dial.h - find the server and open connections to it.
 */
#ifndef CK_CLIENT_WIRE_DIAL_H
#define CK_CLIENT_WIRE_DIAL_H

struct ck_chan;
struct ckc_connection;

/* The connections that a session begins with. */
enum ckc_dialed {
	CKC_DIALED_HELLO,
	CKC_DIALED_COMMANDS,
	CKC_DIALED_RESERVE, /* for the first further thread */
	CKC_DIALED
};

/*
 * Open the connections that a session begins with, at the same time. Notes in @at the server's address and the transports that may be used. 0 or -errno;
 * an error is logged.
 */
int ckc_dial_server(struct ckc_connection *at, struct ck_chan *chans[CKC_DIALED]);

/* Open a further connection to the server that @at notes. 0 or -errno. */
int ckc_dial_again(const struct ckc_connection *at, struct ck_chan **chan);

/* Limit of the time for connecting, and for the first reply on a connection. */
int ckc_dial_timeout_ms(void);

#endif
