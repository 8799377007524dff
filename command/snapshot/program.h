/*
 * command/snapshot/program.h - the program of `cricket snapshot` before it is written.
 *
 * It leads a session of its own, without a terminal, and its descriptors 0 to 2 are pipes: CRIU can
 * put others in their places.
 */
#ifndef CK_COMMAND_SNAPSHOT_PROGRAM_H
#define CK_COMMAND_SNAPSHOT_PROGRAM_H

#include <jansson.h>

#include "command/snapshot/process_images.h"
#include "command/snapshot/ready.h"

struct ckx_program {
	pid_t pid;
	struct ckx_pipes pipes;
	int signals; /* a signalfd */
	int status;  /* of one that has ended */
};

/* Start @argv. -errno, printed. */
int ckx_program_start(struct ckx_program *p, char **argv, struct ckx_images *images);

/* Wait until it is @ready. -ECHILD: it has ended; -EINTR: a signal ends this command; printed. */
int ckx_program_wait(struct ckx_program *p, const struct ckx_ready *ready);

/* End all its processes, and pass on the rest of their output. */
void ckx_program_end(struct ckx_program *p);

/* The names of the sessions that its processes have, of the server at control socket @fd; at most
 * @room: their number, or -errno, printed. */
int ckx_program_sessions(int fd, char names[][32], size_t room);

/* Its sessions have closed their connections to @port: wait until it has noticed. -ETIMEDOUT,
 * printed. */
int ckx_program_cut(int port);

#endif
