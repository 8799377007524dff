/*
 * server/life/upgrade.h - the supervisor executes its program again, which may be of another
 * release by now, and which continues its work in the same process.
 *
 * Workers stay its children, clients that connect meanwhile wait in the sockets' queues, and
 * signals stay pending. First a child process of the new program checks that it understands the
 * options and the state, and that its driver works: after the exec there is no way back.
 */
#ifndef CK_SERVER_LIFE_UPGRADE_H
#define CK_SERVER_LIFE_UPGRADE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/control/control.h"

struct cks_state;

/* First arguments of the new program: continue, or only check; the number of the state's
 * descriptor is the second. */
#define CK_CONTINUE_ARGUMENT "--continue"
#define CK_CHECK_ARGUMENT "--check-continue"

struct cks_upgrade {
	char program[PATH_MAX]; /* a path at which an installation puts the new program */
	char **argv;		/* without the arguments above */
	bool wanted;		/* by a signal or a command */
	pid_t check;		/* 0: none is running */
	int64_t check_by;
	bool due;	   /* the new program has been checked */
	char refusal[256]; /* why it is not executed; else empty */
	bool asked;	   /* a command waits for the end */
	struct cks_asker asker;
};

/* Call early: the path is that of the program that runs now. Keeps @argv. */
void cks_upgrade_init(struct cks_upgrade *upgrade, char **argv);

/* Log and keep why the program is not executed: the program's name, and @format. */
void cks_upgrade_refuse(struct cks_upgrade *upgrade, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Begin to check whether the program can continue from @state. */
void cks_upgrade_check(struct cks_upgrade *upgrade, const struct cks_state *state);

/* Process @pid has ended with wait(2)'s @status; false: not the check. */
bool cks_upgrade_ended(struct cks_upgrade *upgrade, pid_t pid, int status);

/* Milliseconds until the next call, or -1; kills a check that takes too long. */
int64_t cks_upgrade_tend(struct cks_upgrade *upgrade);

/* Execute the program. Returns only if that fails; all is as before. */
void cks_upgrade_exec(struct cks_upgrade *upgrade, const struct cks_state *state);

/* Run the process `--check-continue FD OPTIONS`; returns the exit status. */
int cks_upgrade_check_main(const struct cks_options *options, int fd);

#endif
