/*
 * client/link/dial.h - find the server and open connections to it.
 */
#ifndef CK_CLIENT_LINK_DIAL_H
#define CK_CLIENT_LINK_DIAL_H

#include <stdbool.h>

struct ck_chan;
struct ckc_connection;

/* The connections that a session begins with. Those in reserve are for the first further threads,
 * of the program or of the client. */
enum ckc_dialed {
	CKC_DIALED_HELLO,
	CKC_DIALED_COMMANDS,
	CKC_DIALED_RESERVE,
	CKC_DIALED = CKC_DIALED_RESERVE + 3
};

/* Before the first attempt: find the servers that the user's address names. 0 or -errno, logged.
 * End it in any case. */
int ckc_dial_begin(struct ckc_connection *at);
void ckc_dial_end(struct ckc_connection *at);

/*
 * Open the connections that a session begins with, at the same time; on this host none in reserve
 * (NULL). Where TLS is wanted, only that of the hello has it (ckc_dial_encrypt). Notes in @at the
 * server's address and the transports that may be used. A server that cannot be reached is passed
 * over if there are more. 0 or -errno; an error is logged.
 */
int ckc_dial_server(struct ckc_connection *at, struct ck_chan *chans[CKC_DIALED]);

/*
 * The hello ended with @error, -errno: was it the handshake of TLS that the server did not finish?
 * A client has finished it before the server has, so that a server with more handshakes than it can
 * make seems to close a connection that is open. true: @at notes that the server must be tried
 * again, and the pause before that is over. Not over TLS, and not for more than some seconds in
 * all.
 */
bool ckc_dial_unfinished(struct ckc_connection *at, int error);

/* The server is full. */
void ckc_dial_busy(struct ckc_connection *at);

/* There is no session with this server: is there another one to try? After the last one, if the
 * user @waits: the first full one. */
bool ckc_dial_next(struct ckc_connection *at, bool waits);

/* After the hello: encrypt @count of the others, if its connection is. On error, all are closed and
 * NULL. Notes in @at whether they end in the worker. 0 or -errno. */
int ckc_dial_encrypt(struct ckc_connection *at, struct ck_chan **chans, unsigned int count);

/* Open a further connection to the server that @at notes. 0 or -errno. */
int ckc_dial_again(const struct ckc_connection *at, struct ck_chan **chan);

/*
 * Open @count connections to the server in place of broken ones, within about @timeout_ms: at
 * @moved, unless that is empty, else where REMOTE_GPU_ADDRESS=file: leads to now unless it still
 * names that server, else where it was, else where its name leads to now. 0 or -errno of the first
 * attempt.
 */
int ckc_dial_missing(const struct ckc_connection *at, const char *moved, struct ck_chan **chans,
		     unsigned int count, int timeout_ms);

/* The user's choice of servers for this session; NULL: none. */
const char *ckc_dial_wish(const struct ckc_connection *at);

/* Limit of the time for connecting, and for the first reply on a connection. */
int ckc_dial_timeout_ms(void);

/* The consequence of an error of connecting: nothing, or the next server, or that the process goes
 * on without it. */
const char *ckc_dial_rest(const struct ckc_connection *at);

#endif
