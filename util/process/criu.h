/*
 * util/process/criu.h - CRIU's reports: its release, and why it has failed.
 */
#ifndef CK_UTIL_PROCESS_CRIU_H
#define CK_UTIL_PROCESS_CRIU_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The oldest release that dumps processes of current kernels: 4.1. */
#define CK_CRIU_MAJOR 4
#define CK_CRIU_MINOR 1

#define CK_CRIU_WHY 256

/* Is @program, looked for in PATH unless it is a path, there and new enough? 0, -ENOENT, or
 * -ENOTSUP; @why says why not. */
int ck_criu_check(const char *program, char why[CK_CRIU_WHY]);

/* Wait for the end of the child @pid: its exit status, 128 and the signal, or -errno. */
int ck_criu_wait(pid_t pid);

/* The first error in the log @path, without time and source line: the others follow from it. */
bool ck_criu_error(const char *path, char *text, size_t size);
/* Is that the error of a restore that finds an id of the process, or of a thread, in use? */
bool ck_criu_ids_used(const char *error);

#endif
