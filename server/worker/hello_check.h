/*
 * server/worker/hello_check.h - may a client have a session, by its hello?
 */
#ifndef CK_SERVER_WORKER_HELLO_CHECK_H
#define CK_SERVER_WORKER_HELLO_CHECK_H

#include "cricket.h"
#include "server/policy/refusal.h"
#include "server/policy/token.h"
#include "server/session/identity.h"

struct cks_options;

#define CK_WHY_SIZE 256

/* May the client on @fd with these @args have a session? CK_REFUSALS: yes; else @why is the reason
 * in words. */
enum cks_refusal cks_hello_check(const struct cks_options *options, struct cks_token *token, int fd,
				 const ck_hello_args *args, char why[CK_WHY_SIZE]);

/* The status of the reply to a hello with this result of cks_hello_check. */
ck_hello_status cks_hello_check_status(enum cks_refusal kind);

/* Does @fd lack the TLS that the server requires? */
bool cks_hello_check_wants_tls(const struct cks_options *options, int fd);

/* The identity of the client on @fd with these @args, which @token has just admitted. */
void cks_hello_check_identity(const struct cks_options *options, const struct cks_token *token,
			      const ck_hello_args *args, int fd, struct cks_identity *identity);

#endif
