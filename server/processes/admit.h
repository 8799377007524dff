/*
 * server/processes/admit.h - admission to a session: protocol, token, number of sessions.
 *
 * The supervisor checks a hello and refuses it itself, so that a refusal costs no process. A worker
 * that receives an admitted hello checks protocol and token again.
 */
#ifndef CK_SERVER_PROCESSES_ADMIT_H
#define CK_SERVER_PROCESSES_ADMIT_H

#include <stdbool.h>

#include "cricket.h"
#include "server/processes/peek.h"
#include "server/processes/peer.h"
#include "server/processes/token.h"

struct cks_options;
struct cks_workers;

#define CK_WHY_SIZE 256

/* May a client with these @args have a session? If not, @why is the reason. */
ck_hello_status cks_admit_judge(const struct cks_options *options, struct cks_token *token,
				const ck_hello_args *args, char why[CK_WHY_SIZE]);

/* State that the supervisor needs to check hellos. */
struct cks_admission {
	const struct cks_options *options;
	struct cks_workers *workers;
	struct cks_token token;
	bool draining; /* no session begins any more */
};

/* Check the hello in @bytes that @peer has sent on @fd: pass it to a worker, or refuse it. The
 * caller closes @fd. */
void cks_admit(struct cks_admission *admission, int fd, const struct cks_peer *peer,
	       const unsigned char *bytes, const struct cks_peeked *call);

#endif
