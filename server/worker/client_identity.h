/*
 * server/worker/client_identity.h - a worker gets a client: whose it is, and what that identity may
 * have.
 */
#ifndef CK_SERVER_WORKER_CLIENT_IDENTITY_H
#define CK_SERVER_WORKER_CLIENT_IDENTITY_H

struct ck_output;
struct cks_options;

/*
 * Take the messages that come first (messages.h): the user to become, the account to count in.
 * Before any byte of the client is read. *@options become those of the session, in which the terms
 * of its identity come before the server's options. -errno.
 */
int cks_client_identity_apply(const struct cks_options **options, struct ck_output *output);

#endif
