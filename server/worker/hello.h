/*
 * server/worker/hello.h - the first call of a client: its identity, and the reply.
 */
#ifndef CK_SERVER_WORKER_HELLO_H
#define CK_SERVER_WORKER_HELLO_H

#include <stdbool.h>

#include "rpc/record.h"
#include "server/session/identity.h"
#include "util/process/machine.h"

struct cks_options;
struct ck_output;
struct cks_session;

/* The client's own data, for logs, and its identity as the server knows it. */
struct cks_client {
	char application[257], host[257], release[65];
	unsigned int pid;
	char prefix[32];   /* of this process (CRICKET_SESSION), by its name; empty: none */
	unsigned int keep; /* seconds that the session outlives its connections; 0: it does not */
	unsigned char machine[CK_MACHINE_ID]; /* its own, as it says; zeros: unknown */
	struct cks_identity identity;
	/* by the supervisor, which has said the identity: this process cannot read the token */
	bool judged;
};

/* Load the driver and prepare the reply to cks_hello in advance; does nothing the second time.
 * -ENODEV: the driver does not work (logged). */
int cks_hello_prepare(const struct cks_options *options);

/* Reserve the addresses and the device memory that the reply offers, once. */
void cks_hello_reserve(const struct cks_options *options);

/*
 * Read and check the hello on @chan, load the driver if needed, and make the session. @output is
 * for output of the session's driver. 0: the session exists, @announce was called with it, and the
 * client has its reply. -ECONNREFUSED: the client was sent the reason; else -errno.
 */
int cks_hello(const struct cks_options *options, struct ck_chan *chan, struct ck_reader *reader,
	      struct ck_output *output, int (*announce)(const struct cks_session *session),
	      struct cks_client *client, struct cks_session **session);

#endif
