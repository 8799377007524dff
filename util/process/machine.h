/*
 * util/process/machine.h - the machine that this process runs on, and whether its processes have
 * ended.
 */
#ifndef CK_UTIL_PROCESS_MACHINE_H
#define CK_UTIL_PROCESS_MACHINE_H

#include <stdbool.h>
#include <sys/types.h>

#define CK_MACHINE_ID 16

/* The same for all processes of a machine, since its start, that have the same process ids; other
 * machines and PID namespaces have other ids. It reveals nothing of the machine. False: unknown,
 * and zeros. */
bool ck_machine_id(unsigned char id[CK_MACHINE_ID]);

/* The same for all processes of a running kernel, whichever their namespaces. False: unknown, and
 * zeros. */
bool ck_machine_host(unsigned char id[CK_MACHINE_ID]);

/* A descriptor that becomes readable when process @pid of this machine ends, also of another user.
 * -ESRCH: there is no such process; -ENOSYS: an old kernel. */
int ck_machine_watch(pid_t pid);

/* Has it ended? Also if its parent has not waited for it yet. False if that is unknown. */
bool ck_machine_ended(pid_t pid);

#endif
