/*
 * server/door/offers.h - what the server could give a client now (CK_OFFER): sessions and the
 * queue, which the supervisor knows, and the memory of the GPUs, which a process of its own looks
 * at (server/helpers/gpu_probe.h).
 *
 * A look serves all questions of the tenth of a second after it. There is a process for each set of
 * GPUs that the policy gives identities, a few at a time; it ends when no question comes.
 */
#ifndef CK_SERVER_DOOR_OFFERS_H
#define CK_SERVER_DOOR_OFFERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/door/admit.h"
#include "server/helpers/gpu_probe.h"
#include "server/policy/terms.h"

#define CK_GPU_PROBES 4

struct cks_gpu_probe {
	pid_t pid;		  /* 0: there is no process */
	int control;		  /* -1: it is ending */
	char gpus[CK_TERMS_GPUS]; /* its CUDA_VISIBLE_DEVICES; empty: the server's own */
	int64_t asked;		  /* in ms; 0: it has answered */
	int64_t looked;		  /* when it was asked for @note, in ms; 0: never */
	int64_t heard;		  /* when @note came, in ms */
	int64_t used;		  /* the last question, in ms */
	struct cks_gpu_probe_note note;
};

struct cks_offers {
	const char *driver;
	struct cks_gpu_probe list[CK_GPU_PROBES];
};

/* Answer or refuse the call in @bytes that @peer has sent on @fd. True: the GPUs are being looked
 * at, so call again in a moment; false: done, and the caller closes @fd. */
bool cks_offers_serve(struct cks_offers *offers, struct cks_admission *admission, int fd,
		      const struct cks_peer *peer, const unsigned char *bytes,
		      const struct cks_peeked *call);

#define CK_OFFER_MS 9000 /* for an answer: a client waits a second longer */

/* The same call has waited for CK_OFFER_MS: answer that the GPUs cannot be looked at. */
void cks_offers_give_up(int fd, const struct cks_peeked *call);

/* A child has ended; false: it is none of these. */
bool cks_offers_ended(struct cks_offers *offers, pid_t pid);

#endif
