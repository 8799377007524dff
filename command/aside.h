/*
 * command/aside.h - a process beside the program that this process executes later: it works while
 * the program runs, or after its end. It is in a session of its own, and not the program's child,
 * so that the program neither waits for it nor shares its signals.
 */
#ifndef CK_COMMAND_ASIDE_H
#define CK_COMMAND_ASIDE_H

#include <stdbool.h>
#include <sys/types.h>

struct ckx_aside {
	const char *name; /* as ps shows it */
	int pipe;	  /* a descriptor that it keeps; -1: none. It keeps no other one, */
	bool speaks;	  /* but standard error, if this is set */
	/* What the process does; it ends when this returns. */
	void (*work)(const struct ckx_aside *aside, void *argument);
	pid_t program; /* set by ckx_aside_start */
	int watch;     /* set by ckx_aside_start: readable when the program has ended; or -1 */
};

/* Start the process; @argument is for its work. -errno; nothing is printed. */
int ckx_aside_start(struct ckx_aside *aside, void *argument);

/* In its work: wait until the program has ended. */
void ckx_aside_wait(const struct ckx_aside *aside);

#endif
