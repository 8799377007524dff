/*
 * client/managed/fault.h - touches of pages that are not here become calls of ck_managed_touch.
 */
#ifndef CK_CLIENT_MANAGED_FAULT_H
#define CK_CLIENT_MANAGED_FAULT_H

#include <signal.h>

/* Begin to take faults: 0 or -errno. May be called again. */
int ck_fault_start(void);

/* Take them again should the program have set a handler that we did not see being set. */
void ck_fault_rearm(void);

/*
 * sigaction(2) for SIGSEGV as the program may see it: our handler stays, what it sets is called for
 * the faults that are its own. -1 and EAGAIN: we have none, the system's own is to be called.
 */
int ck_fault_sigaction(const struct sigaction *act, struct sigaction *old);

/* The C library's sigaction(2), not the one that client/managed/interpose.c puts before it. */
int ck_fault_system(int sig, const struct sigaction *act, struct sigaction *old);

#endif
