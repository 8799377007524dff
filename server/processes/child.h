/*
 * server/processes/child.h - the start of a process of the server: signals, executing a program,
 * and its title in ps(1).
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

/* Free the place of the arguments for titles: returns copies of them, for the rest of the process.
 * If there is no memory for these, returns @argv itself, and no title is ever shown. Call once,
 * before anything keeps a pointer to an argument. */
char **cks_title_take(int argc, char **argv);

/* Show this, cut to the length that the arguments had. Unprintable characters become '?'. */
void cks_title_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Ignore the signals that end a process unless it says otherwise, and mean nothing here: programs
 * of sessions would be lost. SIGTERM, SIGINT, SIGKILL and faults still end it; SIGHUP and SIGUSR2
 * are the caller's. A program that is executed inherits this.
 */
void cks_signals_ignore(void);

#endif
