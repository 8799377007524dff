/*
 * server/supervisor/host.h - the supervisor and its host: the driver, systemd, the file that names
 * its process, rpcbind.
 */
#ifndef CK_SERVER_SUPERVISOR_HOST_H
#define CK_SERVER_SUPERVISOR_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "server/session/driver.h"

/* --- the choice of the driver, in a process of its own (driver_probe.c) */

/* Choose the driver for --driver @which, with a process `--probe` that may load drivers; @gpus: see
 * cks_driver_gpus. NULL: none works (logged). */
const char *cks_driver_choose(const char *which, char gpus[CK_DRIVER_GPUS]);

/* Does the driver @which work? @why: why not. */
#define CK_DRIVER_WHY 600
bool cks_driver_check(const char *which, char why[CK_DRIVER_WHY]);

/* Run the process `--probe WHICH`: it writes the answer to descriptor 3; returns the exit
 * status. */
int cks_driver_probe_main(const char *which);

/* --- the checks of a start (start_check.c) */

struct cks_options;

/* Print into @out which values a start with @options would refuse, and why; it starts nothing.
 * 0 or -EINVAL. */
int cks_start_check(const struct cks_options *options, FILE *out);

/* --- systemd (notify.c) */

/* Tell systemd the @state, as in READY=1; without it, do nothing. */
void cks_notify(const char *state);

/* systemd ends a server that does not report in time (WatchdogSec=). */
struct cks_watchdog {
	int64_t every; /* ms between two reports; 0: none are wanted */
	int64_t next;
};

/* Read systemd's request. */
void cks_watchdog_init(struct cks_watchdog *watchdog);

/* Report, if it is time. Returns the ms until the next time, or -1: never. */
int64_t cks_watchdog_run(struct cks_watchdog *watchdog);

/* --- the file that names the server's process (pid_file.c) */

/* Write and lock @path; NULL: do nothing. *@fd keeps the lock. -errno, logged. */
int cks_pid_file_write(const char *path, int *fd);
/* @fd: -1, or as above. */
void cks_pid_file_remove(const char *path, int fd);

/* --- rpcbind (rpcbind.c) */

/* Register program 99 at the TCP port of @fd with rpcbind, if it runs, in a child process; never
 * waits. */
void cks_rpcbind_set(int fd);
/* Remove the registration; waits at most a second. */
void cks_rpcbind_unset(void);

#endif
