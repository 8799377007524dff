/*
 * server/door/offers.h - the server's offer to a client (CK_OFFER): sessions and the queue, which
 * the supervisor knows, and the memory of the GPUs, which a process of its own looks at
 * (server/helpers/gpu_probe.h).
 *
 * A look serves all questions of the tenth of a second after it. There is a process for each set of
 * GPUs that the policy gives identities, a few at a time; it ends when no question comes.
 */
#ifndef CK_SERVER_DOOR_OFFERS_H
#define CK_SERVER_DOOR_OFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cricket.h"
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

/* --- the processes that look at the GPUs (gpu_probes.c) */

/* A look at @gpus (CUDA_VISIBLE_DEVICES; empty: the server's own) that has ended in the last
 * moment, and began after @since (ms); *@note is valid until the next call. -EAGAIN: ask again in a
 * moment; -errno: no process can be started. */
int cks_gpu_probes_look(struct cks_offers *offers, const char *gpus, int64_t since,
			const struct cks_gpu_probe_note **note);

/* --- memory that must be free when a session begins (memory_need.c) */

/* A client that has chosen this server by its offer states the resources that it counts on:
 * meanwhile, another program may have taken the memory (ck_hello_need).
 *
 * Is the memory there that @need names, on the GPUs of @terms, after @since (ms)? 0; -EAGAIN: they
 * are being looked at, so ask again in a moment; -ENOSPC: no, and @why says the reason. */
int cks_memory_need_check(struct cks_offers *offers, const ck_hello_need *need,
			  const struct cks_terms *terms, int64_t since, char *why, size_t size);

#endif
