/*
 * util/process/stack.h - how much of the calling thread's stack is left.
 */
#ifndef CK_UTIL_PROCESS_STACK_H
#define CK_UTIL_PROCESS_STACK_H

#include <stdbool.h>
#include <stddef.h>

/* Has the calling thread @bytes left? False also if it runs on a stack of its own, as coroutines
 * do, or if that is unknown; the first thread's stack grows, and is taken to have them. */
bool ck_stack_has(size_t bytes);

#endif
