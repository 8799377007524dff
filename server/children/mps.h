/*
 * server/children/mps.h - the daemons of NVIDIA MPS that the supervisor starts: one for the
 * sessions of an identity with share = "mps" in the policy, and for each list of GPUs.
 *
 * A daemon is a child of the supervisor. Its folder has the mode 0700 and a name that this server
 * alone uses. Nothing here waits: cks_mps_tend() takes each daemon as far as it can get.
 */
#ifndef CK_SERVER_CHILDREN_MPS_H
#define CK_SERVER_CHILDREN_MPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/policy/terms.h"
#include "server/session/identity.h"

#define CK_MPS_PATH 80 /* a socket in the folder has a path that the kernel takes */

/* Times are in ms; 0: not set. */
struct cks_mps_daemon {
	struct cks_mps_daemon *next;
	uint32_t number; /* from 1 on, never used again */
	struct cks_identity identity;
	char gpus[CK_TERMS_GPUS]; /* as in the terms */
	char folder[CK_MPS_PATH];
	pid_t pid;	  /* 0: it has ended */
	pid_t messenger;  /* the process that tells it to quit; 0: none */
	int64_t ready_by; /* it does not listen yet, and is killed then */
	int64_t idle;	  /* since then it has no session */
	int64_t quit_by;  /* it was told to quit, and is killed then */
	int64_t lost;	  /* it ended then, and its sessions have to */
};

struct cks_mps {
	struct cks_mps_daemon *first;
	uint32_t numbered;
};

/* The daemon for sessions of @identity on @gpus, started if there is none; -ENOENT: this host lacks
 * the control program, else -errno, logged. */
int cks_mps_take(struct cks_mps *mps, const struct cks_identity *identity, const char *gpus,
		 struct cks_mps_daemon **out);

/* In a process that will be a worker of @count GPUs (0: unknown): use @daemon, within @terms, and
 * @sm percent of the multiprocessors at most (0: what they allow). */
void cks_mps_enter(const struct cks_mps_daemon *daemon, const struct cks_terms *terms,
		   unsigned int sm, unsigned int count);

/* Child @pid has ended with @status of wait(2). True: it was one of these; *@daemon is then the one
 * that has ended without being told to, or NULL. */
bool cks_mps_ended(struct cks_mps *mps, pid_t pid, int status, struct cks_mps_daemon **daemon);

/* Go on with @daemon, which has @sessions. Returns when to call again, at the latest; INT64_MAX:
 * when something has changed. False in *@exists: it is gone, and freed. */
int64_t cks_mps_tend(struct cks_mps *mps, struct cks_mps_daemon *daemon, size_t sessions,
		     bool *exists);

/* The server stops, its sessions have ended: end all daemons, and wait for that. At most 3 s. */
void cks_mps_stop(struct cks_mps *mps);

/* A daemon of the program before this one, in this process (an upgrade). -ENOMEM. */
int cks_mps_adopt(struct cks_mps *mps, const struct cks_mps_daemon *saved);

#endif
