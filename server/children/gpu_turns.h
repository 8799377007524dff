/*
 * server/children/gpu_turns.h - the sharing of GPUs by weight (fair_share.h), for the sessions of
 * this server.
 */
#ifndef CK_SERVER_CHILDREN_GPU_TURNS_H
#define CK_SERVER_CHILDREN_GPU_TURNS_H

struct cks_session_info;
struct cks_workers;
struct cks_worker_note;
struct worker;

/* Hold sessions and give turns, if the policy has different weights. Lowers *@timeout_ms to the
 * next call. */
void cks_gpu_turns_run(struct cks_workers *workers, int *timeout_ms);

/* The worker of @session leaves off to wait for turns, by itself (CK_CONTROL_RETURN). */
void cks_gpu_turns_forget(struct cks_session_info *session);

/* The note of @worker is about turns, or tells its GPUs. */
void cks_gpu_turns_handle(struct cks_workers *workers, struct worker *worker,
			  const struct cks_worker_note *note);

#endif
