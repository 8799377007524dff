/*
 * server/processes/hello.h - the first call of a client: its identity, and the reply.
 */
#ifndef CK_SERVER_PROCESSES_HELLO_H
#define CK_SERVER_PROCESSES_HELLO_H

#include "rpc/record.h"
#include "server/session/identity.h"

struct ck_options;
struct ck_output;
struct ck_session;

/* The client's own data, for logs, and its identity as the server knows it. */
struct ck_client {
	char application[257], host[257], release[65];
	unsigned int pid;
	struct ck_identity identity;
};

/* Load the driver and prepare the reply to ck_hello in advance, once. -ENODEV: the driver does not
 * work (logged). */
int ck_hello_prepare(const struct ck_options *options);

/*
 * Read and check the hello on @chan, load the driver if needed, and make the session. @output is
 * for output of the session's driver. 0: the session exists, @announce was called with it, and the
 * client has its reply. -ECONNREFUSED: the client was sent the reason; else -errno.
 */
int ck_hello(const struct ck_options *options, struct ck_chan *chan, struct ck_reader *reader,
	     struct ck_output *output, int (*announce)(const struct ck_session *session),
	     struct ck_client *client, struct ck_session **session);

#endif
