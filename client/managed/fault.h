/*
 * client/managed/fault.h - turn accesses to invalid pages into calls of ckc_managed_touch.
 */
#ifndef CK_CLIENT_MANAGED_FAULT_H
#define CK_CLIENT_MANAGED_FAULT_H

#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>

/* Start handling faults: 0 or -errno. May be called again. */
int ckc_fault_start(void);

/* Install the handler again, in case the program replaced it unnoticed. */
void ckc_fault_rearm(void);

/*
 * sigaction(2) for SIGSEGV as the program sees it. The client's handler stays installed; the
 * program's is called for other faults. -1 and EAGAIN: no handler is installed, call the system's.
 */
int ckc_fault_sigaction(const struct sigaction *act, struct sigaction *old);

/* Was the access that faulted with @context a write? Also true where nothing tells: the page is
 * then valid for reads too, and is sent once more. */
bool ckc_fault_is_write(const ucontext_t *context);

/* The C library's sigaction(2), behind the one in client/managed/interpose.c. */
int ckc_fault_system(int sig, const struct sigaction *act, struct sigaction *old);

#endif
