/*
 * util/cpu.h - operations for which a processor has an instruction of its own.
 */
#ifndef CK_UTIL_CPU_H
#define CK_UTIL_CPU_H

/* In a loop that waits for another thread: leave the processor's resources to its other threads. */
static inline void ck_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" : : : "memory"); /* yield does nothing on most processors */
#endif
}

#endif
