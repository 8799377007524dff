/*
 * util/process/available_memory.h - how much memory of the host can be used without swapping.
 */
#ifndef CK_UTIL_PROCESS_AVAILABLE_MEMORY_H
#define CK_UTIL_PROCESS_AVAILABLE_MEMORY_H

#include <stdint.h>

/* In bytes; 0: unknown. */
uint64_t ck_available_memory(void);

#endif
