/*
 * server/processes/admit.h - admission to a session: protocol, token, number of sessions.
 *
 * The supervisor judges a hello and refuses it itself, so that a refusal costs no process. A worker that gets
 * an admitted hello judges protocol and token once more.
 */
#ifndef CK_SERVER_PROCESSES_ADMIT_H
#define CK_SERVER_PROCESSES_ADMIT_H

#include "cricket.h"
#include "server/processes/peek.h"
#include "server/processes/peer.h"
#include "server/processes/token.h"

struct ck_options;
struct ck_workers;

#define CK_WHY_SIZE 256

/* Whether a client with these @args may come in at all; @why not otherwise. */
ck_hello_status ck_admit_judge(const struct ck_options *options, struct ck_token *token,
			       const ck_hello_args *args, char why[CK_WHY_SIZE]);

/* The supervisor's means of judging. */
struct ck_admission {
	const struct ck_options *options;
	struct ck_workers *workers;
	struct ck_token token;
};

/* Judge the hello in @bytes that @peer has sent on @fd, which stays the caller's to close: a worker gets
 * it, or it is refused. */
void ck_admit(struct ck_admission *admission, int fd, const struct ck_peer *peer,
	      const unsigned char *bytes, const struct ck_peeked *call);

#endif
