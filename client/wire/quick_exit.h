/*
 * client/wire/quick_exit.h - the process ends without its exit handlers: _exit(2), _Exit(3),
 * quick_exit(3).
 */
#ifndef CK_CLIENT_WIRE_QUICK_EXIT_H
#define CK_CLIENT_WIRE_QUICK_EXIT_H

/*
 * The sessions of this process end: their servers need not wait for other connections. Waits for
 * 300 ms at most. Does nothing in a child that has no session of its own. Async-signal-safe.
 */
void ckc_leave(void);

/* The functions of the C library that do so first; none with sanitizers, which have their own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__FUZZER__)
#define CKC_LEAVE_CALLS {"_exit", (void *)_exit}, {"_Exit", (void *)_Exit},
#endif

#endif
