/*
 * command/run/side_process.h - a process beside the program that this process executes later: it
 * works while the program runs, or after its end. It is in a session of its own, and not the
 * program's child, so that the program neither waits for it nor shares its signals.
 */
#ifndef CK_COMMAND_RUN_SIDE_PROCESS_H
#define CK_COMMAND_RUN_SIDE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct ckx_side_process {
	const char *name; /* as ps shows it */
	int pipe;	  /* a descriptor that it keeps; -1: none. It keeps no other one, */
	bool speaks;	  /* but standard error, if this is set */
	/* The process's work; it ends when this returns. */
	void (*work)(const struct ckx_side_process *aside, void *argument);
	pid_t program; /* set by ckx_side_process_start */
	/* set by ckx_side_process_start: readable when the program has ended; or -1 */
	int watch;
};

/* Start the process; @argument is for its work. -errno; nothing is printed. */
int ckx_side_process_start(struct ckx_side_process *aside, void *argument);

/* In its work: wait until the program has ended. */
void ckx_side_process_wait(const struct ckx_side_process *aside);

#endif
