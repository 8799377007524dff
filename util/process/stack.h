/*
 * util/process/stack.h - how much of the calling thread's stack is left, and functions that need
 * more than that: a program chooses the stacks of its threads.
 */
#ifndef CK_UTIL_PROCESS_STACK_H
#define CK_UTIL_PROCESS_STACK_H

#include <stdbool.h>
#include <stddef.h>

/* For functions of the C library that look names up: modules of the system, which nsswitch.conf
 * names, run in them and need far more than the library itself. */
#define CK_NAMES_STACK ((size_t)256 << 10)

/* Has the calling thread @bytes left? False also if it runs on a stack of its own, as coroutines
 * do, or if that is unknown; the first thread's stack grows, and is taken to have them. */
bool ck_stack_has(size_t bytes);

/* Run @run with at least @bytes of stack: in a thread of its own, without signals, if the calling
 * thread has less. -EAGAIN: it has not run, because there is no such thread. */
int ck_stack_run(size_t bytes, void (*run)(void *arg), void *arg);

#endif
