/*
 * server/processes/hello.h - the first call of a client: who it is, and what it is told.
 */
#ifndef CK_SERVER_PROCESSES_HELLO_H
#define CK_SERVER_PROCESSES_HELLO_H

#include "rpc/record.h"
#include "server/session/identity.h"

struct ck_options;
struct ck_output;
struct ck_session;

/* Who the client says it is, for logs; on whose behalf it runs, as the server knows it. */
struct ck_client {
	char application[257], host[257], release[65];
	unsigned int pid;
	struct ck_identity identity;
};

/* Load the driver and ask it for what a client will be told, ahead of ck_hello, once. -ENODEV: the
 * driver does not work (logged). */
int ck_hello_prepare(const struct ck_options *options);

/*
 * Read and judge the hello of @chan, load the driver if that is not done, make the session. @output is what the
 * session's driver writes. 0: the session stands, @announce has been called with it and the client has its
 * answer. -ECONNREFUSED: the client has been told why not; else -errno.
 */
int ck_hello(const struct ck_options *options, struct ck_chan *chan, struct ck_reader *reader,
	     struct ck_output *output, int (*announce)(const struct ck_session *session),
	     struct ck_client *client, struct ck_session **session);

#endif
