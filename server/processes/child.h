/*
 * server/processes/child.h - what a child process does before it executes a program.
 */
#ifndef CK_SERVER_PROCESSES_CHILD_H
#define CK_SERVER_PROCESSES_CHILD_H

/* In each child, before it executes a program: unblock the supervisor's signals, and
 * ignore those that mean the supervisor alone (SIGHUP, SIGUSR2). */
void cks_child_signals(void);
/* In a child: execute this program again. Of the supervisor's descriptors it keeps @third, as 3,
 * and @fourth, as 4; -1: no fourth. */
_Noreturn void cks_child_execute(char **arguments, int third, int fourth);
/* The same through the command @prefix, a path and arguments that NULL ends, which gets the path of
 * this program and @arguments behind its own. */
_Noreturn void cks_child_execute_through(char *const *prefix, char **arguments, int third,
					 int fourth);

#endif
