/*
 * server/helpers/checkpoint.h - the process that moves a worker's GPU state out, and back.
 *
 * The driver's calls for that act on another process, by its id. The supervisor loads no driver, so
 * each move is a process of its own, which writes the result to descriptor 3:
 *     --checkpoint DRIVER PID out MILLISECONDS,BYTES MARKS AWAY
 *     --checkpoint DRIVER PID in ROOM MARKS GOAL THERE ALLOWED ANYWHERE SEAT
 * With a SEAT, the account of the session's identity is its descriptor 4.
 */
#ifndef CK_SERVER_HELPERS_CHECKPOINT_H
#define CK_SERVER_HELPERS_CHECKPOINT_H

#include <stdbool.h>
#include <sys/types.h>

#include "server/helpers/gpu_map.h"
#include "server/processes/gpu_room.h"

#define CK_CHECKPOINT_ARGUMENT "--checkpoint"

/* Sent in one write. */
struct cks_checkpoint_answer {
	enum {
		CK_CHECKPOINT_DONE,
		CK_CHECKPOINT_FAILED,  /* the process is as it was before */
		CK_CHECKPOINT_NO_ROOM, /* in: the GPU's memory is in use; as it was before */
		/* the same, but the driver has tried, and may be unable to try again */
		CK_CHECKPOINT_TOO_LATE,
		CK_CHECKPOINT_LOST,    /* the driver cannot bring its state back */
		CK_CHECKPOINT_REFUSED, /* in: not to that GPU; the driver was not asked */
		CK_CHECKPOINT_KILLED,  /* the process for it: how far it came is not known */
	} status;
	unsigned int ms;	   /* that the driver took, without its own start */
	struct cks_gpu_room need;  /* out: for the way back */
	struct cks_device_map map; /* in, when it is done: to other GPUs; count 0: to its own */
	/* in: the number of the GPU that it has come to, if it has one and is not where it was;
	 * else -1 */
	int device;
	char why[200];
};

/* A session that moves. */
struct cks_checkpoint_move {
	pid_t worker;
	bool out;
	unsigned int wait_ms; /* out: for its work on the GPU; in: for room there */
	uint64_t bytes;	      /* out: of GPU memory */
	/* out: those that have left before, on the GPUs of gpus.marks */
	const uint64_t *away;
	/* the rest is of in: as its way out has answered; a count of 0: that is not known */
	const struct cks_gpu_room *need;
	struct cks_gpu_wish gpus;
	const char
		*allowed; /* GPUs of its identity, as CUDA_VISIBLE_DEVICES; "": all of the server */
	bool anywhere;	  /* where there is room, if its own GPU has none */
	int account;	  /* of its identity; -1: there is no policy */
	uint32_t seat;	  /* in it */
};

/* Start one; *@fd is where its answer comes, the caller's to close. The process id, or -errno. */
pid_t cks_checkpoint_start(const char *driver, const struct cks_checkpoint_move *move, int *fd);

/* After its end: its answer, made up if it has left none. */
void cks_checkpoint_read(int fd, struct cks_checkpoint_answer *answer);

/* Run the process: @words are the arguments after CK_CHECKPOINT_ARGUMENT. Returns the exit
 * status. */
int cks_checkpoint_main(char *const *words);

#endif
