/*
 * server/helpers/checkpoint_part.h - the process that moves a worker's GPU state, for checkpoint.c
 * and checkpoint_in.c alone.
 */
#ifndef CK_SERVER_HELPERS_CHECKPOINT_PART_H
#define CK_SERVER_HELPERS_CHECKPOINT_PART_H

#include <stdbool.h>

#include "cuda/types.h"
#include "server/helpers/checkpoint.h"

#define CK_ACCOUNT_FD 4

/* The driver's calls, which the table of rpc/driver.api refuses to clients. */
struct cks_checkpoint_calls {
	CUresult (*state)(int pid, CUprocessState *state);
	CUresult (*lock)(int pid, CUcheckpointLockArgs *args);
	CUresult (*checkpoint)(int pid, CUcheckpointCheckpointArgs *args);
	CUresult (*restore)(int pid, CUcheckpointRestoreArgs *args);
	CUresult (*unlock)(int pid, CUcheckpointUnlockArgs *args);
};

extern struct cks_checkpoint_calls cks_checkpoint_calls;

/* The answer is @status, for a reason in words. */
void cks_checkpoint_fail(struct cks_checkpoint_answer *answer, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Note that @call failed, unless it did not. */
bool cks_checkpoint_check(struct cks_checkpoint_answer *answer, const char *call, CUresult err);

/* The state of process @pid; false: the driver does not tell, or has lost it. */
bool cks_checkpoint_state(struct cks_checkpoint_answer *answer, int pid, CUprocessState *state);

/* checkpoint_in.c: numbers of each GPU, as in an argument; */
void cks_checkpoint_bytes(const char *text, uint64_t bytes[CK_NOTE_GPUS]);
void cks_checkpoint_marks(const char *text, uint32_t marks[CK_NOTE_GPUS]);
/* a way back. */
struct cks_checkpoint_way {
	struct cks_gpu_room need;
	struct cks_machine here;
	struct cks_gpu_plan plan;
	struct cks_device_map map;
	bool planned; /* the three are filled in */
	bool anywhere;
	const char *goal;
	uint32_t marks[CK_NOTE_GPUS];
	const char *there, *allowed;
	long seat;   /* -1: there is no account */
	int room_ms; /* to wait for room */
};

/* Read the words behind "in", and find out where the session's GPUs are. Before the driver is open.
 * False: @answer says why it cannot return. */
bool cks_checkpoint_way(const char *driver, char *const *words, struct cks_checkpoint_way *way,
			struct cks_checkpoint_answer *answer);

/* Move the state of @pid in. */
void cks_checkpoint_in(struct cks_checkpoint_answer *answer, int pid,
		       struct cks_checkpoint_way *way);

#endif
