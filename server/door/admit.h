/*
 * server/door/admit.h - admission to a session: protocol, token, number of sessions.
 *
 * The supervisor checks a hello and refuses it itself, so that a refusal costs no process. A worker
 * that receives an admitted hello checks protocol and token again.
 */
#ifndef CK_SERVER_DOOR_ADMIT_H
#define CK_SERVER_DOOR_ADMIT_H

#include <stdbool.h>

#include "server/processes/connection_peek.h"
#include "server/processes/peer.h"
#include "server/processes/session_info.h"
#include "server/worker/hello_check.h"

struct cks_audit;
struct cks_offers;
struct cks_queue;
struct cks_options;
struct cks_workers;

/* State that the supervisor needs to check hellos. */
struct cks_admission {
	const struct cks_options *options;
	struct cks_workers *workers;
	struct cks_audit *audit; /* NULL: none */
	struct cks_token token;
	struct cks_queue *queue;
	struct cks_offers *offers; /* NULL: no client's need of memory is checked */
	int64_t since;		   /* when the client came that is being looked at, in ms */
	bool looking;		   /* the last client waits for a look at the GPUs alone */
	bool draining;		   /* no session begins any more */
};

/* Of a client that waits for a session: may it be held for longer, and has it gone? */
enum cks_gpu_turn { CK_TURN_HOLD, CK_TURN_LAST, CK_TURN_GONE };

/* Check the hello in @bytes that @peer has sent on @fd: pass it to a worker, or refuse it; the
 * caller closes @fd. True: it waits for a session, so call again with the same hello. */
bool cks_admit(struct cks_admission *admission, int fd, const struct cks_peer *peer,
	       const unsigned char *bytes, const struct cks_peeked *call, enum cks_gpu_turn turn);

/* Would a client of @owner get a session now? If not, @why says what is in its way. */
bool cks_admit_would(struct cks_admission *admission, const struct cks_owner *owner,
		     char why[CK_WHY_SIZE]);

#endif
