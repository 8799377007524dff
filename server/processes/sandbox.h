/*
 * server/processes/sandbox.h - system calls that a process which serves clients never makes.
 *
 * A client that takes over a worker has the rights of the server's user. The filter leaves it fewer
 * ways on: into the kernel by rarely used calls, into other processes, and into other programs.
 */
#ifndef CK_SERVER_PROCESSES_SANDBOX_H
#define CK_SERVER_PROCESSES_SANDBOX_H

enum cks_sandbox {
	CK_SANDBOX_SERVICE, /* a process that starts others: the memory broker */
	CK_SANDBOX_WORKER,  /* it signals no other process */
	CK_SANDBOX_SESSION, /* a worker whose driver is ready: it executes no program */
};

/* 0: @word is one of CRICKET_SANDBOX (auto, on, log, off); else -EINVAL. */
int cks_sandbox_check(const char *word);

/*
 * Refuse the calls from now on, in all threads and children, as CRICKET_SANDBOX says. They fail
 * with EPERM. Returns 0 or -errno (logged); with auto, 0 also if this kernel allows no filter.
 */
int cks_sandbox_enter(enum cks_sandbox kind);

#endif
